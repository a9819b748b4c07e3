"""The sentence of a request: one of `wordings.txt` with its slots filled in, typed as people type, beside its payload."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed

from .worlds import words_of

CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")
SLOT = re.compile(r"\{(\w+)\}")
# "Do you know what does it say" is not English.
INVERTED = re.compile(
    r"^(?:do you know|please \w+ me) (?=(?:what|which|how|why) (?:is|are|do|does|would|should|won't)\b)",
    re.I,
)
# Slots that are plain words: they may be typed in small letters or with a typo.
PLAIN_SLOTS = ("noun", "nouns", "source", "format", "result", "direction")
# Stands for what must stay letter by letter while the sentence around it is typed.
MARK = 0xE000


@cache
def wordings() -> Mapping[str, tuple[str, ...]]:
    text = (Path(__file__).resolve().parent / "wordings.txt").read_text(encoding="utf-8")
    parts = [part.splitlines() for part in text.split("\n## ")[1:]]
    return {name: tuple(line for line in lines if line) for name, *lines in parts}


def chosen(pattern: str, draw: Draw) -> str:
    """One of the words of each choice."""
    while found := CHOICE.search(pattern):
        pattern = pattern[: found.start()] + draw.one(found[1].split("|")) + pattern[found.end() :]
    return re.sub(r" +(?=[ ,.:;?!]|$)", "", pattern).strip()


def phrase(intent: str, draw: Draw, **slots: str) -> str:
    """A wording without the typing: for a part of a longer sentence."""
    return SLOT.sub(lambda found: slots[found[1]], chosen(draw.one(wordings()[intent]), draw))


def request(intent: str, draw: Draw, payload: str = "", hints: Sequence[str] = (), **slots: str) -> str:
    """What somebody would send: the typed sentence and the payload in one of many arrangements."""
    patterns = [pattern for pattern in wordings()[intent] if _fits(pattern, payload, hints)]
    pattern = chosen(draw.one(patterns), draw)
    inline = "{payload}" in pattern
    for slot in PLAIN_SLOTS:
        if slot in slots:
            article = "an" if re.match(r"(?!user|used|us\b|one|uni)[aeiou]", slots[slot]) else "a"
            pattern = re.sub(rf"\b([Aa]) (?=\{{{slot}\}})", rf"{article} ", pattern)
            pattern = pattern.replace("{" + slot + "}", slots[slot])
    held: list[str] = []
    filled = {**slots, "payload": payload}

    def hold(found: re.Match[str]) -> str:
        held.append(filled[found[1]])
        return chr(MARK + len(held) - 1)

    sentence = _with_hints(SLOT.sub(hold, pattern), hints, draw)
    # A polite form makes the first letter small, also that of JSON.
    typed = re.sub(r"\b[a-z][A-Z]{2,}\b", lambda found: found[0].upper(), as_typed(sentence, draw))
    typed = re.sub(f"[{chr(MARK)}-{chr(MARK + 99)}]", lambda found: held[ord(found[0]) - MARK], typed)
    typed = INVERTED.sub("quick question: ", typed)
    return typed if inline or not payload else arranged(typed, payload, draw)


def _fits(pattern: str, payload: str, hints: Sequence[str]) -> bool:
    """In the middle of a sentence there is room for one line only."""
    if "{payload}" not in pattern:
        return True
    quoted = '"{payload}"' in pattern
    return bool(payload) and "\n" not in payload and not hints and not (quoted and '"' in payload)


def _with_hints(sentence: str, hints: Sequence[str], draw: Draw) -> str:
    for hint in hints:
        if sentence.endswith("?"):
            sentence = f"{sentence} {hint[:1].upper()}{hint[1:]}"
        else:
            sentence = draw.one(("{}, {}", "{} ({})", "{}; {}", "{}. {}", "{}, {}")).format(sentence, hint)
    return sentence


def arranged(typed: str, payload: str, draw: Draw) -> str:
    head = typed if typed.endswith((".", "?", "!", ":")) else f"{typed}:"
    forms = [f"{head}\n{payload}", f"{typed}\n\n{payload}", f"{typed}\n{payload}", f"{payload}\n\n{typed}"]
    weights = [3.0, 2.0, 2.0, 1.5]
    if "\n" not in payload:
        forms += [f"{head} {payload}", f"{payload}\n{typed}"]
        weights += [6.0, 0.5]
    elif draw.chance(0.1):
        return f"{typed}\n```\n{payload}\n```"
    return draw.weighted(forms, weights)


def series(words: Sequence[str], draw: Draw) -> str:
    """`a, b and c`, sometimes `a, b, c`."""
    if len(words) == 1:
        return words[0]
    last = draw.weighted((" and ", ", ", " & ", " + "), (10, 6, 0.7, 0.7))
    return ", ".join(words[:-1]) + last + words[-1]


def keys_said(keys: Sequence[str], draw: Draw) -> str:
    """Keys that the answer has: bare, in quotes, as code, as an array."""
    style = draw.weighted(("bare", "quoted", "single", "code", "array"), (12, 3, 1, 1, 1))
    if style == "array" and len(keys) > 1:
        return "[" + ", ".join(f'"{key}"' for key in keys) + "]"
    marks = {"quoted": '"{}"', "single": "'{}'", "code": "`{}`"}
    return series([marks.get(style, "{}").format(key) for key in keys], draw)


def mentioned(key: str, draw: Draw) -> str:
    """A key that the payload has: as it stands there, in quotes, or as plain words."""
    return draw.weighted((key, f'"{key}"', f"'{key}'", words_of(key)), (6, 2, 0.5, 2))


def mentions(keys: Sequence[str], draw: Draw) -> str:
    if draw.chance(0.3):
        return series([words_of(key) for key in keys], draw)
    return keys_said(keys, draw)
