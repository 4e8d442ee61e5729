#!/usr/bin/env python3
"""Prints each dead or faulty link of the Markdown files: links.py [FILE...], from the root of the repository.

A relative link must lead to a file or folder of the repository, and an anchor to a heading, by GitHub's rules. An image must
have an alternative text. An external address is not called: it only must be well-formed. Code is left out."""
import os
import re
import sys
import urllib.parse

NOT_OURS = {'.git', 'build', 'data', 'work'}  # at the root: no part of a clone
# Marp's words in front of the alternative text of a picture, such as "w:900" and "bg right:40%".
MARP = re.compile(r'^(bg|fit|cover|contain|auto|left|right|center|vertical|(w|h|width|height|left|right):\S+|\d+%)$')
LINK = re.compile(r'(!?)\[((?:[^\[\]]|!?\[[^\[\]]*\](?:\([^()\s]*\))?)*)\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?\s*'
                  r'(?:"[^"]*"\s*)?\)')
DEFINITION = re.compile(r'^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*(?:"[^"]*")?$', re.M)
TAG = re.compile(r'<(img|a)\b([^>]*)>', re.S)
BARE = re.compile(r'(?<![("\w])<?(https?:[^\s<>`"]*)')


def blank(match):
    """Spaces instead of the text, so that the numbers of the lines stay."""
    return re.sub(r'[^\n]', ' ', match.group())


def without_code(text):
    text = re.sub(r'^( *)(```+|~~~+).*?^ *\2`*~* *$', blank, text, flags=re.M | re.S)
    text = re.sub(r'(?<!`)(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)', blank, text, flags=re.S)
    return re.sub(r'<!--.*?-->', blank, text, flags=re.S)


def anchors(text):
    """The anchors of a file: its headings in lower case, without punctuation, with - for each space; -1, -2 if repeated."""
    text = re.sub(r'^( *)(```+|~~~+).*?^ *\2`*~* *$', blank, text, flags=re.M | re.S)
    found = set(re.findall(r'<[^>]*\b(?:id|name)="([^"]+)"', text))
    for heading in re.findall(r'^ {0,3}#{1,6} +(.*?)(?: +#+)? *$', text, re.M):
        heading = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', heading)  # the text of a link
        name = re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
        number = 0
        while (name if number == 0 else f'{name}-{number}') in found:
            number += 1
        found.add(name if number == 0 else f'{name}-{number}')
    return found


def read(path, cache={}):
    if path not in cache:
        with open(path, encoding='utf-8') as file:
            cache[path] = file.read()
    return cache[path]


def fault_outside(address):
    """What is wrong with an external address, or None."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == 'mailto':
        return None if re.fullmatch(r'[^@\s]+@[^@\s]+\.[a-z]+', parts.path) else 'is no address of a person'
    if parts.scheme not in ('http', 'https'):
        return 'has an unknown scheme'
    if not re.fullmatch(r'([a-z0-9-]+\.)+[a-z]{2,}(:\d+)?|localhost(:\d+)?', parts.netloc.lower()):
        return 'has no valid host'
    if '://' in parts.path or not re.fullmatch(r"[\w\-./~%!$&'()*+,;=:@]*", parts.path, re.A):
        return 'has a path with a forbidden character'
    return None


def fault(path, target):
    """What is wrong with this target of a link in the file, or None."""
    if re.match(r'[a-z][a-z+.-]*:', target, re.I):
        return fault_outside(target)
    name, mark, anchor = target.partition('#')
    name = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(name))) if name else path
    if target == '' or name.startswith(('..', '/')):
        return 'leads out of the repository' if target else 'is empty'
    if not os.path.exists(name):
        return 'does not exist'
    if name.split(os.sep)[0] in NOT_OURS:
        return 'is no file of a fresh clone'
    if mark and not (name.endswith('.md') and anchor in anchors(read(name))):
        return 'has no such heading'
    return None


def links(text):
    """Yields the place, the target, and for an image also the alternative text."""
    text = without_code(text)
    todo = [(0, text)]
    while todo:  # the text of a link may hold an image
        start, part = todo.pop()
        for match in LINK.finditer(part):
            yield start + match.start(), match.group(3), match.group(2) if match.group(1) else None
            todo.append((start + match.start(2), match.group(2)))
    for match in DEFINITION.finditer(text):
        yield match.start(), match.group(1), None
    for match in TAG.finditer(text):
        values = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2)))
        if match.group(1) == 'img':
            yield match.start(), values.get('src', ''), values.get('alt', '')
        elif 'href' in values:
            yield match.start(), values['href'], None
    for match in BARE.finditer(LINK.sub(blank, DEFINITION.sub(blank, TAG.sub(blank, text)))):
        yield match.start(), match.group(1).rstrip('.,;:!?)'), None


def texts():
    for folder, folders, names in os.walk('.'):
        folder = os.path.normpath(folder)
        folders[:] = sorted(name for name in folders if folder != '.' or name not in NOT_OURS)
        yield from (os.path.normpath(os.path.join(folder, name)) for name in sorted(names) if name.endswith('.md'))


def main():
    count = faults = 0
    for path in sys.argv[1:] or texts():
        text = read(path)
        for place, target, alternative in links(text):
            count += 1
            reasons = [fault(path, target)]
            if alternative is not None and all(MARP.match(word) for word in alternative.split()):
                reasons.append('is an image without an alternative text')
            for reason in filter(None, reasons):
                faults += 1
                print(f'{path}:{text.count(chr(10), 0, place) + 1}: {target} {reason}')
    print(f'{count} links', file=sys.stderr)
    return faults > 0


sys.exit(main())
