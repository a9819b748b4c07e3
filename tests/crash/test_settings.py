"""Kills of every kind of settings that users run, by `defaults`: presets, shipped experts, real manifests.

The command line makes the plan; the worker that carries it out is forked from a warm parent, with the real
stage and token cache. What the command line does about a kill is in test_cli.py.
"""

import json
import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command import find_cli, manifest_of, rows_of, save_base, surroundings, write_rows
from defaults import Case, cases
from learnt import assert_learnt
from plans import changed
from trials import SIGKILL, Runs, Server

STEPS = 12
KILLS = 2
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.name == "nt", reason="kills by signal"),
]

KIND = (
    "adapter_type",
    "dropout",
    "optim",
    "packing",
    "group_by_length",
    "bf16",
    "fp16",
    "lr_scheduler",
    "gradient_checkpointing",
    "evaluation_strategy",
    "load_best_model_at_end",
)


def _distinct() -> dict[str, Case]:
    """One case of each kind of settings; what differs only in name, place or size is one kind."""
    found: dict[str, tuple[str, Case]] = {}
    for case in cases():
        manifest = manifest_of("kind", "./base", case)
        config = {key: value for key, value in manifest["training"]["config"].items() if key[0] != "_"}
        marks = [config.get(key) for key in KIND]
        found.setdefault(json.dumps([marks, manifest["base_models"][0]["quantization"]]), (case.name, case))
    return dict(found.values())


CASES = _distinct() if os.environ.get("EXPERT_FULL_TESTS") == "1" and find_cli() else {}


@pytest.fixture(scope="module", params=list(CASES))
def runs(request: pytest.FixtureRequest, server: Server, quick_folder: Path) -> Runs:
    folder = quick_folder / request.param.replace(" ", "-")
    folder.mkdir()
    planned = _planned(folder, CASES[request.param])

    def document(_: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
        return changed(json.loads(planned), changes)

    runs = Runs(server, folder, {}, document=document)
    runs.undisturbed()
    return runs


def _planned(folder: Path, case: Case) -> str:
    """The plan of a training, as JSON."""
    save_base(folder / "base")
    write_rows(folder / "train.jsonl", rows_of())
    write_rows(folder / "turned.jsonl", rows_of()[::-1])
    (folder / "manifest.json").write_text(
        json.dumps(manifest_of("expert-tiny", "./base", case, max_steps=STEPS))
    )
    environment = {**surroundings(1), "EXPERT_HOME": str(folder / "home")}
    command = [find_cli(), "plan", "--json", "--device", "cpu", "-m", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(done.stdout)["plan"]
    plan["request"] = {
        "stage": "train",
        "resume": {"from": "nothing"},
        "extend": False,
        "evaluate": False,
        "profile": False,
    }
    return json.dumps(plan)


def test_the_run_learns(runs: Runs) -> None:
    assert_learnt(runs.output("undisturbed"))


def test_other_rows_give_other_bytes(runs: Runs) -> None:
    plan = json.loads((runs.folder / "undisturbed" / "plan.json").read_text())
    places = {name: str(runs.folder / "turned.jsonl") for name in plan["machine"]["paths"]["data"]}
    turned = Runs(runs.server, runs.folder, {"machine.paths.data": places}, document=runs.document)
    assert turned.go("turned")["code"] == 0, turned.log("turned")
    adapters = [runs.output(name) / "final/adapter_model.safetensors" for name in ("undisturbed", "turned")]
    assert adapters[0].read_bytes() != adapters[1].read_bytes()


def test_killed_at_random_moments_and_resumed(runs: Runs) -> None:
    draw = random.Random(runs.folder.name)
    whole = runs.go("timing")["seconds"]
    killed = 0
    for number in range(KILLS):
        name = f"killed-{number}"
        answer = runs.go(name, kill_after=draw.uniform(0.3, 0.9) * whole)
        assert answer["code"] in (0, SIGKILL), runs.log(name)
        killed += answer["code"] == SIGKILL
        runs.finish_and_compare(name, STEPS)
    assert killed, "each run ended before its kill"
