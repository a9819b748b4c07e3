"""`expert-cli train --fuse` with the real worker: each expert has the run that it would have alone."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import SAMPLE, find_cli, manifest_of, rows_of, save_base, surroundings, write_rows
from learnt import assert_learnt
from safetensors.torch import load_file
from tiny import apart

pytestmark = pytest.mark.timeout(900)
NAMES = ("counts", "sums")
SETTINGS: dict[str, dict[str, object]] = {
    "counts": {"max_steps": 6},
    "sums": {"max_steps": 9, "rank": 5, "batch_size": 1, "gradient_accumulation_steps": 4, "seed": 11},
}


@dataclass
class Shelf:
    folder: Path
    cli: Path

    def expert(self, name: str) -> Path:
        return self.folder / "experts" / name

    def run_of(self, name: str) -> Path:
        return self.expert(name) / "weights" / "base"

    def clear(self) -> None:
        for name in NAMES:
            shutil.rmtree(self.expert(name) / "weights", ignore_errors=True)

    def environment(self) -> dict[str, str]:
        return surroundings(1) | {"EXPERT_HOME": str(self.folder / "home")}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.cli), *words],
            env=self.environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.cli), *words],
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )


TRAIN = ("train", "--device", "cpu")
FUSE = (*TRAIN, "--fuse", "counts,sums")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shelf, dict[str, Path]]]:
    """The shelf, and the run of each expert that was trained alone."""
    cli = find_cli()
    if cli is None:
        pytest.skip("expert-cli is not built: make setup")
    shelf = Shelf(tmp_path_factory.mktemp("fused"), cli)
    save_base(shelf.folder / "base")
    runs = {}
    for number, name in enumerate(NAMES):
        folder = shelf.expert(name)
        folder.mkdir(parents=True)
        write_rows(folder / "train.jsonl", rows_of(number))
        more = {"bf16": False, "fp16": False, **SETTINGS[name]}
        (folder / "manifest.json").write_text(json.dumps(manifest_of(name, "../../base", SAMPLE, **more)))
        alone = shelf.folder / f"{name}-alone"
        trained = shelf.run(*TRAIN, str(folder), "-o", str(alone))
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


def test_each_expert_has_the_run_that_it_has_alone(whole: tuple[Shelf, dict[str, Path]]) -> None:
    shelf, alone = whole
    shelf.clear()
    fused = shelf.run(*FUSE, "--json")
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
    again = shelf.run(*FUSE, "--json")
    assert [one["finished_before"] for one in json.loads(again.stdout)["experts"]] == [True, True]
    assert "nothing" not in shelf.run(*TRAIN, "experts/sums").stderr


def newest(run: Path) -> int:
    steps = [path.name.removeprefix("checkpoint-") for path in run.glob("checkpoint-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_group_is_resumed_alone_or_fused(whole: tuple[Shelf, dict[str, Path]], by: int) -> None:
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
    resumed = shelf.run(*TRAIN, "experts/sums", "--resume")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert_same(shelf.run_of("sums"), alone["sums"])
    # The rest of the group: one is finished, the other resumes.
    rest = shelf.run(*FUSE, "--resume")
    assert rest.returncode == 0, rest.stderr[-3000:]
    assert_same(shelf.run_of("counts"), alone["counts"])


def test_a_run_that_must_not_be_touched_stops_the_group_before_it_starts(
    whole: tuple[Shelf, dict[str, Path]],
) -> None:
    shelf, _ = whole
    shelf.clear()
    assert shelf.run(*TRAIN, "experts/sums", "--max-steps", "2").returncode == 0
    fused = shelf.run(*FUSE, "--json")
    counts, sums = json.loads(fused.stdout)["experts"]
    assert fused.returncode == 1
    assert sums["error"]["code"] == "output-used" and counts["error"]["code"] == "group-refused"
    assert "sums" in counts["error"]["message"]
    assert newest(shelf.run_of("counts")) == 0 and not (shelf.run_of("counts") / "events.jsonl").exists()


REFUSED = [
    (["--fuse", "counts"], "names one expert"),
    (["--fuse", "counts,counts"], "counts is named twice"),
    (["--fuse", "counts,total"], "there is no expert `total`"),
    (["--fuse", "counts,sums", "--set", "training.config.adapter_type=dora"], "its adapter is dora"),
    (["--fuse", "counts,sums", "--max-memory", "1GB"], "experts fused need about"),
    (["--fuse", "counts,sums", "--resume", "checkpoint-2"], "which is one expert's"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_fused_is_refused_before_anything_starts(
    whole: tuple[Shelf, dict[str, Path]], words: list[str], message: str
) -> None:
    shelf, _ = whole
    shelf.clear()
    refused = shelf.run(*TRAIN, *words)
    assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    assert not shelf.run_of("counts").exists()


def test_the_plan_of_a_group_has_its_base_once(whole: tuple[Shelf, dict[str, Path]]) -> None:
    shelf, _ = whole
    planned = json.loads(shelf.run(*FUSE, "--dry-run", "--json").stdout)
    total, parts = planned["estimate"]["total"], planned["experts"]
    assert max(one["alone"] for one in parts) < total < sum(one["alone"] for one in parts)
    assert "together" in shelf.run(*FUSE, "--dry-run").stdout
