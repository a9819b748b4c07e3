"""Rows that torch's DataLoader reads ahead are the rows that the loop asks for."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from plans import example_plan
from scene import put_data, rows, train

from expert_worker.events import Events
from expert_worker.train import engine
from expert_worker.train.dataset import InMemory
from expert_worker.train.distributed import DistContext
from expert_worker.train.fast.batch import PackedBatch
from expert_worker.train.loader import LoadedRows, RowSet, StepSampler, copies_pinned, report_loader

ROWS = InMemory(
    [
        [([10 * row + token for token in range(size)], [-100, *range(1, size)]) for size in (row + 2, 3)]
        for row in range(7)
    ]
)
ORDER = StepSampler(7, 2, seed=3)
STEPS = 8


class Numbered:
    """Rows of a file, as those of the token cache."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return len(ROWS)

    def row_lengths(self) -> list[int]:
        return ROWS.row_lengths()

    def batch(self, indices):
        return ROWS.batch(indices)


def loaded(
    folder: Path, *, start: int = 0, rows=ROWS, dist: DistContext | None = None, device="cpu", **changes
) -> LoadedRows:
    settings = {"workers": 0, "pin_memory": True, "prefetch_factor": None}
    plan = example_plan(
        folder, {f"machine.loader.{name}": value for name, value in {**settings, **changes}.items()}
    )
    return LoadedRows(rows, ORDER, start, STEPS, plan.machine.loader, device, dist or DistContext())


def assert_same(found, expected) -> None:
    assert len(found) == 4 and all(
        torch.equal(one, other) for one, other in zip(found, expected, strict=True)
    )


def asked(start: int = 0) -> Iterator[list[int]]:
    """A step's rows at once, and again one by one, as after running out of memory."""
    for step in range(start, STEPS):
        rows = ORDER.step(step)
        yield rows
        yield from ([row] for row in rows)


@pytest.mark.parametrize("start", [0, 3])
def test_they_are_the_rows_asked_for_also_when_a_step_is_repeated(tmp_path, start):
    rows = loaded(tmp_path, start=start)
    for indices in asked(start):
        assert_same(rows.batch(indices), ROWS.batch(indices))
    assert len(rows) == 7 and rows.row_lengths() == ROWS.row_lengths()


def test_rows_of_two_steps_are_kept_and_no_more(tmp_path):
    rows = loaded(tmp_path)
    kept = []
    for step in range(STEPS):
        rows.batch(ORDER.step(step))
        kept.append(len(rows._held))
    assert kept[0] == 2 and max(kept) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_read_ahead(tmp_path):
    rows = loaded(tmp_path, workers=1)
    for indices in asked():
        assert_same(rows.batch(indices), ROWS.batch(indices))
    loader = rows.loader
    assert (loader.num_workers, loader.prefetch_factor) == (1, 2)
    assert loader.multiprocessing_context.get_start_method() == "fork"


@pytest.mark.skipif(sys.platform != "linux", reason="signals are blocked on Linux only")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_signal_to_every_process_of_a_job_leaves_the_workers(tmp_path, monkeypatch, device):
    # NumPy's threads exist before a spawned worker can block a signal itself.
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    rows = loaded(tmp_path, device=device, workers=1)
    rows.batch(ORDER.step(0))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    (worker,) = multiprocessing.active_children()
    for sent in ("TERM", "HUP", "INT"):
        # By another process: torch ends its workers by TERM, too.
        subprocess.run(["kill", f"-{sent}", str(worker.pid)], check=True)
    for indices in asked(1):
        assert_same(rows.batch(indices), ROWS.batch(indices))
    worker.join(0.5)
    assert worker.is_alive()
    worker.terminate()
    worker.join(30)
    assert not worker.is_alive()


def test_the_loader_is_as_the_plan_says(tmp_path):
    loader = loaded(tmp_path, workers=2, prefetch_factor=5).loader
    assert (loader.num_workers, loader.prefetch_factor) == (2, 5)
    assert loader.pin_memory is False, "rows are joined to batches, which are pinned"
    events, told = Events.in_memory()
    report_loader(loader, example_plan(tmp_path, {"machine.loader.pin_memory": True}).machine, events)
    applied = {event.body.key: event.body.value for event in told.events}
    assert applied == {
        "dataloader_num_workers": 2,
        "dataloader_pin_memory": False,
        "dataloader_prefetch_factor": 5,
    }


def test_beside_a_gpu_workers_are_spawned(tmp_path):
    wanted = example_plan(tmp_path, {"machine.loader.workers": 1}).machine.loader
    loader = LoadedRows(ROWS, ORDER, 0, STEPS, wanted, "cuda", DistContext()).loader
    assert loader.multiprocessing_context.get_start_method() == "spawn"


@pytest.mark.parametrize("rows", [ROWS, Numbered(Path("rows.arrow"))], ids=["in memory", "of a file"])
def test_a_spawned_worker_gets_the_rows(rows):
    sent = pickle.loads(pickle.dumps(RowSet(rows)))
    assert len(sent) == 7
    assert_same(sent[4], ROWS.batch([4]))
    assert getattr(sent._rows, "path", None) == getattr(rows, "path", None)


GPU = {"kind": "cuda", "index": 0, "name": "a GPU", "memory_bytes": None}


def test_batches_are_pinned_where_asked_and_copied_to_a_gpu(tmp_path):
    for pinned in (True, False):
        changes = {"machine.loader.pin_memory": pinned}
        assert not copies_pinned(example_plan(tmp_path, changes).machine)
        assert copies_pinned(example_plan(tmp_path, {**changes, "machine.device": GPU}).machine) is pinned


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("pinned", [True, False])
def test_training_copies_batches_so(tmp_path, monkeypatch, fast, pinned):
    put_data(monkeypatch, rows(4))
    monkeypatch.setattr(engine, "copies_pinned", lambda machine: pinned)
    asked, to = [], PackedBatch.to
    monkeypatch.setattr(
        PackedBatch, "to", lambda batch, device, **how: asked.append(how.get("pinned")) or to(batch, device)
    )
    one_step = {"recipe.schedule.duration": {"unit": "steps", "value": 1}, "machine.piece_tokens": None}
    train(tmp_path, {**one_step, "machine.fast_path": fast})
    assert asked and set(asked) == {pinned}
