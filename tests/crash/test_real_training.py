"""The real training under the same treatment: packed rows, dropout, accumulation, evaluation, best, NF4."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from learnt import assert_learnt
from scene import DEFAULTS, save_base
from trials import SIGKILL, Runs, Server

pytestmark = pytest.mark.timeout(1800)

STEPS = 7
# Ten rows, four per step, two at once: an epoch is three steps, the last of them smaller.
CHANGES = {
    **DEFAULTS,
    "recipe.optimizer.name": "adamw_torch_fused",
    "machine.dtype": "bf16",
    "recipe.adapter.dropout": 0.1,
    "recipe.schedule.duration": {"unit": "steps", "value": STEPS},
    "recipe.saving": {"strategy": "steps", "steps": 2},
    "recipe.evaluation.strategy": "steps",
    "recipe.evaluation.steps": 2,
    "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": None},
    "machine.save_total_limit": 2,
}
# DoRA and the default optimizer: its norms must follow steps that change weights in place.
KINDS = {"lora": {}, "nf4": {"recipe.base.quantization": "int4", "recipe.adapter.kind": "dora"}}


@pytest.fixture(scope="module", params=[pytest.param("lora", marks=pytest.mark.full), "nf4"])
def runs(request: pytest.FixtureRequest, server: Server, quick_folder: Path) -> Runs:
    folder = quick_folder / request.param
    folder.mkdir()
    save_base(folder / "base")
    runs = Runs(server, folder, {**CHANGES, **KINDS[request.param]}, stage="expert_test_training")
    runs.undisturbed()
    return runs


def test_the_run_learns(runs: Runs) -> None:
    assert_learnt(runs.output("undisturbed"))


def one_of_each(points: Sequence[str]) -> list[str]:
    """What happens in every run. Each tensor is one write: the first and last to a file represent all."""
    kinds: dict[str, list[str]] = {}
    for point in points:
        # How often `accumulating` is reported depends on time.
        if "accumulating" not in point:
            name, _, number = point.partition(" #")
            kinds.setdefault(f"{name}{' half' if 'half' in number else ''}", []).append(point)
    chosen = {p for same in kinds.values() for p in (same[0], same[-1])}
    return [point for point in points if point in chosen]


def worth_a_kill(points: Sequence[str]) -> list[str]:
    """Each state of the disk once: `fsync` leaves what the write before it left, and saves are alike.

    The protocol has its kills in test_kill_anywhere.py; here what counts is how far the training was.
    """
    return [point for point in one_of_each(points) if not point.startswith("fsync") and not _alike(point)]


def _alike(point: str) -> bool:
    """Inside the second or third of four saves; their beginnings and ends differ in what was trained."""
    what, folder, *_ = point.replace("/", " ").split()
    return folder in {"checkpoint-4.partial", "checkpoint-6.partial"} and what not in {"mkdir", "rename"}


def kills(runs: Runs, every_trial: bool, whole: int, other: int, sample: int) -> int:
    """Which adapter is trained changes nothing on the disk: one kind has the whole series."""
    if not every_trial:
        return sample
    return whole if runs.folder.name == "lora" else other


def test_killed_at_named_points(runs: Runs, every_trial: bool) -> None:
    points = worth_a_kill(runs.points)
    assert len(points) >= 80
    chosen = points[:: len(points) // kills(runs, every_trial, len(points), 30, 3)]
    for number, point in enumerate(chosen):
        name = f"point-{number}"
        answer = runs.go(name, kill=point)
        assert answer["code"] == SIGKILL, f"{point}: {answer}\n{runs.log(name)}"
        runs.finish_and_compare(name, STEPS)


def test_killed_at_random_moments_with_three_resumes(runs: Runs, every_trial: bool) -> None:
    draw = random.Random(11)
    whole = runs.go("timing")["seconds"]
    wanted = kills(runs, every_trial, 100, 25, 2)
    killed = 0
    for number in range(wanted * 4):
        name = f"moment-{number}"
        for attempt in range(4):
            answer = runs.go(name, resume=attempt > 0, kill_after=draw.uniform(0, whole))
            assert answer["code"] in (0, SIGKILL), runs.log(name)
            killed += answer["code"] == SIGKILL
            if answer["code"] == 0:
                break
        runs.finish_and_compare(name, STEPS)
        if killed >= wanted:
            return
    pytest.fail(f"only {killed} of {wanted} kills came before the end of their run")


def test_a_full_disk_at_each_write_of_a_save(runs: Runs, every_trial: bool) -> None:
    of_a_save = ("mkdir checkpoint-4", "open checkpoint-4", "write checkpoint-4", "fsync checkpoint-4")
    writes = [p for p in one_of_each(runs.points) if p.startswith(of_a_save) and not p.endswith("half")]
    assert len(writes) >= 12
    for number, point in enumerate(writes if every_trial else writes[::12]):
        name = f"full-{number}"
        answer = runs.go(name, refuse=point)
        assert answer["code"] == 4, f"{point}: {answer}\n{runs.log(name)}"
        runs.finish_and_compare(name, STEPS)
