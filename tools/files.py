"""Writes files for the other tools. If this fails, the tool ends with one line that names the file."""
import os
import sys


def make_folder(path):
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        sys.exit(f"error: {path}: {error.strerror}")


def write(path, content):
    """Writes text or bytes."""
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:  # which has no name of the file if the disk is full
        sys.exit(f"error: {path}: {error.strerror}")
