"""Data goes to standard output, messages to standard error; neither can steer a terminal."""

from __future__ import annotations

import sys
import unicodedata
from typing import TextIO

# As expert-cli: marks that turn, join or hide text without being seen, besides all control characters.
_HIDING = (
    (0x61C, 0x61C),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
)


def visible(text: str) -> str:
    """Names of files, runs and programs may hold anything; a terminal gets only what can be seen."""
    return "".join(c if c in "\n\t" or _is_visible(c) else "\ufffd" for c in text)


def _is_visible(c: str) -> bool:
    hides = any(first <= ord(c) <= last for first, last in _HIDING)
    # A name that is not UTF-8 holds surrogates, which no terminal takes.
    return not hides and unicodedata.category(c) not in ("Cc", "Cs")


def put(text: str) -> None:
    _write(sys.stdout, text)


def talk(text: str) -> None:
    _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    stream.write(visible(text if text.endswith("\n") else text + "\n"))
    stream.flush()
