"""Several experts in one pass on a card: values, launches, waits and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from card_trial import BASES, CLI, manifest_of, write_base
from safetensors.numpy import load_file
from stand_in import RTX_4090, Driver
from step_ledger import FILE, check
from test_runs import OF_EXPERT
from test_runs import write_base as write_tiny_base
from test_values import write_questions

pytestmark = pytest.mark.timeout(600)
HERE = Path(__file__).parent
# In 32 bits the devices differ only in the order of sums; Triton's kernels for dropout are not computed.
EXPERTS: dict[str, dict[str, Any]] = {
    "a": {"rank": 8, "max_steps": 6},
    "b": {"rank": 4, "max_steps": 9, "target_modules": ["q_proj", "v_proj", "down_proj"]},
    "c": {"rank": 8, "max_steps": 4, "gradient_accumulation_steps": 2},
}
CONFIG = OF_EXPERT | {"bf16": False, "learning_rate": 0.02, "batch_size": 2}


class Shelf:
    def __init__(self, driver: Driver, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def add(self, name: str, manifest: dict[str, Any], rows: int) -> None:
        (self.folder / name).mkdir()
        write_questions(self.folder / name / "train.jsonl", rows)
        manifest["name"] = name
        (self.folder / name / "manifest.json").write_text(json.dumps(manifest))

    def cli(self, *words: str | Path) -> dict[str, Any]:
        variables = self.driver.for_cli(RTX_4090) | {"EXPERT_HOME": str(self.folder / "home")}
        command = [str(CLI), *map(str, words), "--device", "cuda", "--json"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def plan(self, name: str, output: Path) -> Path:
        plan = self.cli("plan", "-m", self.folder / name, "--output", output)["plan"]
        ways = dict.fromkeys(("extend", "evaluate", "profile"), False)
        plan["request"] = {"stage": "train", "resume": {"from": "nothing"}, **ways}
        output.mkdir(parents=True)
        (output / "plan.json").write_text(json.dumps(plan))
        return output / "plan.json"

    def python(self, program: str, *words: Path) -> str:
        command = [sys.executable, HERE / program, *words]
        environment = self.driver.environment(RTX_4090)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def trained(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each expert fused, and alone."""
    shelf = Shelf(driver, tmp_path_factory.mktemp("fused"))
    write_tiny_base(shelf.folder / "base")
    for number, (name, config) in enumerate(EXPERTS.items()):
        shelf.add(name, manifest_of("../base", CONFIG | config), 100 + number)
    shelf.python("fused_runs.py", *(shelf.plan(name, shelf.folder / "fused" / name) for name in EXPERTS))
    for name in EXPERTS:
        shelf.python("fused_runs.py", shelf.plan(name, shelf.folder / "alone" / name))
    return shelf.folder


def bodies(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "events.jsonl").read_text().splitlines()
    return [body for body in (json.loads(line)["body"] for line in lines) if body["type"] == kind]


@pytest.mark.parametrize("name", EXPERTS)
def test_an_expert_is_the_same_fused(trained: Path, name: str) -> None:
    runs = [trained / way / name for way in ("fused", "alone")]
    losses = [[body["loss"] for body in bodies(run, "progress")] for run in runs]
    assert len(losses[0]) == len(losses[1]) > 1 and losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0] - 0.1
    mine, theirs = (load_file(run / "final" / "adapter_model.safetensors") for run in runs)
    assert mine.keys() == theirs.keys()
    for tensor, values in mine.items():
        assert values == pytest.approx(theirs[tensor], rel=1e-4, abs=1e-5), tensor
    applied = [{body["key"]: body["value"] for body in bodies(run, "applied")} for run in runs]
    assert applied[0]["fused"] == [other for other in EXPERTS if other != name]
    assert applied[0]["kernels.adapted_linear"] == "lora_on_card"


