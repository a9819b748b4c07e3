"""Our training stage on the scene: the same model, documents, adapter and optimizer."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

from plans import example_plan
from rows import Pair, packed
from scene import Scene, base, documents

import expert_worker.train  # noqa: F401  (before torch: it sets how OpenMP waits)
from expert_worker.events import Events
from expert_worker.events.models import Event, Progress
from expert_worker.train import stage
from expert_worker.train.dataset import InMemory

MODULES = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]


def put_rows(rows: list[list[Pair]]) -> None:
    """In place of the token cache."""
    held = InMemory(
        [[(prompt + answer, [-100] * len(prompt) + answer) for prompt, answer in row] for row in rows]
    )
    cache = SimpleNamespace(
        key="0" * 64,
        train=held,
        validation=None,
        ledger=dict,
        description=SimpleNamespace(slow_encoder=None, duplicates=None),
    )
    sys.modules["expert_worker.pretokenize"] = SimpleNamespace(  # type: ignore[assignment]
        ensure_cache=lambda *_, **__: cache, template_text=lambda *_: ""
    )


def changes(scene: Scene, folder: Path) -> dict[str, object]:
    return {
        "recipe.adapter.kind": "dora" if scene.dora else "lora", "recipe.adapter.rank": scene.rank,
        "recipe.adapter.alpha": 32.0, "recipe.adapter.dropout": scene.dropout,
        "recipe.adapter.target_modules": MODULES, "recipe.batch.rows_per_step": scene.rows,
        "recipe.batch.max_seq_length": scene.length, "recipe.optimizer.learning_rate": 1e-4,
        "recipe.schedule.kind": "constant", "recipe.saving.strategy": "no",
        "recipe.schedule.duration": {"unit": "steps", "value": scene.steps + 1},
        "machine.paths.base": str(folder), "machine.dtype": scene.dtype, "machine.micro_batch": scene.rows,
        "machine.accumulation": 1, "machine.logging.trackers": [],
        "machine.piece_tokens": 512, "machine.threads.compute": int(os.environ.get("OMP_NUM_THREADS", "1")),
    }  # fmt: skip


class Clock:
    """CPU and wall time at the start of training and after each step."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []
        self.tokens: list[int] = []
        self.losses: list[float] = []

    def write(self, event: Event, line: bytes) -> None:
        del line
        if isinstance(event.body, Progress):
            self.tokens.append(event.body.tokens)
            self.losses.append(event.body.loss)
        starting = event.body.type == "stage" and event.body.name == "train"
        if isinstance(event.body, Progress) or (starting and not self.marks):
            self.marks.append((time.process_time(), time.perf_counter()))

    def close(self) -> None:
        """There is nothing to close."""


def main() -> None:
    scene = Scene(**json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        weights = base(scene, folder / "base")
        put_rows(packed(documents(scene, weights), scene.length))
        events, clock = Events(), Clock()
        events.attach(clock)
        stage.run(example_plan(folder, changes(scene, weights)), events)
    cpu, wall = ([b[i] - a[i] for a, b in pairwise(clock.marks)] for i in (0, 1))
    print(
        json.dumps({
            "first_cpu": cpu[0], "first_wall": wall[0], "cpu": sum(cpu[1:]), "wall": sum(wall[1:]),
            "tokens": sum(clock.tokens[1:]), "losses": clock.losses, "walls": wall[1:],
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        })
    )  # fmt: skip


if __name__ == "__main__":
    main()
