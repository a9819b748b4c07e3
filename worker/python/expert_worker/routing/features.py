"""A prompt as hashed features: its words, pieces of its text, and pieces of its shape.

The shape has a letter for each word and a digit for each number, and keeps the punctuation: it shows JSON,
code or a schema whatever names are in it.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]

BITS = 13
COUNT = 1 << BITS
# Of a longer prompt its beginning and its end are read, half of this each.
LONGEST = 2_400

_TEXT_PIECES = (3, 4)
_SHAPE_PIECES = (1, 2, 3)
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+")
_SPACE = re.compile(r"\s+")
_STEP = np.uint64(0x100000001B3)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LAST = np.uint64(0xD6E8FEB86659FD93)


def prompt_of(messages: Sequence[Mapping[str, str]]) -> str:
    """What a router reads of a conversation: the user's messages."""
    return "\n".join(message["content"] for message in messages if message["role"] == "user")


def features(prompt: str) -> NDArray[np.int64]:
    """The numbers of the features that the prompt has, sorted; a feature counts once."""
    has = np.zeros(COUNT, dtype=np.bool_)
    for part in _parts(bounded(prompt)):
        has[part] = True
    return np.flatnonzero(has)


def matrix(prompts: Sequence[str]) -> NDArray[np.float32]:
    """One row of length 1 for each prompt."""
    rows = np.zeros((len(prompts), COUNT), dtype=np.float32)
    for row, prompt in zip(rows, prompts, strict=True):
        found = features(prompt)
        row[found] = weight(len(found))
    return rows


def weight(count: int) -> float:
    """Of each of `count` features, so that a row has the length 1."""
    return 1.0 / math.sqrt(max(count, 1))


def bounded(prompt: str) -> str:
    if len(prompt) <= LONGEST:
        return prompt
    half = LONGEST // 2
    return f"{prompt[:half]} {prompt[-half:]}"


def _parts(prompt: str) -> Iterator[NDArray[np.int64]]:
    text = f" {_SPACE.sub(' ', prompt.lower()).strip()} "
    tokens = [zlib.crc32(token.encode("utf-8", "surrogatepass")) for token in _TOKEN.findall(text)]
    yield from _hashed(np.array(tokens, dtype=np.uint64), (1,), 1)
    yield from _hashed(_characters(_NUMBER.sub("0", text)), _TEXT_PIECES, 2)
    shape = _SPACE.sub(" ", _NUMBER.sub("0", _WORD.sub("a", prompt))).strip()
    yield from _hashed(_characters(shape), _SHAPE_PIECES, 3)


def _characters(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)


def _hashed(codes: Codes, lengths: Sequence[int], kind: int) -> Iterator[NDArray[np.int64]]:
    """The features of all pieces of these lengths; arithmetic of unsigned numbers wraps."""
    mixed = codes * _MIX
    mixed ^= mixed >> np.uint64(29)
    for length in lengths:
        pieces = len(codes) - length + 1
        if pieces < 1:
            return
        found = np.full(pieces, 16 * kind + length, dtype=np.uint64)
        for place in range(length):
            found *= _STEP
            found += mixed[place : place + pieces]
        found *= _MIX
        found ^= found >> np.uint64(32)
        found *= _LAST
        yield (found >> np.uint64(64 - BITS)).astype(np.int64)
