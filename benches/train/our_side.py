"""Our training stage on the scene: the same model, documents, adapter and optimizer."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import psutil
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
        ledger=lambda *_: {},
        existed=False,
        description=SimpleNamespace(slow_encoder=None, duplicates=None, splits={}),
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
        "machine.piece_tokens": 1024, "machine.threads.compute": int(os.environ.get("OMP_NUM_THREADS", "1")),
    }  # fmt: skip


class Idle(threading.Thread):
    """The longest time in which no thread of training was on a core or ready for one: it waited for itself.
    Nothing is known of a moment in which this thread got no core itself."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        began: float | None = None
        own = threading.get_native_id()
        while not self._over.wait(0.05):
            now = time.perf_counter()
            if any(_is_ready(task) for task in Path("/proc/self/task").iterdir() if task.name != str(own)):
                began = None
                continue
            began = began if began is not None else now
            self.longest = max(self.longest, now - began)

    def finish(self) -> None:
        self._over.set()
        self.join()


def _is_ready(task: Path) -> bool:
    """On a core, ready for one, or reading from a disk."""
    with suppress(OSError):  # A thread may end meanwhile.
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in "RD"
    return False


class Clock:
    """CPU and wall time at the start and after each step, and the CPU time of the programs beside it."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float, float]] = []
        self.idle = Idle()
        self._beside = [psutil.Process(int(number)) for number in os.environ.get("BESIDE", "").split()]
        self.tokens: list[int] = []
        self.losses: list[float] = []

    def write(self, event: Event, line: bytes) -> None:
        del line
        if isinstance(event.body, Progress):
            self.tokens.append(event.body.tokens)
            self.losses.append(event.body.loss)
        starting = event.body.type == "stage" and event.body.name == "train"
        if starting and not self.marks and sys.platform == "linux":
            self.idle.start()
        if isinstance(event.body, Progress) or (starting and not self.marks):
            beside = sum(sum(program.cpu_times()[:2]) for program in self._beside)
            self.marks.append((time.process_time(), time.perf_counter(), beside))

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
    if clock.idle.is_alive():
        clock.idle.finish()
    cpu, wall, beside = ([b[i] - a[i] for a, b in pairwise(clock.marks)] for i in (0, 1, 2))
    print(
        json.dumps({
            "first_cpu": cpu[0], "first_wall": wall[0], "cpu": sum(cpu[1:]), "wall": sum(wall[1:]),
            "beside": sum(beside[1:]),
            "longest_idle": clock.idle.longest,
            "tokens": sum(clock.tokens[1:]), "losses": clock.losses, "walls": wall[1:],
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        })
    )  # fmt: skip


if __name__ == "__main__":
    main()
