"""Seven rare combinations of settings, three kill -9 each: the bytes equal those of the undisturbed run."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt

QUANTIZED, KIND, NAME = "recipe.base.quantization", "recipe.adapter.kind", "recipe.optimizer.name"
LOADER = {
    "use_cache": False,
    "workers": 2,
    "pin_memory": False,
    "prefetch_factor": 2,
}
ALONE = {"workers": 0, "prefetch_factor": None}
BEST = {
    "recipe.evaluation.strategy": "steps",
    "recipe.evaluation.steps": 2,
    "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 4},
}
STEPS = 10
EVERY: dict[str, Any] = {
    "recipe.schedule.duration": {"unit": "steps", "value": STEPS},
    "recipe.saving": {"strategy": "steps", "steps": 2},
    "recipe.adapter.dropout": 0.1,
    NAME: "adamw_torch_fused",
}
COMBINATIONS: dict[str, dict[str, Any]] = {
    "int4, DoRA, 8-bit optimizer": {QUANTIZED: "int4", KIND: "dora", NAME: "paged_adamw_8bit"},
    "int4, neftune, bf16": {
        QUANTIZED: "int4",
        "recipe.optimizer.neftune": {"noise_alpha": 5.0},
        "machine.dtype": "bf16",
    },
    "streaming, best, early stop": {**BEST, "machine.loader": {**LOADER, **ALONE}},
    "int8, loader workers": {QUANTIZED: "int8", "machine.loader": LOADER},
    "two processes, muon": {NAME: "muon", "machine.distributed": {"strategy": "ddp", "processes": 2}},
    "bf16, LoKr": {KIND: "lokr", "machine.dtype": "bf16"},
    "AdaLoRA": {KIND: "adalora"},
}  # fmt: skip


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else COMBINATIONS:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    changes = {**EVERY, **COMBINATIONS[name]}
    first = world.inside("prepare_plan", str(folder), "whole", changes, False)
    began = world.FORGE.call("tests.adversary.inside:train_in_memory", first, seconds=400)
    assert began.code == 0 and began.value["exit"] == 0, (began.said[-200:], began.value)
    world.inside("learnt", str(folder / "whole"))
    draw = random.Random(name)
    for number, step in enumerate(sorted(draw.sample(range(1, STEPS - 2), 3))):
        plan = world.inside("prepare_plan", str(folder), "killed", changes, number > 0)
        moment = Moment(folder / "killed", step, draw.uniform(0, 0.2))
        ended = world.FORGE.call(
            "tests.adversary.inside:train_in_memory", plan, seconds=400, until=moment.has_come
        )
        assert ended.timed_out, f"it ended before it was killed at step {step}: {ended.said[-300:]}"
    plan = world.inside("prepare_plan", str(folder), "killed", changes, True)
    last = world.inside("train_in_memory", plan, seconds=400)
    world.refused_or_done(last)
    assert last["exit"] == 0, last
    digests = [world.inside("digest_of", str(folder / run / "final")) for run in ("whole", "killed")]
    assert digests[0] == digests[1], "other bytes"


class Moment:
    """Some time after a step is recorded, wherever the run is then: at a step, or while it saves."""

    def __init__(self, run: Path, step: int, delay: float) -> None:
        self._events, self._step, self._delay = run / "events.jsonl", step, delay
        self._seen = math.inf

    def has_come(self) -> bool:
        text = self._events.read_text(errors="replace") if self._events.exists() else ""
        steps = [int(found) for found in re.findall(r'"type":"progress","step":(\d+)', text)]
        if max(steps, default=0) >= self._step:
            self._seen = min(self._seen, time.monotonic())
        return time.monotonic() >= self._seen + self._delay


AREA = Area("settings", "combinations of settings, 3 kill -9 each", attempts)
