#!/usr/bin/env python3
"""mutants.py [--list] NUMBER [TEXT]: makes plausible wrong answers to an exercise from the right one, and checks each.

The right answer is the lines of the step that the task of the exercise removes. A mutant changes one place there: a
statement or a factor less, a condition negated or fixed, another operator, a number or a name of the same type instead,
two statements exchanged, a wait of the host more. It does not count if it does not compile, or if the compiler makes
the same code as from the step or from another mutant. Prints a line for each mutant; with --list, it checks none, and
with TEXT, only those whose names hold it. A line "equal NAME" in the file answers/NUMBER lists one that the check
accepts, and the reason follows; "..." at its end stands for any text."""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

OPERAND = r'[\w.]+(?:->\w+|\[[^][]*\]|\([^()]*\))*'
REPLACED = [
    (r'\bncclSum\b', ['ncclAvg', 'ncclMax']),
    (r'cudaStreamWaitEvent\([^,]*, ([^,]*), 0\)', [r'cudaEventSynchronize(\1)']),
    (r' < ', [' <= ']), (r' <= ', [' < ']), (r' > ', [' >= ']), (r' >= ', [' > ']), (r' == ', [' != ']), (r' != ', [' == ']),
    (r' \+ ', [' - ']), (r' - ', [' + ']), (r' \* ', [' / ']), (r' / ', [' * ']),
    (r' [-+]= ', [' = ']), (r'\] = ', ['] += ']),
    (r' && ', [' || ']), (r' \|\| ', [' && ']), (r'!(?=[\w(])', ['']),
    (r' [-+*/%] ' + OPERAND, ['']), (OPERAND + r' [-+*/%] ', ['']),
    (r' --[\w-]+ [^ \\]+', ['']), (r'(?<![\w.])0(?![\w.])', ['1']), (r'(?<![\w.])1(?![\w.])', ['0', '2']),
    (r'(\([^()]*\)|' + OPERAND + r') \? (.*?) : ([^;]*?)(?=[;,)]*$)', [r'\2', r'\3']),
]
COMPILERS = {
    '.c': 'cc -x c -std=c11 -D_GNU_SOURCE -O2 -Werror=int-conversion -Werror=incompatible-pointer-types '
          '-Werror=implicit-function-declaration',
    '.cu': 'c++ -x c++ -O1 -include tests/unit/host_cuda.h',
}


def text_with_headers(path, seen):
    """The text of a source and of the headers of the course that it includes."""
    if path in seen or not path.exists():
        return ''
    seen.add(path)
    text = path.read_text()
    return text + ''.join(text_with_headers(Path(name), seen) for name in re.findall(r'^#include "(.*)"', text, re.M))


def types_in(text):
    """The types of the variables and members that a text declares. All integers are one type."""
    types = defaultdict(set)
    names = r'((?:\**\w+(?:\[[^]]*\])?, )*\**\w+(?:\[[^]]*\])?)(?= = |[;,)])'
    for kind, names in re.findall(r'\b((?:struct )?[a-z]\w*) ' + names, text):
        if kind not in ('return', 'else', 'goto'):
            kind = re.sub(r'^(int|long|size_t|uint64_t|unsigned)$', 'integer', kind)
            for stars, name, array in re.findall(r'(\**)(\w+)(\[?)[^,]*', names):
                types[name].add(kind + stars + array)
    return types


def masked(line):
    """The line without its comment, and with ~ in its strings, where nothing is replaced."""
    return re.sub(r'//.*', '', re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + '~' * (len(m[0]) - 2) + '"', line))


def other_names(name, holder, before, line, whole, types):
    """Two names of the same type, first those that share a word with this one. A number also becomes a constant."""
    here = types if holder else types_in(before + line)
    used = re.findall(re.escape(holder) + r'\b(\w+)\b(?!\()', whole) if holder else types_in(before)
    fitting = [other for other in dict.fromkeys(used) if other != name and here[other] & here[name]]
    fitting.sort(key=lambda other: not set(other.split('_')) & set(name.split('_')))
    return [holder + other for other in fitting[:2]] + (['0', '1'] if here[name] == {'integer'} else [])


def replaced(line):
    """What a line becomes by another operator or number."""
    for pattern, replacements in REPLACED:
        for m in re.finditer(pattern, masked(line)):
            for new in replacements:
                groups = re.sub(r'\\(\d)', lambda group: line[slice(*m.span(int(group[1])))], new)
                yield line[:m.start()] + groups + line[m.end():]


def renamed(lines, i, types):
    """What line i becomes by another name."""
    code = masked(lines[i])
    begin = max((k for k in range(i + 1) if re.match(r'[a-z_].*\(', lines[k])), default=0)
    before, whole = '\n'.join(lines[begin:i]), '\n'.join(lines)
    for m in re.finditer(r'(\w+(?:->|\.))?\b([a-z]\w*)\b(?!\(|->|\.)', code):
        for new in other_names(m[2], m[1] or '', before, code, whole, types):
            yield lines[i][:m.start()] + new + lines[i][m.end():]


def statement(lines, first):
    """The last line of the statement that begins in this one, and the code of both without the line's end."""
    last, code = first, masked(lines[first]).rstrip()
    while code.count('(') > code.count(')') or not re.search(r'[;{}]$|^ *(if|else|for|while)\b.*\)$', code):
        last += 1
        if last == len(lines):
            return first, code
        code += ' ' + masked(lines[last]).strip()
    return last, code


