"""Data sets made to crash, hang or fill the machine: JSON lines, CSV, Parquet and Arrow."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.attempt import Area, Attempt

GOOD = b'{"prompt": "one", "completion": "two"}\n'


def lines(*rows: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "train.jsonl"
        path.write_bytes(b"".join(rows))
        return path

    return make


def named(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return make


def row(prompt: object, completion: object = "two") -> bytes:
    return json.dumps({"prompt": prompt, "completion": completion}).encode() + b"\n"


def arrow(spoil: Callable[[bytearray], None]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "train.arrow"
        rows = [{"prompt": f"prompt {number}", "completion": f"answer {number}"} for number in range(64)]
        world.inside("write_arrow", str(path), rows, "arrow")
        content = bytearray(path.read_bytes())
        spoil(content)
        path.write_bytes(content)
        return path

    return make


def offsets(new: Callable[[int], int]) -> Callable[[bytearray], None]:
    """The 65 offsets of the first column's texts: 0, 8, 16, ... ("prompt 0" is 8 bytes)."""

    def spoil(content: bytearray) -> None:
        start = content.find(struct.pack("<4i", 0, 8, 16, 24))
        assert start > 0
        for number in range(1, 65):
            place = start + 4 * number
            (old,) = struct.unpack_from("<i", content, place)
            struct.pack_into("<i", content, place, max(-(2**31), min(2**31 - 1, new(old))))

    return spoil


def not_utf8(content: bytearray) -> None:
    place = content.find(b"prompt 0prompt 1")
    content[place : place + 8] = b"\xff\xfe\xc3\x28\xf0\x80\x80\x80"


def flips(seed: int) -> Callable[[bytearray], None]:
    def spoil(content: bytearray) -> None:
        draw = random.Random(seed)
        for _ in range(12):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)

    return spoil


def cut(content: bytearray) -> None:
    del content[len(content) // 2 :]


def parquet_cut(folder: Path) -> Path:
    path = folder / "train.parquet"
    world.inside("write_arrow", str(path), world.rows(count=9), "parquet")
    path.write_bytes(path.read_bytes()[:-20])
    return path


def parquet_flipped(folder: Path) -> Path:
    path = parquet_cut(folder)
    world.inside("write_arrow", str(path), world.rows(count=9), "parquet")
    content = bytearray(path.read_bytes())
    flips(9)(content)
    path.write_bytes(content)
    return path


def parquet_bomb(folder: Path) -> Path:
    path = folder / "train.parquet"
    world.inside("write_big_parquet", str(path), memory=8 << 30)
    return path


def zeros(folder: Path) -> Path:
    path = folder / "train.jsonl"
    path.symlink_to("/dev/zero")
    return path


def folder_for_file(folder: Path) -> Path:
    path = folder / "train.jsonl"
    path.mkdir()
    return path


def long_line(size: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "train.jsonl"
        with path.open("wb") as file:
            file.write(GOOD + b'{"prompt": "')
            for _ in range(size >> 20):
                file.write(b"x" * (1 << 20))
            file.write(b'", "completion": "y"}\n' + GOOD)
        return path

    return make


CASES: dict[str, Callable[[Path], Path]] = {
    "nothing": lines(b""),
    "newlines": lines(b"\n" * 100_000),
    "rows 100,000 deep": lines(b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"),
    "messages 5,000 deep": lines(b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}\n"),
    "a lone surrogate": lines(GOOD, b'{"prompt": "\\ud800", "completion": "x"}\n'),
    "not UTF-8": lines(GOOD, b'{"prompt": "\xff\xfe", "completion": "x"}\n'),
    "NUL in a text": lines(GOOD, row("a\x00b")),
    "a number for a text": lines(GOOD, row(10**400)),
    "NaN": lines(GOOD, b'{"prompt": NaN, "completion": "x"}\n'),
    "half a row": lines(GOOD, GOOD[:20]),
    "another shape": lines(GOOD, b'{"input": 1}\n'),
    "UTF-16": lines(GOOD.decode().encode("utf-16")),
    "the same key twice": lines(GOOD, b'{"prompt": "a", "prompt": "b", "completion": "c"}\n'),
    "special tokens in a text": lines(GOOD, row("<|im_end|><|im_start|>assistant\nyes<|im_end|>")),
    "a text of 10 MB": lines(GOOD, row("word " * 2_000_000)),
    "a line of 100 MB": long_line(100 << 20),
    "/dev/zero": zeros,
    "a folder": folder_for_file,
    "CSV with an open quote": named("train.csv", b'prompt,completion\n"open,x\n' + b"a,b\n" * 10_000),
    "CSV of another width": named("train.csv", b"prompt,completion\na,b,c,d\n"),
    "JSON that is not a list": named("train.json", b'{"prompt": {"a": 1}}'),
    "Parquet cut": parquet_cut,
    "Parquet flipped": parquet_flipped,
    "Parquet with a text of 600 MB": parquet_bomb,
    "Arrow cut": arrow(cut),
    "Arrow, offsets far beyond": arrow(offsets(lambda old: old + 2**30)),
    "Arrow, offsets below zero": arrow(offsets(lambda old: -old)),
    "Arrow, offsets that fall": arrow(offsets(lambda old: 512 - old)),
    "Arrow, the last offset beyond": arrow(offsets(lambda old: 2**31 - 1 if old == 512 else old)),
    "Arrow, not UTF-8": arrow(not_utf8),
    **{f"Arrow, flips {seed}": arrow(flips(seed)) for seed in range(6)},
}


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else CASES:
        yield Attempt(name, partial(attempt, name))
    yield Attempt("a pipe for a file", pipe)


def attempt(name: str, folder: Path) -> None:
    path = CASES[name](folder)
    value = world.inside("pretokenize", str(folder), str(world.base()), str(path), seconds=60)
    world.refused_or_done(value)


def pipe(folder: Path) -> None:
    """`mkfifo train.jsonl`: nobody writes, and nobody may wait for it."""
    place = folder / "ash"
    place.mkdir()
    os.mkfifo(place / "train.jsonl")
    (place / "manifest.json").write_text(json.dumps(world.manifest("../base")))
    for words in (("plan", "-m", "ash"), ("validate", "ash"), ("datasets", "ash")):
        cli.check(cli.run(*words, cwd=folder, seconds=15))


AREA = Area("datasets", "data sets (deep, surrogates, fifo, /dev/zero, CSV, Parquet, Arrow)", attempts)
