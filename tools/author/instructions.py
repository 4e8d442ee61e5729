#!/usr/bin/env python3
"""Prints how many instructions a thread executes in the loops of the GPU's kernels.

    tools/author/instructions.py                             # all kernels
    tools/author/instructions.py image_to_patches max_pool   # those whose names begin so

nvcc compiles */kernels/*.cu for sm_90, and this program reads the machine code: an instruction has 16 bytes, and the
lowest 12 bits are its code. It prints one line for each loop, the outer ones first:

    max_pool_kernel                 86..135    62 instructions   2 loads   1 stores   in it 91..110

The numbers of the inner loops ("in it") are not in those of the outer ones. Neither are the blocks that call a subroutine,
such as that of a 64-bit division, which has a shorter path for numbers below 2^32. A compiler unrolls loops: one with 4
loads, where the source has one, computes four elements. common/kernels/cpu_launch.c has a table with the results.
"""
import glob
import re
import struct
import subprocess
import sys
import tempfile

BRANCH, CALL, RETURN, EXIT = 0x947, 0x944, 0x950, 0x94D
LOADS, STORES = {0x381, 0x981}, {0x386, 0x986}
ALWAYS = 7  # the predicate of an instruction without a condition


def kernels(source):
    """Yields the name and the machine code of each kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        subprocess.run(["nvcc", "-arch=sm_90", "-O3", "-I.", "-cubin", "-o", out.name, source], check=True)
        elf = out.read()
    table, = struct.unpack_from("<Q", elf, 0x28)
    count, names = struct.unpack_from("<HH", elf, 0x3C)
    sections = [struct.unpack_from("<IIQQQQ", elf, table + 64 * i) for i in range(count)]
    for name, _, _, _, offset, size in sections:
        text = elf[sections[names][4] + name:].split(b"\0", 1)[0].decode()
        if mangled := re.match(r"\.text\._Z(?:L|N\d+\w+?)?(\d+)(\w+)", text):
            length = int(mangled[1])
            kind = "<16 bits>" if mangled[2][length:].startswith("ItE") else ""
            yield mangled[2][:length] + kind, elf[offset:offset + size]


def decode(code):
    """Returns (code, predicate, target) of each instruction. Targets are numbers of instructions."""
    result = []
    for at in range(0, len(code), 16):
        low, high = struct.unpack_from("<QQ", code, at)
        distance = low >> 34 | (high & 0x3FFFF) << 30
        distance = (distance - (distance >> 47 << 48)) << 8 | low >> 16 & 0xFF  # signed, in 4 bytes
        target = (at + 16 + 4 * distance) // 16
        result.append((low & 0xFFF, low >> 12 & 15, target if low & 0xFFF == BRANCH else None))
    return result


def slow_blocks(code):
    """Returns the instructions of blocks that call a subroutine, with those behind that jump back from it."""
    leaders = {0} | {t for _, _, t in code if t is not None}
    leaders |= {i + 1 for i, (op, _, _) in enumerate(code) if op in (BRANCH, CALL, RETURN, EXIT)}
    slow, block, follows = set(), [], False
    for i, (op, predicate, _) in enumerate(code):
        if i in leaders:
            follows = bool(block) and code[block[-1]][0] == CALL and i not in {t for _, _, t in code}
            block = []
        block.append(i)
        if op == CALL or follows and op == BRANCH and predicate == ALWAYS:
            slow |= set(block)
    return slow


def loops(code):
    """Returns (begin, end, instructions, loads, stores, inner loops), the outer loops first."""
    ends = {}
    for i, (op, _, target) in enumerate(code):
        if op == BRANCH and target < i:
            ends[target] = max(i, ends.get(target, 0))
    ranges = sorted(ends.items(), key=lambda r: (r[0], -r[1]))
    slow = slow_blocks(code)
    for begin, end in ranges:
        inner = [r for r in ranges if begin <= r[0] and r[1] <= end and r != (begin, end)]
        own = [code[i][0] for i in range(begin, end + 1)
               if i not in slow and not any(a <= i <= b for a, b in inner)]
        yield begin, end, len(own), sum(op in LOADS for op in own), sum(op in STORES for op in own), inner


def main():
    for source in sorted(glob.glob("*/kernels/*.cu")):
        for name, code in sorted(kernels(source)):
            if sys.argv[1:] and not name.startswith(tuple(sys.argv[1:])):
                continue
            for begin, end, count, loads, stores, inner in loops(decode(code)):
                note = "   in it " + ", ".join(f"{a}..{b}" for a, b in inner) if inner else ""
                print(f"{name:36} {begin:4}..{end:<4} {count:4} instructions {loads:3} loads {stores:3} stores{note}")


if __name__ == "__main__":
    main()