def mutants_of(path, chosen):
    """For each mutant of the chosen lines of a source: its name and its text. Each line keeps its number."""
    lines = path.read_text().split('\n')

    def mutant(first, last, new, name=None):
        text = lines[:first] + [new + '\n' * (last - first - new.count('\n'))] + lines[last + 1:]
        return path.name + ': ' + ' '.join((name or new).split()), '\n'.join(text)

    if path.suffix not in COMPILERS:
        for i in chosen:
            if not re.match(r'# |$', lines[i]):
                yield mutant(i, i, '', 'without ' + lines[i])
                yield from (mutant(i, i, new) for new in replaced(lines[i]))
        return
    types = types_in(text_with_headers(path, set()))
    last, above = -1, None
    for i in chosen:
        if i > last:
            last, code = statement(lines, i)
            whole = '\n'.join(lines[i:last + 1])
            condition = re.match(r'((?: *\} else)? *(?:if|while) \()(.*)(\)(?: \{)?)$', code)
            parts = re.split(r' (?:&&|\|\|) ', condition[2]) if condition else []
            for new in parts and [f'!({condition[2]})', '1', '0'] + parts * (len(parts) > 1):
                yield mutant(i, last, condition[1] + new + condition[3], f'{condition[1]}{new}), not {condition[2]}')
            if re.match(r' +(?!for|if|else|while|//)[^ ].*;$', code):
                yield mutant(i, last, ';', 'without ' + whole)
                for stream in re.findall(r'([\w.>-]*\bstream|[\w.>-]*_stream)\)+;$', code):
                    wait = f'{{ {whole} CUDA_CHECK(cudaStreamSynchronize({stream})); }}'
                    yield mutant(i, last, wait, 'a wait after ' + whole)
                if above and above[1] == i - 1 and not re.match(r' +(?:const |struct )*\w+ \**\w+ (?:=|\[)', code):
                    exchanged = whole + '\n' + '\n'.join(lines[above[0]:i])
                    yield mutant(above[0], last, exchanged, 'earlier: ' + whole)
                above = i, last
        if not re.match(r' *(wrong_usage|fail)\(', code): # the attendee chooses the words of messages
            yield from (mutant(i, i, new) for new in [*replaced(lines[i]), *renamed(lines, i, types)])


def code_of(path, text):
    """What the compiler makes of a source, or None. The macros contain the text of a call, so strings do not count."""
    if path.suffix not in COMPILERS:
        return text
    command = COMPILERS[path.suffix] + f' -I. -Icpu_device/include -I{path.parent} -S -o - -'
    run = subprocess.run(command.split(), input=text, capture_output=True, text=True, check=False)
    return None if run.returncode else re.sub(r'\t\.string.*\n', '', run.stdout)


def answer(number, folder):
    """Of each source that the task of an exercise changes: the numbers of the lines that belong to the answer."""
    task = Path(subprocess.check_output(['exercises/run.sh', 'folder', number], text=True).strip(), 'task')
    subprocess.run(['exercises/run.sh', 'cut', number, folder], check=True)
    for path in map(Path, re.findall(r'^file (.*)', task.read_text(), re.M)):
        cut, right = (folder / path.name).read_text().split('\n'), path.read_text().split('\n')
        blocks = difflib.SequenceMatcher(None, cut, right, autojunk=False).get_opcodes()
        yield path, [i for kind, _, _, first, last in blocks if kind != 'equal' for i in range(first, last)]


def check(number, folder):
    """What the check of the exercise says of the sources in the folder."""
    limits = {'LIMIT': '10', 'CPU_DEVICE_TIMEOUT': '3', 'CHAOS': '1'}
    run = subprocess.run(['exercises/run.sh', 'try', number, folder], env={**limits, **os.environ},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    refused = re.search('^wrong.*', run.stdout, re.M)
    if run.returncode and not refused or 'it does not compile' in run.stdout:
        sys.exit(f'error: the check of {number} does not run a mutant\n{run.stdout}')
    if run.returncode == 0:
        return 'costs' if 'right, and it costs' in run.stdout else 'accepted'
    return 'refused, ' + refused[0]


def try_all(number, part, folder, only_list):
    """Tries the mutants of an exercise whose names hold the part. Returns whether one is wrong, and accepted."""
    equal = re.findall(r'^equal (.*)', Path(__file__).with_name('answers').joinpath(number).read_text(), re.M)
    unused, counts = set(equal), defaultdict(int)
    answers = dict(answer(number, folder))
    for path, lines in answers.items():
        for source in answers:
            (folder / source.name).write_text(source.read_text())
        codes = {code_of(path, path.read_text())}
        assert codes != {None}, f'{path} does not compile'
        for name, text in mutants_of(path, lines):
            code = code_of(path, text) if part in name else None
            if code is None or code in codes:
                continue
            codes.add(code)
            listed = [line for line in equal if line == name or line.endswith('...') and name.startswith(line[:-3])]
            (folder / path.name).write_text(text)
            said = 'made' if only_list else 'equal' if listed else check(number, folder)
            counts[said.split(',')[0]] += 1
            print(f'{said}: {name}', flush=True)
            unused.difference_update(listed)
    for line in unused if not part else []:
        print('note: answers names a mutant that there is not:', line)
    print(f'{number}: {sum(counts.values())} mutants,', ', '.join(f'{counts[kind]} {kind}' for kind in sorted(counts)))
    return counts['accepted'] > 0


def main():
    words = [word for word in sys.argv[1:] if word != '--list']
    build = Path(os.environ.get('BUILD', 'build/cpu'))
    build.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        failed = try_all(words[0], ' '.join(words[1:]), Path(os.path.relpath(folder)), '--list' in sys.argv)
        shutil.rmtree(build / os.path.relpath(folder), ignore_errors=True) # the objects
    sys.exit(failed)


main()
