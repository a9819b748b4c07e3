"""`expert-cli train --fuse` with the real worker: each expert has the run that it would have alone."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from experts_folder import ExpertsFolder
from learnt import assert_learnt
from safetensors.torch import load_file
from tiny import apart

pytestmark = pytest.mark.timeout(900)
NAMES = ("counts", "sums")
SETTINGS: dict[str, dict[str, object]] = {
    "counts": {"max_steps": 6},
    "sums": {"max_steps": 9, "rank": 5, "batch_size": 1, "gradient_accumulation_steps": 4, "seed": 11},
}


Alone = tuple[ExpertsFolder, dict[str, Path]]
TRAIN = ("train", "--device", "cpu")
FUSE = (*TRAIN, "--fuse", "counts,sums")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """The shelf, and the run of each expert that was trained alone."""
    shelf = ExpertsFolder(tmp_path_factory.mktemp("fused"), NAMES)
    runs = {}
    for name in NAMES:
        shelf.set_up(name, **SETTINGS[name])
        alone = shelf.folder / f"{name}-alone"
        trained = shelf.finish(*TRAIN, str(shelf.expert(name)), "-o", str(alone))
        assert trained.returncode == 0, trained.stderr[-3000:]
        assert_learnt(alone)
        runs[name] = alone
    yield shelf, runs


def assert_same(run: Path, alone: Path) -> None:
    ours, theirs = (load_file(it / "final" / "adapter_model.safetensors") for it in (run, alone))
    assert ours.keys() == theirs.keys()
    assert max(apart(ours[name], theirs[name]) for name in ours) < 1e-5
    assert losses(run) == pytest.approx(losses(alone), rel=1e-5)


def bodies(run: Path) -> list[dict[str, Any]]:
    lines = (run / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["body"] for line in lines]


def peak_memory(run: Path) -> int:
    peak: int = bodies(run)[-1]["result"]["peak_memory_bytes"]
    return peak


def losses(run: Path) -> list[float]:
    found = {body["step"]: body["loss"] for body in bodies(run) if body["type"] == "progress"}
    return [found[step] for step in sorted(found)]


def test_each_expert_has_the_run_that_it_has_alone(whole: Alone) -> None:
    shelf, alone = whole
    shelf.clear()
    fused = shelf.finish(*FUSE, "--json")
    assert fused.returncode == 0, fused.stderr[-3000:]
    document = json.loads(fused.stdout)
    assert [one["expert"] for one in document["experts"]] == list(NAMES) and document["ok"]
    for name in NAMES:
        run = shelf.run_of(name)
        assert_same(run, alone[name])
        files = {path.name for path in run.iterdir()}
        assert files == {path.name for path in alone[name].iterdir()}
        assert (shelf.expert(name) / "expert.lock").is_file()
        assert bodies(run)[0]["type"] == "started" and bodies(run)[-1]["type"] == "finished"
        record, solo = (json.loads((it / "run.json").read_text()) for it in (run, alone[name]))
        assert record["applied"].pop("fused") == [other for other in NAMES if other != name]
        assert record["applied"].keys() == solo["applied"].keys() and record["recipe"] == solo["recipe"]
    # One worker with the base once takes less memory than two workers side by side.
    together = max(peak_memory(shelf.run_of(name)) for name in NAMES)
    side_by_side = sum(peak_memory(alone[name]) for name in NAMES)
    assert together < 0.8 * side_by_side, (together, side_by_side)
    # What is finished is not trained again, in a group or alone.
    again = shelf.finish(*FUSE, "--json")
    assert [one["finished_before"] for one in json.loads(again.stdout)["experts"]] == [True, True]
    assert "nothing" not in shelf.finish(*TRAIN, "experts/sums").stderr


def newest(run: Path) -> int:
    steps = [path.name.removeprefix("checkpoint-") for path in run.glob("checkpoint-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_group_is_resumed_alone_or_fused(whole: Alone, by: int) -> None:
    shelf, alone = whole
    shelf.clear()
    process = shelf.start(*FUSE)
    deadline = time.monotonic() + 300
    while newest(shelf.run_of("sums")) < 2 and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    process.send_signal(by)
    _, said = process.communicate(timeout=120)
    assert process.returncode == (130 if by == signal.SIGINT else -signal.SIGKILL), said
    resumed = shelf.finish(*TRAIN, "experts/sums", "--resume")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert_same(shelf.run_of("sums"), alone["sums"])
    # The rest of the group: one is finished, the other resumes.
    rest = shelf.finish(*FUSE, "--resume")
    assert rest.returncode == 0, rest.stderr[-3000:]
    assert_same(shelf.run_of("counts"), alone["counts"])


def test_a_run_that_must_not_be_touched_stops_the_group_before_it_starts(
    whole: Alone,
) -> None:
    shelf, _ = whole
    shelf.clear()
    assert shelf.finish(*TRAIN, "experts/sums", "--max-steps", "2").returncode == 0
    fused = shelf.finish(*FUSE, "--json")
    error = json.loads(fused.stdout)["error"]
    assert (fused.returncode, error["code"]) == (2, "output-used")
    assert "experts/sums" in error["message"] and "experts/counts" not in error["message"]
    assert newest(shelf.run_of("counts")) == 0 and not (shelf.run_of("counts") / "events.jsonl").exists()


REFUSED = [
    (["--fuse", "counts"], "names one expert"),
    (["--fuse", "counts,counts"], "two of the experts have the name counts"),
    (["--fuse", "counts,total"], "there is no expert `total`"),
    (["--fuse", "counts,sums", "--set", "training.config.adapter_type=dora"], "its adapter is dora"),
    (["--fuse", "counts,sums", "--max-memory", "1GB"], "experts fused need about"),
    (["--fuse", "counts,sums", "--resume", "checkpoint-2"], "a checkpoint of one expert"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_fused_is_refused_before_anything_starts(
    whole: Alone, words: list[str], message: str
) -> None:
    shelf, _ = whole
    shelf.clear()
    refused = shelf.finish(*TRAIN, *words)
    assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    assert not shelf.run_of("counts").exists()


def test_the_plan_of_a_group_has_its_base_once(whole: Alone) -> None:
    shelf, _ = whole
    planned = json.loads(shelf.finish(*FUSE, "--dry-run", "--json").stdout)
    assert planned["ok"] is True
    total, parts = planned["estimate"]["total"], planned["experts"]
    assert max(one["alone"] for one in parts) < total < sum(one["alone"] for one in parts)
    assert "together" in shelf.finish(*FUSE, "--dry-run").stdout
