"""Data goes to standard output, talk to standard error."""

from __future__ import annotations

import sys


def put(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def talk(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
