"""Runs through the CLI on cards that are not here: killed and resumed, short of memory, on several cards.

No kernel runs, so losses and answers mean nothing; test_values.py has the commands that read
them. DDP finds no gradient to sum: which ones there are is read back from what a kernel writes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_trial import CLI, config_of, manifest_of
from safetensors.numpy import save_file
from stand_in import RTX_4090, Card, Driver

pytestmark = pytest.mark.timeout(300)
WORDS = ["<eos>", "<unk>", *(f"w{number}" for number in range(250))]
BASE = config_of(
    "qwen3", vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512,
    tie_word_embeddings=True,
)  # fmt: skip
STEPS = 12
OF_EXPERT = {"rank": 8, "alpha": 16, "max_seq_length": 128, "batch_size": 4, "max_steps": STEPS}


def write_weights(path: Path) -> None:
    hidden, inner, heads, keys = 64, 128, 64, 32
    shapes = {"model.embed_tokens": (256, hidden), "model.norm": (hidden,)}
    for layer in ("model.layers.0", "model.layers.1"):
        shapes |= {f"{layer}.{norm}": (hidden,) for norm in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"{layer}.self_attn.{norm}": (16,) for norm in ("q_norm", "k_norm")}
        shapes |= {f"{layer}.self_attn.{part}_proj": (keys, hidden) for part in "kv"}
        shapes |= {f"{layer}.self_attn.q_proj": (heads, hidden), f"{layer}.self_attn.o_proj": (hidden, heads)}
        shapes |= {f"{layer}.mlp.{part}_proj": (inner, hidden) for part in ("gate", "up")}
        shapes[f"{layer}.mlp.down_proj"] = (hidden, inner)
    draw = np.random.default_rng(7)
    tensors = {
        f"{name}.weight": draw.standard_normal(shape, np.float32) / 8 for name, shape in shapes.items()
    }
    save_file(tensors, path, metadata={"format": "pt"})


def write_base(folder: Path) -> None:
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<eos>", **special}],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(WORDS)},
            "unk_token": "<unk>",
        },
    }
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<eos>"}
    folder.mkdir()
    documents = {"config.json": BASE, "tokenizer.json": tokenizer, "tokenizer_config.json": kind}
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    write_weights(folder / "model.safetensors")


def write_rows(path: Path, count: int) -> None:
    draw = random.Random(count)
    rows = [" ".join(draw.choices(WORDS[2:], k=draw.randint(5, 60))) for _ in range(count)]
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))


@dataclass(frozen=True)
class Runs:
    """The CLI on one expert; each run has a folder for itself and all share the prepared rows."""

    driver: Driver
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    card: Card | None = RTX_4090
    # Nothing is computed here that a comparison of kernels could find.
    proves: bool = False
    device: str = "cuda"

    def start(self, command: str, name: str, *options: str) -> subprocess.Popen[str]:
        words = [CLI, "--python", self.folder / "python", command, "-m", self.folder]
        words += ["--output", self.output(name), "--device", self.device, *options]
        if command == "train" and not self.proves:
            words.append("--no-prove")
        variables = {"EXPERT_HOME": str(self.folder / "home"), **self.variables}
        return subprocess.Popen(
            [str(word) for word in words],
            env=self.driver.for_cli(self.card) | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str, name: str, *options: str) -> tuple[int, str]:
        process = self.start(command, name, *options)
        said, _ = process.communicate()
        assert "Traceback" not in said, said
        return process.returncode, said

    def train(self, name: str, *options: str) -> str:
        code, said = self.run("train", name, *options)
        assert code == 0, said
        return said

    def output(self, name: str) -> Path:
        return self.folder / "weights" / name

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        lines = (self.output(name) / "events.jsonl").read_text().splitlines()
        return [body for body in (json.loads(line)["body"] for line in lines) if body["type"] == kind]

    def applied(self, name: str) -> dict[str, Any]:
        return {body["key"]: body["value"] for body in self.events(name, "applied")}


def expert(driver: Driver, folder: Path) -> Runs:
    write_base(folder / "base")
    write_rows(folder / "train.jsonl", 200)
    manifest = manifest_of("./base", OF_EXPERT)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    driver.python(folder)
    return Runs(driver, folder)


@pytest.fixture(scope="module")
def runs(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return expert(driver, tmp_path_factory.mktemp("runs"))


@pytest.mark.full
def test_killed_and_resumed(runs: Runs) -> None:
    """From its last checkpoint, with the optimizer's state, to the same last step."""
    long = ("--set", "training.config.max_steps=400", "--set", "training.config.save_steps=20")
    process = runs.start("train", "killed", *long)
    while process.poll() is None and not (runs.output("killed") / "checkpoint-40").is_dir():
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[0]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    runs.train("killed", "--resume", *long)
    first, second = runs.events("killed", "started")
    (ended,) = runs.events("killed", "finished")
    assert not first["resumed_from"] and 40 <= second["resumed_from"] < 400
    assert ended["result"]["steps"] == 400 and ended["result"]["resumed_from"] == second["resumed_from"]
    done = [body["step"] for body in runs.events("killed", "progress")]
    resumed = done.index(second["resumed_from"] + 1)
    assert set(range(1, 401)) == set(done) and done[-1] == 400 and resumed < len(done)
    names = {path.name for path in (runs.output("killed") / "final").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= names
    assert runs.applied("killed")["kernels.attention"] == "torch_varlen"


# From the allocation of this number on, how many are refused, and what the run says and does. torch asks a
# second time after it returned what it holds, with smaller pieces a third time.
REFUSED = {
    "for a moment": ("3:3", 0, "the step is repeated with 2"),
    "while the base is loaded": ("1:100000", 1, "Out of memory on GPU 0: "),
    "for ever": ("3:100000", 1, "One row alone does not fit into the device's memory"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == "for a moment" else pytest.mark.full) for case in REFUSED]
)
def test_out_of_memory(runs: Runs, case: str) -> None:
    refused, expected, words = REFUSED[case]
    code, said = replace(runs, variables={"FAKECUDA_REFUSES": refused}).run("train", case.replace(" ", "-"))
    assert code == expected and words in said, said
    if expected:
        (error,) = [line for line in said.splitlines() if line.startswith("error:")]
        assert "hint: Lower " in said and "expandable" not in error and "PYTORCH" not in error


