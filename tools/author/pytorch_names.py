#!/usr/bin/env python3
"""Prints the tables "What PyTorch calls it" of all steps, for docs/pytorch.md: pytorch_names.py, from any folder."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent.parent
for readme in sorted(root.glob('0*_*/README.md')):
    text = readme.read_text(encoding='utf-8')
    title = re.match(r'# Step (\d+): (.*)\n', text)
    section = re.search(r'^## What PyTorch calls it\n(.*?)(?=^## |\Z)', text, re.M | re.S)
    table = section and re.search(r'^\| here \|.*\n(?:\|.*\n)+', section.group(1), re.M)
    if not title or not table:
        sys.exit(f'error: {readme.relative_to(root)} has no title or no table "What PyTorch calls it"')
    number, name = title.groups()
    print(f'## {name[0].upper()}{name[1:]}\n\n[Step {number}](../{readme.parent.name}/README.md):\n\n{table.group()}')
