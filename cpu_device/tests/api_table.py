#!/usr/bin/env python3
"""Prints the tables of API.md: one row for each rule in test_*.c. The argument is REFUSES or
RETURNS, the macro that begins such a test."""
import glob
import os
import re
import sys

HEADS = {"REFUSES": ["function", "refuses", "NVIDIA", "error", "last error", "test"],
         "RETURNS": ["function", "of what", "when the call returns", "test"]}
WORDS = {"ERROR": "error", "UNDEFINED": "undefined", "ALLOWED": "allowed", "STAYS": "stays", "GOES": "no"}


def rows(macro):
    text = "".join(open(name, encoding="utf-8").read() for name in sorted(glob.glob(os.path.dirname(os.path.abspath(__file__)) + "/test_*.c")))
    text = re.sub(r'"\s*"', "", text)  # a long string has several parts
    for arguments in re.findall(rf"^{macro}\((.*?)\)\s*{{", text, re.M | re.S):
        test, functions, *rest = (word.strip('"') for word in re.findall(r'"[^"]*"|\w+', arguments))
        cells = [functions, *(WORDS.get(word, word) for word in rest)]
        yield [*(re.sub(r"\b(NULL|[a-z]+[A-Z]\w*|[A-Z]+_\w+)", r"`\1`", cell) for cell in cells), f"`{test}`"]


for row in [HEADS[sys.argv[1]], ["---"] * len(HEADS[sys.argv[1]]), *rows(sys.argv[1])]:
    print("|", " | ".join(row), "|")
