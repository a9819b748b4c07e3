"""Training questions that are written by hand: what a generator does not say.

A file has blocks, with a line of `====` between them. A block shows something and asks about it:

    CREATE TABLE hives (label TEXT, honey_kg REAL);
    ? which hive gave the most honey
    SELECT label FROM hives ORDER BY honey_kg DESC LIMIT 1

or is one task, whatever its lines are, with its answer below it:

    remove the nulls: {"a": 1, "note": null}
    => {"a": 1}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count, islice
from math import floor
from pathlib import Path
from typing import Any

from .draw import Draw
from .rows import Fits, Messages, answers_of, conversation

Row = dict[str, Any]
DIVIDER = re.compile(r"^={4,}\n", re.MULTILINE)
ANSWER = "\n=> "


@dataclass(frozen=True)
class Block:
    shown: str
    asked: tuple[tuple[str, str], ...]


@cache
def blocks(folder: Path) -> tuple[Block, ...]:
    """Those of all text files, in the order of the files' names."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))]
    return tuple(_block(part) for text in texts for part in DIVIDER.split(text) if part.strip())


def _block(text: str) -> Block:
    text = text.strip("\n")
    if ANSWER in text:
        question, _, answer = text.rpartition(ANSWER)
        return Block("", ((question, answer),))
    shown, *questions = re.split(r"^\? ", text, flags=re.MULTILINE)
    pairs = [question.strip().partition("\n") for question in questions]
    return Block(shown.strip(), tuple((question.strip(), answer.strip()) for question, _, answer in pairs))


def written_rows(
    folder: Path,
    system: str,
    fits: Fits,
    name: str,
    *,
    wanted: Callable[[str], bool],
    level: Callable[[str], int],
) -> Iterator[Row]:
    """Training rows of a folder's questions whose answer is wanted, each with its hardest answer's level."""
    found = [
        Block(block.shown, tuple(pair for pair in block.asked if wanted(pair[1]))) for block in blocks(folder)
    ]
    for messages in conversations(found, system, fits, name):
        row: Row = {"messages": messages, "tags": ["written"]}
        yield {**row, "level": max(map(level, answers_of(row)))}


def conversations(found: Iterable[Block], system: str, fits: Fits, name: str) -> Iterator[Messages]:
    """Each question with others of its block, in conversations that fit; after the last one they come again
    with others, without end."""
    found = [block for block in found if block.asked]
    seen: set[tuple[str, ...]] = set()
    for turn in count():
        draw = Draw(f"{name}/written/{turn}")
        fresh = 0
        for block in draw.shuffled(found):
            for messages in _dealt(block, draw, system, fits):
                texts = tuple(message["content"] for message in messages)
                if texts not in seen:
                    seen.add(texts)
                    fresh += 1
                    yield messages
        if not fresh:
            return


def _dealt(block: Block, draw: Draw, system: str, fits: Fits) -> Iterator[Messages]:
    messages: Messages = []
    for question, answer in draw.shuffled(block.asked):
        further = conversation(system, question, answer)[1:]
        if messages and not fits([*messages, *further]):
            yield messages
            messages = []
        if not messages:
            first = f"{block.shown}\n{question}" if block.shown else question
            messages = conversation(system, first, answer)
        else:
            messages = [*messages, *further]
    if messages:
        yield messages


def among(generated: Iterator[Row], written: Iterator[Row], share: Fraction, rows: int) -> Iterator[Row]:
    """So many rows, this share of them written ones as long as there are any: also of any number of the
    first rows."""
    return islice(_in_turn(generated, written, share), rows)


def _in_turn(generated: Iterator[Row], written: Iterator[Row], share: Fraction) -> Iterator[Row]:
    for place in count(1):
        row = next(written, None) if floor(place * share) > floor((place - 1) * share) else None
        row = row or next(generated, None)
        if row is None:
            return
        yield row
