"""The thin scripts over data sets, run as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[3] / "scripts"


def run(name: str, *arguments: str, home: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HF_HOME": str(home)}
    for override in ("HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        environment.pop(override, None)
    return subprocess.run(
        [sys.executable, str(SCRIPTS / name), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def found(experts: Path, home: Path) -> list[dict[str, Any]]:
    done = run("find_datasets.py", "--experts", str(experts), "--json", home=home)
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)["datasets"]
    return told


def test_data_sets_are_found_with_their_users(tmp_path: Path) -> None:
    expert = tmp_path / "experts" / "expert-one"
    (expert / "datasets").mkdir(parents=True)
    (expert / "datasets" / "train.jsonl").write_text("x" * 100)
    dataset = {"path": "datasets/train.jsonl", "tasks": [{"path": "owner/name::train::main"}]}
    (expert / "manifest.json").write_text(json.dumps({"training": {"dataset": dataset}}))
    blobs = tmp_path / "home" / "hub" / "datasets--owner--name" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "a").write_text("y" * 50)
    (tmp_path / "home" / "datasets" / "other___set").mkdir(parents=True)
    told = {one["name"]: one for one in found(tmp_path / "experts", tmp_path / "home")}
    assert (told["datasets/train.jsonl"]["bytes"], told["datasets/train.jsonl"]["used_by"]) == (
        100,
        ["expert-one"],
    )
    assert (told["owner/name"]["bytes"], told["owner/name"]["used_by"]) == (50, ["expert-one"])
    assert (told["other/set"]["place"], told["other/set"]["used_by"]) == ("datasets", [])


def test_nothing_found_is_said(tmp_path: Path) -> None:
    done = run("find_datasets.py", "--experts", str(tmp_path), home=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("No data sets")


def test_an_expert_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run("pretokenize_datasets.py", "--expert", "expert-nowhere", home=tmp_path)
    assert done.returncode == 1
    assert "No such expert: expert-nowhere" in done.stderr
