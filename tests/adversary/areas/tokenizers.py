"""Tokenizer files that are cut, wrong, make text longer or never end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt


def replaces(times: int) -> dict[str, Any]:
    one = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
    return {"type": "Sequence", "normalizers": [one] * times}


def change(*path: str, to: Any) -> Callable[[Path], None]:
    def spoil(base: Path) -> None:
        file = base / "tokenizer.json"
        document = json.loads(file.read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        file.write_text(json.dumps(document))

    return spoil


def cut(base: Path) -> None:
    file = base / "tokenizer.json"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def write(name: str, content: str) -> Callable[[Path], None]:
    return lambda base: (base / name).write_text(content) and None


def gone(base: Path) -> None:
    (base / "tokenizer.json").unlink()


def config(**changes: Any) -> Callable[[Path], None]:
    def spoil(base: Path) -> None:
        file = base / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return spoil


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


CASES: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "gone": gone,
    "a list": write("tokenizer.json", "[]"),
    "100,000 brackets": write("tokenizer.json", "[" * 100_000),
    "no vocabulary": change("model", "vocab", to={}),
    "ids of 2^31": change("model", "vocab", to={"a": 2**31, "b": 2**32 - 1}),
    "ids below zero": change("model", "vocab", to={"a": -1}),
    "merges of what is not there": change("model", "merges", to=[["qqq", "zzz"]]),
    "a normaliser that grows x1000, four times": change("normalizer", to=replaces(4)),
    "a regex that never ends": change("pre_tokenizer", to=split(r"(a+)+(a+)+$")),
    "a regex that is none": change("pre_tokenizer", to=split("((((")),
    "an added token of nothing": change(
        "added_tokens",
        to=[{"id": 0, "content": "", "special": True, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False}],
    ),
    "its own code": config(auto_map={"AutoTokenizer": ["evil.Evil", None]}, tokenizer_class="Evil"),
    "an end that is not a token": config(eos_token="<nowhere>"),
}  # fmt: skip


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else CASES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    base = folder / "base"
    shutil.copytree(world.base(), base, ignore=shutil.ignore_patterns("*.safetensors"))
    (base / "evil.py").write_text(f"open({str(folder / 'pwned')!r}, 'w')\nclass Evil: pass\n")
    CASES[name](base)
    data = world.write_rows(folder / "train.jsonl", [{"prompt": "a" * 60 + "!", "completion": "aaaa"}] * 3)
    value = world.inside("pretokenize", str(folder), str(base), str(data), seconds=180, memory=5 << 30)
    world.refused_or_done(value)
    assert not (folder / "pwned").exists(), "the base's code ran"


AREA = Area("tokenizers", "tokenizers", attempts)
