"""Which card a run uses: the plan's, by the CLI and NVML, is the one that CUDA gives the worker."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from card_trial import BASES, CLI, manifest_of, write_base
from stand_in import Driver

pytestmark = pytest.mark.timeout(300)
# Name, capability, GiB, GiB that others hold, MIG slices. By PCI bus; CUDA itself puts the largest first.
CARDS = ";".join(
    [
        "NVIDIA GeForce RTX 4060|89|7.75|0|0",
        "NVIDIA GeForce RTX 4090|89|23.52|14|0",
        "NVIDIA H100 80GB HBM3|90|79.65|0|8",
    ]
)
SMALL, LARGE, SLICE = "NVIDIA GeForce RTX 4060", "NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3 MIG"
SECOND, ITS_SLICE = "GPU-000000a1", "MIG-000000b2-0909-0909-0909-090909090909"


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("expert")
    base = write_base(folder / "base", BASES["qwen3-0.6b"])
    (folder / "train.jsonl").write_text('{"text": "a"}\n')
    (folder / "manifest.json").write_text(json.dumps(manifest_of(str(base), {"batch_size": 16})))
    return folder


def environment(driver: Driver, variables: dict[str, str]) -> dict[str, str]:
    return driver.for_cli(None) | {"FAKECUDA_CARDS": CARDS} | variables


Planned = tuple[int, dict[str, Any]]
"""Exit code and document."""


def planned(driver: Driver, expert: Path, variables: dict[str, str], *options: str) -> Planned:
    """What the CLI plans; only its worker loads the driver."""
    plain = environment(driver, variables)
    command = [CLI, "plan", "--json", "-m", expert, *options]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def codes(document: dict[str, Any]) -> set[str]:
    return {note["code"] for note in document["notes"] if note["code"].startswith("gpu")}


CASES: dict[str, tuple[dict[str, str], str, set[str]]] = {
    "nothing": ({}, SMALL, {"gpus-unlike"}),
    "number": ({"CUDA_VISIBLE_DEVICES": "1"}, LARGE, {"gpus-chosen", "gpu-memory-in-use"}),
    "uuid": ({"CUDA_VISIBLE_DEVICES": SECOND}, LARGE, {"gpus-chosen", "gpu-memory-in-use"}),
    "slice": ({"CUDA_VISIBLE_DEVICES": ITS_SLICE}, SLICE, {"gpus-chosen"}),
    "by bus": ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, SMALL, {"gpus-unlike"}),
    "fastest": ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, SLICE, {"gpus-unlike", "gpu-order"}),
    "second fastest": (
        {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"},
        LARGE,
        {"gpus-chosen", "gpu-order", "gpu-memory-in-use"},
    ),
    "unknown order": ({"CUDA_DEVICE_ORDER": "SLOWEST"}, SMALL, {"gpus-unlike", "gpu-order"}),
    "wrong after right": ({"CUDA_VISIBLE_DEVICES": "0,9,1"}, SMALL, {"gpus-ignored"}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_plan_is_for_the_card_that_is_used(driver: Driver, expert: Path, case: str) -> None:
    variables, name, said = CASES[case]
    code, document = planned(driver, expert, variables)
    device = document["plan"]["machine"]["device"]
    assert code == 0 and (device["kind"], device["index"], device["name"]) == ("cuda", 0, name)
    free = {SMALL: 7.75, LARGE: 23.52 - 14, SLICE: 79.65 / 8}[name]
    assert device["memory_bytes"] == pytest.approx(free * 2**30, rel=1e-6)
    estimate = document["plan"]["machine"]["estimate"]["total"]
    assert estimate <= device["memory_bytes"] and document["plan"]["machine"]["micro_batch"] < 16
    assert codes(document) == said


def test_cards_that_one_expert_leaves_unused_are_named(driver: Driver, expert: Path) -> None:
    for variables, said in [({}, ["2 of 3 GPUs are not used"]), ({"CUDA_VISIBLE_DEVICES": "1"}, [])]:
        _, document = planned(driver, expert, variables)
        notes = [note["message"] for note in document["notes"] if note["code"] == "unused-gpus"]
        assert [message.partition(":")[0] for message in notes] == said


def test_a_base_too_large_for_one_card_is_sharded_where_each_card_has_room(
    driver: Driver, tmp_path: Path
) -> None:
    base = write_base(tmp_path / "base", BASES["qwen3-8b"])
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    config = {"max_seq_length": 256, "gradient_checkpointing": "full"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(str(base), config)))
    card = "NVIDIA GeForce RTX 4080|89|15.6"

    def hint(*cards: str, more: tuple[str, ...] = ()) -> str:
        _, document = planned(driver, tmp_path, {"FAKECUDA_CARDS": ";".join(cards)}, *more)
        found = [note["hint"] for note in document["notes"] if note["code"] == "does-not-fit"]
        return "; ".join(found)

    two = hint(f"{card}|0|0", f"{card}|0|0")
    assert "or `distributed` to fsdp2 (" in two and "in each of 2 processes" in two, two
    assert "fsdp2" not in hint(f"{card}|0|0")
    assert "fsdp2" not in hint(f"{card}|0|0", f"{card}|9|0"), "others hold most of the second card"
    sharded = ("--set", "training.config.distributed.strategy=fsdp2")
    assert not hint(f"{card}|0|0", f"{card}|0|0", more=sharded)


@pytest.mark.parametrize("hidden", ["", "-1", "7", "0,0", "GPU-ff"])
def test_no_card_that_is_hidden(driver: Driver, expert: Path, hidden: str) -> None:
    code, document = planned(driver, expert, {"CUDA_VISIBLE_DEVICES": hidden})
    assert code == 0 and document["plan"]["machine"]["device"]["kind"] == "cpu"
    assert codes(document) == {"gpus-hidden"}
    code, refused = planned(driver, expert, {"CUDA_VISIBLE_DEVICES": hidden}, "--device", "cuda")
    assert code == 3 and "CUDA_VISIBLE_DEVICES" in json.dumps(refused)
    code, document = planned(driver, expert, {"CUDA_VISIBLE_DEVICES": hidden}, "--device", "cpu")
    assert code == 0 and codes(document) == set()


def names_of_worker(driver: Driver, tmp_path: Path, variables: dict[str, str]) -> list[str]:
    """The cards that torch finds in a worker which `doctor` starts."""
    command = [CLI, "--python", driver.python(tmp_path), "doctor", "--json"]
    found = environment(driver, variables)
    done = subprocess.run(command, env=found, capture_output=True, text=True, check=False)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    return [one.split(" (")[0] for one in checks["device"]["found"].split("; ")]


def test_the_worker_counts_as_the_plan(driver: Driver, tmp_path: Path) -> None:
    assert names_of_worker(driver, tmp_path, {}) == [SMALL, LARGE, SLICE]


WORKERS = {name: CASES[name] for name in ("second fastest", "uuid", "slice", "fastest", "wrong after right")}


@pytest.mark.full
@pytest.mark.parametrize("case", WORKERS)
def test_the_worker_has_the_card_of_the_plan(driver: Driver, tmp_path: Path, case: str) -> None:
    variables, name, _ = WORKERS[case]
    assert names_of_worker(driver, tmp_path, variables)[0] == name
