"""A run whose best checkpoint is chosen by answers, stopped or killed while it scores them: the checkpoint is
there, and the resumed run leaves what the undisturbed one left."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from expert_test_scoring import write_rows
from scene import DEFAULTS, save_base
from trials import SIGKILL, Runs, Server, differing_files

from expert_worker.checkpoint import record
from expert_worker.report.read import read_run

pytestmark = pytest.mark.timeout(1800)

INTERRUPTED = 130
SOURCE = {"name": "validation.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
CHANGES = {
    **DEFAULTS,
    "recipe.schedule.duration": {"unit": "steps", "value": 12},
    "recipe.schedule.kind": "constant",
    "recipe.optimizer.learning_rate": 0.15,
    "recipe.decoding.max_new_tokens": 1,
    "recipe.saving": {"strategy": "steps", "steps": 12},
    "recipe.evaluation.scorer": "exact",
    "recipe.evaluation.strategy": "steps",
    "recipe.evaluation.steps": 4,
    "recipe.data.validation": [SOURCE],
    "machine.save_total_limit": 2,
}
BEST = {
    "highest": {"metric": "accuracy", "greater_is_better": True, "patience": None},
    # The first is the best, the second not kept, and the third the last.
    "lowest": {"metric": "accuracy", "greater_is_better": False, "patience": 2},
}
KEPT = {"highest": ["checkpoint-12", "checkpoint-8"], "lowest": ["checkpoint-12", "checkpoint-4"]}


@pytest.fixture(scope="module", params=["highest", pytest.param("lowest", marks=pytest.mark.full)])
def runs(request: pytest.FixtureRequest, server: Server, quick_folder: Path) -> Runs:
    folder = quick_folder / request.param
    folder.mkdir()
    save_base(folder / "base")
    write_rows(folder / SOURCE["name"])
    changes = {
        **CHANGES,
        "recipe.evaluation.best": BEST[request.param],
        "machine.paths.data": {SOURCE["name"]: str(folder / SOURCE["name"])},
    }
    runs = Runs(server, folder, changes, stage="expert_test_scoring")
    runs.undisturbed()
    return runs


def left(run: Path) -> dict[str, Any]:
    """What a run says about its evaluations, apart from what was measured."""
    read = read_run(run)
    improved = [noted.what.step for noted in read.checkpoints if noted.what.type == "best"]
    curve = [(evaluated.step, evaluated.metrics) for evaluated in read.evaluations]
    return {
        "best": json.loads((run / "run.json").read_text())["best"] | {"path": None},
        "steps": read.result.steps,
        "eval_loss": read.result.eval_loss,
        "curve": curve,
        "improved": improved,
    }


def assert_as_undisturbed(runs: Runs, name: str, *, retention_was_killed: bool = False) -> None:
    answer = runs.go(name, resume=True)
    assert answer["code"] == 0, f"{name}: {answer}\n{runs.log(name)}"
    there, here = runs.output("undisturbed"), runs.output(name)
    folders = sorted(path.name for path in there.glob("checkpoint-*"))
    assert folders == KEPT[runs.folder.name]
    # A kill before the last retention leaves an older one, which no later save deletes.
    kept = [path.name for path in sorted(here.glob("checkpoint-*"))]
    assert kept == folders or (retention_was_killed and set(folders) < set(kept)), kept
    for part in ("final", *folders):
        assert not differing_files(here / part, there / part), (name, part)
    assert left(here) == left(there), name
    shutil.rmtree(runs.folder / name)


def scoring(runs: Runs) -> list[str]:
    """The points between the save of a checkpoint and the end of what its evaluation leads to."""
    wanted = r"events.jsonl (stage adapter|evaluated|best)|state\.json|checkpoint-\d+(\.trash)? "
    points = [point for point in runs.points if re.search(wanted, point) and not point.startswith("fsync")]
    # Half a line of the record is nothing to a resumed run.
    return [point for point in points if not ("events.jsonl" in point and point.endswith("half"))]


def begins(what: str, number: int) -> str:
    return f"write events.jsonl stage adapter {what} #{number}"


def owes(runs: Runs, name: str, step: int) -> bool | None:
    return record.read(runs.output(name) / f"checkpoint-{step}").facts.evaluation_owed


def test_stopped_while_answers_are_generated_and_killed_while_they_are_judged(runs: Runs) -> None:
    assert runs.go("both", stop=begins("answers", 2))["code"] == INTERRUPTED, runs.log("both")
    assert owes(runs, "both", 8)
    assert not (runs.output("both") / "final").exists()
    assert runs.go("both", resume=True, kill=begins("judged", 1))["code"] == SIGKILL, runs.log("both")
    assert owes(runs, "both", 8)
    assert_as_undisturbed(runs, "both")


@pytest.mark.full
def test_stopped_in_each_evaluation(runs: Runs) -> None:
    numbers = [number for number in range(1, 9) if begins("answers", number) in runs.points]
    assert len(numbers) >= 2
    for number in numbers:
        for what in ("answers", "judged"):
            name = f"{what}-{number}"
            assert runs.go(name, stop=begins(what, number))["code"] == INTERRUPTED, runs.log(name)
            assert owes(runs, name, 4 * number)
            assert_as_undisturbed(runs, name)


@pytest.mark.full
def test_stopped_twice_in_one_evaluation(runs: Runs) -> None:
    assert runs.go("twice", stop=begins("answers", 2))["code"] == INTERRUPTED
    assert runs.go("twice", resume=True, stop=begins("answers", 1))["code"] == INTERRUPTED
    assert owes(runs, "twice", 8)
    assert_as_undisturbed(runs, "twice")


@pytest.mark.full
def test_killed_at_each_point_of_an_evaluation(runs: Runs) -> None:
    points = scoring(runs)
    assert len(points) >= 15
    for number, point in enumerate(points):
        name = f"kill-{number}"
        answer = runs.go(name, kill=point)
        assert answer["code"] == SIGKILL, f"{point}: {answer}\n{runs.log(name)}"
        assert_as_undisturbed(runs, name, retention_was_killed=point.startswith("rename checkpoint-4 "))
