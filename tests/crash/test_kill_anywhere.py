"""SIGKILL at every named point and at random moments, three resumes: the result is the same, every byte."""

import json
import random
from pathlib import Path

import pytest
from trials import SIGKILL, Runs, Server, differing_files, half_made

# A machine that is busy with other things may take its time; a fault shows in what is left, not in seconds.
pytestmark = pytest.mark.timeout(1800)

STEPS = 7
CHANGES = {
    "recipe.schedule.duration": {"unit": "steps", "value": STEPS},
    "recipe.saving": {"strategy": "steps", "steps": 3},
    "machine.save_total_limit": 2,
    "machine.logging": {"steps": 1, "trackers": []},
}


@pytest.fixture(scope="module")
def runs(server: Server, quick_folder: Path) -> Runs:
    runs = Runs(server, quick_folder, CHANGES, stage="expert_test_standin")
    runs.undisturbed()
    return runs


def test_the_stand_in_learns(runs: Runs) -> None:
    """Otherwise all that is compared below is an untouched initialisation."""
    bodies = [json.loads(line)["body"] for line in (runs.output("undisturbed") / "events.jsonl").open()]
    losses = [body["loss"] for body in bodies if body["type"] == "progress"]
    assert len(losses) == STEPS and losses[-1] < 0.7 * losses[0], losses


def test_killed_at_every_point_of_the_protocol(runs: Runs, every_trial: bool) -> None:
    assert len(runs.points) >= 200
    points = runs.points if every_trial else runs.points[:: len(runs.points) // 20]
    for number, point in enumerate(points):
        name = f"point-{number}"
        answer = runs.go(name, kill=point)
        assert answer["code"] == SIGKILL, f"{point} was not reached: {answer}"
        runs.finish_and_compare(name, STEPS)


def test_killed_again_while_resuming(runs: Runs, every_trial: bool) -> None:
    """The second attempt cleans up and resumes: it must survive the same kills."""
    draw = random.Random(4)
    for number in range(60 if every_trial else 4):
        name = f"twice-{number}"
        runs.go(name, kill=draw.choice(runs.points))
        runs.go(name, resume=True, kill=draw.choice(runs.points))
        runs.go(name, resume=True, kill=draw.choice(runs.points))
        runs.finish_and_compare(name, STEPS)


def test_killed_at_random_moments_with_three_resumes(runs: Runs, every_trial: bool) -> None:
    draw = random.Random(5)
    wanted = 400 if every_trial else 10
    whole = runs.go("timing")["seconds"]
    kills = 0
    for number in range(1000):
        name = f"moment-{number}"
        for attempt in range(4):
            answer = runs.go(name, resume=attempt > 0, kill_after=draw.uniform(0, whole))
            kills += answer["code"] == SIGKILL
            assert answer["code"] in (0, SIGKILL), runs.log(name)
        runs.finish_and_compare(name, STEPS)
        if kills >= wanted:
            return
    pytest.fail(f"only {kills} of {wanted} kills came before the end of their run")


def test_nothing_half_made_is_left(runs: Runs) -> None:
    """After a kill `finish_and_compare` looks."""
    assert half_made(runs.output("undisturbed")) == []


def test_folders_that_are_not_there_are_not_equal(tmp_path: Path) -> None:
    for name in ("empty", "whole"):
        (tmp_path / name).mkdir()
    (tmp_path / "whole/file").touch()
    for pair in (("absent", "absent"), ("empty", "empty"), ("whole", "absent"), ("empty", "whole")):
        with pytest.raises(AssertionError, match="has no files"):
            differing_files(*(tmp_path / name for name in pair))
    assert differing_files(tmp_path / "whole", tmp_path / "whole") == []