@pytest.mark.full
@pytest.mark.parametrize("first", range(1, 6))
@pytest.mark.parametrize("many", [1, 3, 6])
def test_out_of_memory_at_any_allocation(runs: Runs, first: int, many: int) -> None:
    """The run ends well, or says what to do."""
    refusing = replace(runs, variables={"FAKECUDA_REFUSES": f"{first}:{many}"})
    name = f"refused-{first}-{many}"
    code, said = refusing.run("train", name)
    if code == 0:
        assert runs.events(name, "finished")[0]["result"]["steps"] == STEPS
    else:
        assert code == 1 and "hint: Lower " in said, said


GRAPHS = ("--set", "training.config.use_cuda_graphs=true")


@pytest.mark.full
def test_replayed_steps_and_what_follows_them(runs: Runs) -> None:
    """Evaluations between steps; without graphs it continues; memory that is short once ends nothing."""
    evaluated = (
        "--set",
        "training.config.evaluation_strategy=steps",
        "--set",
        "training.config.eval_steps=4",
    )
    runs.train("replayed", *GRAPHS, *evaluated, "--set", "training.dataset.validation_split=0.2")
    assert runs.applied("replayed")["cuda_graphs.captured"] >= 1
    assert runs.events("replayed", "finished")[0]["result"]["steps"] == STEPS
    runs.train("resumed", *GRAPHS)
    runs.train("resumed", "--extend", "--set", f"training.config.max_steps={2 * STEPS}")
    assert runs.events("resumed", "finished")[-1]["result"]["steps"] == 2 * STEPS
    short = replace(runs, variables={"FAKECUDA_REFUSES": "3:3"})
    assert "is repeated with" in short.train("short", *GRAPHS)
    assert runs.events("short", "finished")[0]["result"]["steps"] == STEPS


UNLIKE = "Small|89|7.75|0|0;Large|90|79.65|70|0;Middle|89|23.52|0|0"


@pytest.mark.full
@pytest.mark.parametrize(("visible", "gib"), [("0", 7.75), ("1", 9.65), ("2", 23.52)])
def test_unlike_cards(runs: Runs, visible: str, gib: float) -> None:
    """The run's share of memory is what is free on the card that it uses."""
    variables = {"FAKECUDA_CARDS": UNLIKE, "CUDA_VISIBLE_DEVICES": visible}
    replace(runs, variables=variables, card=None).train(f"card-{visible}")
    limit = runs.applied(f"card-{visible}")["memory_limit_bytes"] / 2**30
    assert gib - 1.0 < limit < gib


@pytest.mark.full
def test_a_driver_too_old_for_torch(runs: Runs) -> None:
    old = replace(runs, variables={"FAKENVML_CUDA": "12040"})
    code, said = old.run("train", "old")
    assert code == 3 and "expert-cli doctor" in said, said


@pytest.mark.full
def test_utilization_that_nvml_refuses(runs: Runs) -> None:
    replace(runs, variables={"FAKENVML_NO_UTIL": "1"}).train("silent")
    assert {body["gpu_util"] for body in runs.events("silent", "progress")} == {None}


TOGETHER = ("--set", "training.config.distributed.processes=2")
SHARDED = ("--set", "training.config.distributed.strategy=fsdp2")


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_two_cards(runs: Runs, strategy: str) -> None:
    """Over NCCL, a card each; one process continues what two have trained."""
    two = replace(runs, card=replace(RTX_4090, count=2))
    options = TOGETHER + (SHARDED if strategy == "fsdp2" else ())
    two.train(strategy, *options)
    found = runs.applied(strategy)["distributed"]
    assert found == {"strategy": strategy, "processes": 2, "backend": "nccl"}
    assert runs.events(strategy, "finished")[0]["result"]["steps"] == STEPS
    runs.train(strategy, "--extend", "--set", f"training.config.max_steps={2 * STEPS}")
    assert runs.events(strategy, "finished")[-1]["result"]["steps"] == 2 * STEPS


@pytest.mark.full
def test_more_processes_than_cards(runs: Runs) -> None:
    code, said = runs.run("train", "too-many", *TOGETHER)
    assert code != 0 and "processes" in said and "hint:" in said, said


@pytest.mark.full
def test_exported_from_a_card(runs: Runs) -> None:
    """Every tensor is memory that nothing used before, and so zero: a check of its values holds."""
    fresh = replace(runs, variables={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    fresh.train("exported")
    code, said = fresh.run("export", "exported", "--adapter")
    assert code == 0 and "logits differ by 0" in said, said
    assert (runs.output("exported") / "export" / "adapter" / "adapter_model.safetensors").is_file()
