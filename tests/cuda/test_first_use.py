"""Before the first training on a card its kernels are compared with their references, by itself and once."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from card_trial import CLI, manifest_of
from stand_in import RTX_4090, Driver
from test_runs import OF_EXPERT, Runs, expert, write_rows

from expert_worker import __version__

pytestmark = pytest.mark.timeout(300)
FIRST = "first training in bf16 on NVIDIA GeForce RTX 4090: comparing its kernels with their references, once"
SLOWER = "a step takes 2.00 times as long"
# In place of the comparison, as the worker's kernels compute nothing here.
FINDING = """#!/bin/sh
if [ "$3" = prove ]; then
  shift 5; echo "$@" >> "{folder}/asked"
  [ -e "{folder}/fails" ] && {{ echo "RuntimeError: the card is gone" >&2; exit 1; }}
  mkdir -p "{folder}/home/kernels" && cp "{folder}/found.json" "{folder}/home/kernels/"
  printf '%s\\n' '{trial}' '{{"file": "found.json"}}'
  exit 0
fi
exec "{python}" "$@"
"""


def trial(verdict: str, reason: str) -> dict[str, Any]:
    unmeasured = dict.fromkeys(("loss_apart", "gradients_apart", "accepted", "seconds", "reference_seconds"))
    named = {"operation": "torch_compile", "kernel": "inductor", "format": "bf16"}
    return {**named, "verdict": verdict, "reason": reason, **unmeasured}


@pytest.fixture
def runs(driver: Driver, tmp_path: Path) -> Runs:
    """With a comparison that finds compiled layers slower; torch calls the card by another name."""
    made = expert(driver, tmp_path)
    found = {"device": "A part of a card, compute capability 8.9", "named": RTX_4090.name, "torch": "any"}
    kept = {**found, "worker": __version__, "date": "2026-01-02", "trials": [trial("slower", SLOWER)]}
    (tmp_path / "found.json").write_text(json.dumps(kept))
    python = (tmp_path / "python").rename(tmp_path / "real-python")
    line = json.dumps({"trial": trial("slower", SLOWER)})
    (tmp_path / "python").write_text(FINDING.format(folder=tmp_path, trial=line, python=python))
    (tmp_path / "python").chmod(0o755)
    return replace(made, proves=True)


def asked(runs: Runs) -> list[str]:
    path = runs.folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


def test_once_and_the_plan_follows_what_was_found(runs: Runs) -> None:
    code, said = runs.run("train", "shown", "--dry-run")
    assert code == 0 and not asked(runs) and FIRST not in said
    said = runs.train("first")
    assert asked(runs) == ["--card 0 --named NVIDIA GeForce RTX 4090 --format bf16"]
    assert FIRST in said and f"off  torch_compile   inductor          bf16  {SLOWER}" in said
    assert f"the layers are not compiled: {SLOWER}" in said
    said = runs.train("first")
    assert len(asked(runs)) == 1 and "this recipe is finished" in said


@pytest.mark.full
def test_not_before_the_second_training(runs: Runs) -> None:
    runs.train("first")
    said = runs.train("second")
    assert len(asked(runs)) == 1 and FIRST not in said and f"the layers are not compiled: {SLOWER}" in said


@pytest.mark.full
def test_not_where_it_is_left_out(runs: Runs) -> None:
    said = replace(runs, proves=False).train("first")
    assert not asked(runs) and "not yet verified on NVIDIA GeForce RTX 4090" in said


@pytest.mark.full
def test_a_comparison_that_ends_early_does_not_keep_from_training(runs: Runs) -> None:
    (runs.folder / "fails").touch()
    said = runs.train("first")
    words = " ".join(said.split())
    assert "the kernels could not be compared, and training uses them all the same" in words
    assert "RuntimeError: the card is gone" in words and "`expert-cli doctor --prove`" in words
    assert runs.events("first", "finished")


def train_two(runs: Runs, *words: str) -> str:
    """Experts of one base, by their names in `experts/`."""
    for name in ("a", "b"):
        folder = runs.folder / "shelf" / "experts" / name
        folder.mkdir(parents=True)
        write_rows(folder / "train.jsonl", 40)
        manifest = manifest_of("../../../base", OF_EXPERT | {"max_steps": 2})
        (folder / "manifest.json").write_text(json.dumps(manifest | {"name": name}))
    command = [CLI, "--python", runs.folder / "python", "train", *words, "--device", "cuda"]
    variables = runs.driver.for_cli(runs.card) | {"EXPERT_HOME": str(runs.folder / "home")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=runs.folder / "shelf",
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_before_experts_that_train_fused(runs: Runs) -> None:
    said = train_two(runs, "--fuse", "a,b")
    assert asked(runs) == ["--card 0 --named NVIDIA GeForce RTX 4090 --format bf16"] and FIRST in said
    assert f"the layers are not compiled: {SLOWER}" in said


@pytest.mark.full
def test_not_before_experts_that_train_fused_where_it_is_left_out(runs: Runs) -> None:
    said = train_two(runs, "--fuse", "a,b", "--no-prove")
    assert not asked(runs) and FIRST not in said


@pytest.mark.full
def test_a_comparison_that_ends_early_is_tried_once_for_a_shelf(runs: Runs) -> None:
    (runs.folder / "fails").touch()
    said = train_two(runs, "--all", "--no-fuse")
    assert len(asked(runs)) == 1 and said.count("the kernels could not be compared") == 1


@pytest.mark.full
def test_the_comparison_itself(driver: Driver, tmp_path: Path) -> None:
    """Nothing is computed, so what is found says nothing; the card's names and the format are kept."""
    runs = replace(expert(driver, tmp_path), proves=True)
    assert FIRST in runs.train("first")
    (kept,) = (tmp_path / "home" / "kernels").glob("*.json")
    document = json.loads(kept.read_text())
    assert document["named"] == RTX_4090.name and document["device"].startswith(RTX_4090.name)
    assert {found["format"] for found in document["trials"]} == {"bf16"}
    assert FIRST not in runs.train("second")
