"""Manifests made to break a parser or a terminal, under six commands on a terminal."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import cli, world
from tests.adversary.attempt import Area, Attempt

ESCAPES = "\x1b]52;c;cHduZWQ=\x07\x1b[2J\x1b]0;pwned\x07\x1b[6n\u202edetrevni\u2069\x9b31m"
COMMANDS = {
    "validate": ("validate", "ash"),
    "plan": ("plan", "-m", "ash"),
    "datasets": ("datasets", "ash"),
    "matrix": ("matrix", "."),
    "train --dry-run": ("train", "-m", "ash", "--dry-run"),
    "runs": ("runs", "ash"),
}


def changed(*path: str | int, to: Any) -> bytes:
    document: Any = copy.deepcopy(world.manifest("../base"))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def config(key: str, to: Any) -> bytes:
    return changed("training", "config", key, to=to)


def many_keys(count: int) -> bytes:
    return b"{" + b",".join(b'"_k%d":1' % number for number in range(count)) + b"}"


PLAIN = json.dumps(world.manifest("../base")).encode()
PAYLOADS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a million brackets": lambda: b"[" * 1_000_000,
    "objects 100,000 deep": lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a comment 65 deep": lambda: changed("_deep", to=json.loads("[" * 65 + "]" * 65)),
    "200 MB": lambda: PLAIN[:-1] + b', "_pad": "' + b"x" * 200_000_000 + b'"}',
    "400,000 keys": lambda: many_keys(400_000),
    "NUL bytes": lambda: b"\x00" * 4096,
    "NUL in a name": lambda: changed("name", to="a\x00b"),
    "UTF-16": lambda: PLAIN.decode().encode("utf-16"),
    "a byte-order mark": lambda: b"\xef\xbb\xbf" + PLAIN,
    "not UTF-8": lambda: PLAIN.replace(b"Sums", b"\xff\xfe\xc3("),
    "half of it": lambda: PLAIN[: len(PLAIN) // 2],
    "two documents": lambda: PLAIN + PLAIN,
    "a list": lambda: b"[1, 2, 3]",
    "null": lambda: b"null",
    "the same key twice": lambda: PLAIN[:-1] + b', "name": "other"}',
    "escapes in the name": lambda: changed("name", to="ash" + ESCAPES),
    "escapes in the base's name": lambda: changed("base_models", 0, "name", to="./b" + ESCAPES),
    "escapes in a data path": lambda: changed("training", "dataset", "path", to=f"t{ESCAPES}.jsonl"),
    "escapes in target modules": lambda: config("target_modules", ["q_proj", "x" + ESCAPES]),
    "escapes in an unknown key": lambda: config("lr" + ESCAPES, 1),
    "escapes in a value": lambda: config("optim", "adam" + ESCAPES),
    "escapes in the description": lambda: changed("description", to="x" + ESCAPES),
    "escapes in the version": lambda: changed("version", to="1.0" + ESCAPES),
    "a lone surrogate": lambda: PLAIN.replace(b"Sums", b"\\ud800"),
    "huge numbers": lambda: config("rank", int("9" * 400)),
    "an infinite rate": lambda: PLAIN.replace(b'"learning_rate": 0.01', b'"learning_rate": 1e999'),
    "a negative length": lambda: config("max_seq_length", -(2**63)),
    "2^63 steps": lambda: config("max_steps", 2**63 - 1),
    "500 bases": lambda: changed(
        "base_models", to=[{"name": f"b{number}", "quantization": "none"} for number in range(500)]
    ),
    "a name that climbs": lambda: changed("name", to="../../../../etc/ash"),
}


def attempts(quick: bool) -> Iterator[Attempt]:
    chosen = ("400,000 keys", "escapes in the base's name", "half of it") if quick else PAYLOADS
    for payload in chosen:
        for command in ("plan",) if quick else COMMANDS:
            yield Attempt(f"{payload}, {command}", partial(attempt, payload, command))


def attempt(payload: str, command: str, folder: Path) -> None:
    expert = folder / "ash"
    expert.mkdir()
    world.write_rows(expert / "train.jsonl", world.rows(count=2))
    (expert / "manifest.json").write_bytes(PAYLOADS[payload]())
    cli.check(cli.on_terminal(*COMMANDS[command], cwd=folder, seconds=20))


AREA = Area("manifests", "hostile manifests x 6 commands on a terminal", attempts)