@pytest.mark.full
def test_a_shelf_fuses_on_a_card(driver: Driver, tmp_path: Path) -> None:
    """Where launches bound the step and a probe found it faster."""
    shelf = Shelf(driver, tmp_path)
    write_tiny_base(tmp_path / "base")
    (tmp_path / "experts").mkdir()
    shelf.folder = tmp_path / "experts"
    names = ["a", "b", "c"]
    for name in names:
        shelf.add(name, manifest_of("../../base", OF_EXPERT | {"max_steps": 4}), 40)
    words = ("--python", driver.python(tmp_path), "train", "--all", shelf.folder, "--no-prove")
    (shape,) = shelf.cli(*words, "--dry-run")["shapes"]
    assert shape["experts"] == names and shape["measured"] is None
    verdict = Path(shape["file"])
    verdict.parent.mkdir(parents=True, exist_ok=True)
    verdict.write_text(json.dumps({"tokens_per_second": {"1": 100.0, "2": 150.0, "4": 200.0}}))
    assert shelf.cli(*words)["ok"]
    for name in names:
        run = shelf.folder / name / "weights" / "base"
        assert bodies(run, "applied") and json.loads((run / "run.json").read_text())["applied"]["fused"]
        assert bodies(run, "finished")[0]["result"]["steps"] == 4


TRIALS: dict[str, dict[str, Any]] = {
    "2 experts 1x512": {"experts": 2},
    "4 experts 1x512": {"experts": 4},
    "4 experts dropout 1x512": {"experts": 4, "config": {"dropout": 0.1}},
    "4 experts qlora 1x512": {"experts": 4, "quantization": "int4"},
    "4 experts selective 1x512": {"experts": 4, "config": {"gradient_checkpointing": "selective"}},
    "2 experts compiled 1x512": {"experts": 2, "config": {"torch_compile": True}},
}


# Beside those of one after another.
LAUNCHES = {2: 0.8, 4: 0.6}


@pytest.fixture(scope="module")
def measured(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder, asked, planned = tmp_path_factory.mktemp("measured"), [], []
    base = write_base(folder / "base", BASES["qwen3-0.6b"])
    for name, trial in TRIALS.items():
        (folder / name).mkdir()
        shelf, count = Shelf(driver, folder / name), trial["experts"]
        config = {"batch_size": 1, "max_seq_length": 512, "max_steps": 4, **trial.get("config", {})}
        names = [f"e{number}" for number in range(count)]
        for own in names:
            shelf.add(own, manifest_of(str(base), config, trial.get("quantization", "none")), 1)
        group = ",".join(str(shelf.folder / own) for own in names)
        planned.append(shelf.cli("train", "--fuse", group, "--dry-run")["estimate"])
        plan = shelf.plan(names[0], shelf.folder / "run")
        asked.append({"path": str(plan), "base": str(base), "experts": count})
    (folder / "trials.json").write_text(json.dumps(asked))
    said = Shelf(driver, folder).python("measure_fused.py", folder / "trials.json")
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {
        name: one | {"planned": estimate} for name, one, estimate in zip(TRIALS, found, planned, strict=True)
    }


@pytest.mark.full
@pytest.mark.parametrize("name", TRIALS)
def test_costs_of_a_fused_pass(measured: dict[str, dict[str, Any]], name: str) -> None:
    """The host waits for nothing, and memory is as planned."""
    found, planned, count = measured[name]["fused"], measured[name]["planned"], TRIALS[name]["experts"]
    check(FILE, f"fused {name}", {key: found[key] for key in ("kernels", "products", "waits")})
    assert found["waits"] == 0
    # What is compiled is compiled here, also on the thread of the group.
    assert measured[name]["helpers"] == 0
    launches = [one["kernels"] + one["products"] for one in (found, measured[name]["alone"])]
    assert launches[0] < LAUNCHES[count] * count * launches[1]
    # No optimizer, and gradients of one micro-batch. The plan has room for a loss without Triton.
    there = planned["total"] - planned["context"] - planned["optimizer"] - planned["gradients"] // 2
    assert 0.8 <= found["peak_reserved"] / there <= 1.01, (found, planned)
