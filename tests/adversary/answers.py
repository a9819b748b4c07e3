"""Hostile answers of a model, judged in the sandbox. A right one follows each and must still be right."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Tally

from expert_worker.evaluate.sandbox import judge_all

CANARY = "canary-5d1f"


def temporary() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).iterdir()}


def tally(
    scorer: str,
    row: Mapping[str, Any],
    right: str,
    hostile: Mapping[str, str],
    folder: Path,
    *,
    may_be_right: Set[str] = frozenset(),
) -> Tally:
    secret = folder / "secret.txt"
    secret.write_text(CANARY)
    texts = [text.replace("{folder}", str(folder)) for answer in hostile.values() for text in (answer, right)]
    before, beside = world.snapshot(folder), temporary()
    found = judge_all(scorer, [dict(row)] * len(texts), texts)
    verdicts = [(verdict.correct, verdict.reason) for verdict in found]
    result = Tally(len(hostile))
    for place, name in enumerate(hostile):
        (correct, said), (after, why) = verdicts[2 * place : 2 * place + 2]
        if correct and name not in may_be_right:
            result.fell.append(f"{name}: taken for right")
        elif not correct and not said.strip():
            result.fell.append(f"{name}: wrong without a reason")
        elif CANARY in said:
            result.fell.append(f"{name}: a file was read")
        elif not after:
            result.fell.append(f"{name}: the right answer behind it is wrong: {why}")
    if world.snapshot(folder) != before:
        result.fell.append("files were written")
    left = {name for name in temporary() - beside if name.startswith(("pwned", "stolen"))}
    if left:
        result.fell.append(f"written beside: {left}")
    return result
