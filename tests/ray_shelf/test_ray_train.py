"""`expert-cli train` in the workers of Ray Train, by the lines of docs/several-processes.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import HEAD, SECOND, Cluster, Shelf, environment
from safetensors.torch import load_file
from tiny import apart

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="each node has an address of the loopback"),
]
SETTINGS = {"bf16": False, "fp16": False}


def lines_of_the_docs(shelf: Shelf) -> str:
    """The example, on this cluster's folders and without GPUs."""
    text = (ROOT / "docs" / "several-processes.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    replaced = {
        '"expert-cli"': repr(str(shelf.cli)),
        '"/shared/experts/expert-sql"': repr(str(shelf.folder / "experts" / "ash")),
        '"/shared/runs/sql"': repr(str(shelf.run("ash"))),
        '"--resume"': '"--resume", "--device", "cpu"',
        "num_workers=8, use_gpu=True": 'num_workers=2, resources_per_worker={"CPU": 1}',
        '"/shared/ray"': repr(str(shelf.folder / "ray")),
    }
    for before, after in replaced.items():
        assert before in example, before
        example = example.replace(before, after)
    return example


def test_two_workers_of_ray_train_one_expert(
    cli: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = Shelf(tmp_path_factory.mktemp("alone"), cli, ("ash",), **SETTINGS)
    alone.finish()
    cluster.add(HEAD, cpus=2)
    cluster.add(SECOND, cpus=2)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), cli, ("ash",), **SETTINGS)
    program = shelf.folder / "train.py"
    program.write_text(lines_of_the_docs(shelf))
    for _ in range(2):  # The second finds that it is finished.
        ended = subprocess.run(
            [sys.executable, program],
            env=environment(RAY_ADDRESS=cluster.address),
            cwd=shelf.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert ended.returncode == 0, ended.stderr[-4000:]
    ours, theirs = (load_file(it.run("ash") / "final" / "adapter_model.safetensors") for it in (shelf, alone))
    assert ours.keys() == theirs.keys()
    assert max(apart(ours[name], theirs[name]) for name in ours) < 1e-6
    starts = [event["body"] for event in shelf.events("ash") if event["body"]["type"] == "started"]
    assert len(starts) == 1
    applied = [event["body"] for event in shelf.events("ash") if event["body"]["type"] == "applied"]
    processes = [body["value"] for body in applied if body["key"] == "distributed"]
    assert [value["processes"] for value in processes] == [2]
    shutil.rmtree(shelf.folder / "ray", ignore_errors=True)
