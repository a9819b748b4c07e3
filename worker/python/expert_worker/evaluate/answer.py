"""The answer in what a model wrote: without code fences, labels and prose, by one rule for every model."""

from __future__ import annotations

import re

LONGEST = 100_000
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)


def unfenced(text: str) -> str:
    """The first fenced block, or the whole text where there is none."""
    text = text[:LONGEST]
    found = _FENCE.search(text)
    return (found.group(1) if found else text).strip()


def statement(text: str, *starts: str) -> str:
    """One statement of a query language: from the first opening word to a semicolon or an empty line.

    Empty where no opening word stands at the start of a line or after a colon: prose is not an answer.
    """
    body = unfenced(text)
    words = "|".join(starts)
    found = re.search(rf"(?:^|\n|:)\s*((?:{words})\b.*)", body, re.IGNORECASE | re.DOTALL)
    if found is None:
        return ""
    return _until_end(found.group(1)).strip()


def _until_end(text: str) -> str:
    """Up to a semicolon outside quotes, or an empty line."""
    quote = ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        elif sign == ";" or text.startswith("\n\n", place):
            return text[:place]
    return text


def json_text(text: str) -> str:
    """The first balanced {...} or [...] where prose stands around it; else the text itself."""
    body = unfenced(text)
    if not body or body[0] in '{["-0123456789tfn':
        start = 0
    else:
        starts = [place for place in (body.find("{"), body.find("[")) if place >= 0]
        if not starts:
            return body
        start = min(starts)
    if body[start : start + 1] not in ("{", "["):
        return body
    end = _closing(body, start)
    return body[start:end]


def _closing(body: str, start: int) -> int:
    depth, quoted, escaped = 0, False, False
    for place in range(start, len(body)):
        sign = body[place]
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = sign == "\\", sign != '"'
        elif sign == '"':
            quoted = True
        elif sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
            if depth == 0:
                return place + 1
    return len(body)
