"""What `plan` expects a token to cost on a card, beside a trace of a real step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from card_trial import Found, Trial, run_all
from stand_in import RTX_4090, Driver
from step_ledger import FILE

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
DORA = {"adapter_type": "dora", "rank": 16, "alpha": 32}
TRIALS = {
    "lora": Trial(traced=True),
    "qlora": Trial(quantization="int4", traced=True),
    "dropout": Trial(config={"dropout": 0.1}, traced=True),
    "dora": Trial(config=DORA, traced=True),
    "checkpointed": Trial(config={"gradient_checkpointing": True}, traced=True),
    "selective": Trial(config={"gradient_checkpointing": "selective"}, traced=True),
    "qwen3-8b": Trial(base="qwen3-8b", rows=1, quantization="int4", traced=True),
    "llama-8b": Trial(base="llama-8b", rows=2, quantization="int4", traced=True),
}
# Of the ledger, by the trial with the same settings.
LAUNCHED = {
    "lora": "qwen3-0.6b lora 4x2048",
    "qlora": "qwen3-0.6b qlora 4x2048",
    "dropout": "qwen3-0.6b lora dropout 4x2048",
    "checkpointed": "qwen3-0.6b lora checkpointed 4x2048",
    "selective": "qwen3-0.6b lora selective 4x2048",
    "qwen3-8b": "qwen3-8b qlora 1x2048",
    "llama-8b": "llama-8b qlora 2x2048",
}


@pytest.fixture(scope="module")
def traced(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    return run_all(driver, TRIALS, RTX_4090, tmp_path_factory.mktemp("traced"))


@pytest.mark.parametrize("name", TRIALS)
def test_work_is_that_of_a_traced_step(traced: dict[str, Found], name: str) -> None:
    _, measured = traced[name]
    work, trace, tokens = measured["forecast"]["work"], measured["step"]["traced"], measured["step"]["tokens"]
    shares = {
        "flops": work["product_flops"] * tokens / trace["flops"]["product"],
        "elementwise": work["elementwise_bytes"] * tokens / trace["bytes"]["elementwise"],
        "low rank": work["low_rank_bytes"] * tokens / trace["bytes"]["low_rank"],
    }
    if "dequantize" in trace["bytes"]:
        batches = measured["forecast"]["work"]["dequantized_bytes"] * _micro_batches(traced[name])
        shares["dequantized"] = batches / trace["bytes"]["dequantize"]
    wrong = {what: share for what, share in shares.items() if not 0.88 < share < 1.15}
    assert not wrong, shares


@pytest.mark.parametrize("name", LAUNCHED)
def test_launches_are_those_of_the_ledger(traced: dict[str, Found], name: str) -> None:
    ledger = json.loads(FILE.read_text())[LAUNCHED[name]]
    counted = (ledger["kernels"] + ledger["products"]) / _micro_batches(traced[name])
    share = traced[name][1]["forecast"]["work"]["launches"] / counted
    assert 0.93 < share < 1.07, share


def _micro_batches(found: Found) -> int:
    plan: dict[str, Any] = found[0]
    accumulation: int = plan["machine"]["accumulation"]
    return accumulation
