"""Steps on cards that are not here: what each costs the host, and its memory beside the plan's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from card_trial import Found, Trial, run, run_all
from stand_in import H100, LAPTOP, MIG, RTX_4090, V100, Card, Driver
from step_ledger import WAITS, check_memory, check_step

pytestmark = pytest.mark.timeout(900)
TINY: dict[str, Any] = {"base": "tiny", "rows": 2, "length": 128}
DORA = {"adapter_type": "dora", "rank": 16, "alpha": 32, "dropout": 0.1}


def costs(
    driver: Driver, name: str, trial: Trial, card: Card, folder: Path, **memory: float
) -> dict[str, Any]:
    plan, found = run(driver, trial, card, folder)
    check_step(name, found["step"])
    check_memory(plan, found["step"], **memory)
    assert found["step"]["waited"] == WAITS
    assert found["fits"] and found["micro_batch"] == plan["machine"]["micro_batch"]
    assert found["kernels_chosen"]["attention"] == "torch_varlen"
    assert found["events"] == []
    return found


def test_lora_as_init_sets_it(driver: Driver, tmp_path: Path) -> None:
    costs(driver, "qwen3-0.6b lora 4x2048", Trial(), RTX_4090, tmp_path)


def test_a_slice_of_a_card_whose_driver_answers_little(driver: Driver, tmp_path: Path) -> None:
    _, found = run(driver, Trial(**TINY), MIG, tmp_path)
    assert found["fits"] and found["events"] == [] and found["step"]["waited"] == WAITS


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "trial", "card", "least"),
    [
        ("qwen3-0.6b qlora 4x2048", Trial(quantization="int4"), RTX_4090, 0.95),
        ("qwen3-0.6b dora dropout 4x2048", Trial(config=DORA), RTX_4090, 0.95),
        ("qwen3-0.6b lora dropout 4x2048", Trial(config={"dropout": 0.1}), RTX_4090, 0.95),
        # What is kept is small beside what the loss of the last micro-batch needs for a moment.
        (
            "qwen3-0.6b lora checkpointed 4x2048",
            Trial(config={"gradient_checkpointing": True}),
            RTX_4090,
            0.90,
        ),
        (
            "qwen3-0.6b lora selective 4x2048",
            Trial(config={"gradient_checkpointing": "selective"}),
            RTX_4090,
            0.95,
        ),
        ("qwen3-0.6b lora 16x2048", Trial(rows=16), H100, 0.95),
        ("qwen3-0.6b lora 16x2048 on 8 GB", Trial(rows=16), LAPTOP, 0.95),
        ("qwen3-8b qlora 1x2048", Trial(base="qwen3-8b", rows=1, quantization="int4"), RTX_4090, 0.95),
        ("llama-8b qlora 2x2048", Trial(base="llama-8b", rows=2, quantization="int4"), RTX_4090, 0.95),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_costs(driver: Driver, tmp_path: Path, name: str, trial: Trial, card: Card, least: float) -> None:
    costs(driver, name, trial, card, tmp_path, least=least)


OPTIMIZERS = ["adamw_torch", "adamw_bnb_8bit", "paged_adamw_32bit", "paged_adamw_8bit", "adafactor", "sgd"]
ADAPTERS = ["rslora", "dora", "ia3", "lokr", "adalora"]


@pytest.fixture(scope="module")
def small_trials(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    ranks = {"rank": 16, "alpha": 32}
    optimizers = {name: {"optim": name} for name in OPTIMIZERS}
    adapters = {kind: {"adapter_type": kind, **({} if kind == "ia3" else ranks)} for kind in ADAPTERS}
    trials = {name: Trial(**TINY, config=config) for name, config in (optimizers | adapters).items()}
    return run_all(driver, trials, RTX_4090, tmp_path_factory.mktemp("small"))


@pytest.mark.full
@pytest.mark.parametrize("name", OPTIMIZERS + ADAPTERS)
def test_optimizers_and_adapters(small_trials: dict[str, Found], name: str) -> None:
    plan, found = small_trials[name]
    trained = (plan["recipe"]["optimizer"]["name"], plan["recipe"]["adapter"]["kind"])
    assert name in trained
    assert found["fits"] and found["events"] == [] and found["step"]["kernels"] > 0


@pytest.mark.full
@pytest.mark.parametrize("config", [{}, {"bf16": False, "fp16": True}], ids=["as init", "fp16"])
def test_a_card_without_bf16(driver: Driver, tmp_path: Path, config: dict[str, Any]) -> None:
    plan, found = run(driver, Trial(**TINY, config=config), V100, tmp_path)
    assert plan["machine"]["dtype"] == ("fp16" if config else "fp32")
    assert found["fits"] and found["kernels_chosen"]["attention"] == "sdpa_by_document"


@pytest.mark.full
def test_memory_that_another_process_takes(driver: Driver, tmp_path: Path) -> None:
    """The step is repeated with smaller micro-batches, and says so."""
    plan, found = run(driver, Trial(others_take=14.0), RTX_4090, tmp_path)
    assert plan["machine"]["micro_batch"] == 4 and found["micro_batch"] < 4
    assert [event["kind"] for event in found["events"]] == ["out_of_memory"]


@pytest.mark.full
@pytest.mark.parametrize("fault", ["wait", "launches", "memory", "device"])
def test_what_it_would_find(driver: Driver, tmp_path: Path, fault: str) -> None:
    """A wait, 100 launches or 100 MB more than a step needs, and a tensor on another device."""
    with pytest.raises(AssertionError) as found:
        plan, found_step = run(driver, Trial(fault=fault), RTX_4090, tmp_path)
        check_step("qwen3-0.6b lora 4x2048", found_step["step"])
        check_memory(plan, found_step["step"])
    wanted = {"wait": "'waits'", "launches": "'kernels'", "memory": "'mebibytes'", "device": "same device"}
    assert wanted[fault] in str(found.value)
