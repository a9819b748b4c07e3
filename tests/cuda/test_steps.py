"""Steps on cards that are not here: what each costs the host, and its memory beside the plan's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from card_trial import Found, Trial, run, run_all
from stand_in import H100, LAPTOP, MIG, RTX_4090, T4, Card, Driver
from step_ledger import WAITS, check_memory, check_step

pytestmark = pytest.mark.timeout(900)
TINY: dict[str, Any] = {"base": "tiny", "rows": 2, "length": 128}
DORA = {"adapter_type": "dora", "rank": 16, "alpha": 32, "dropout": 0.1}


def check_costs(name: str, found: Found, **memory: float) -> None:
    plan, measured = found
    check_step(name, measured["step"])
    check_memory(plan, measured["step"], **memory)
    assert measured["step"]["waited"] == WAITS
    assert measured["fits"] and measured["micro_batch"] == plan["machine"]["micro_batch"]
    assert measured["kernels_chosen"]["attention"] == "torch_varlen"
    assert measured["events"] == []


def test_lora_as_init_sets_it(in_usual_tests: dict[str, Found]) -> None:
    check_costs("qwen3-0.6b lora 4x2048", in_usual_tests["init"])


@pytest.mark.full
def test_a_slice_of_a_card_whose_driver_answers_little(driver: Driver, tmp_path: Path) -> None:
    _, found = run(driver, Trial(**TINY), MIG, tmp_path)
    assert found["fits"] and found["events"] == [] and found["step"]["waited"] == WAITS


OPTIMIZERS = ["adamw_torch", "adamw_bnb_8bit", "paged_adamw_32bit", "paged_adamw_8bit", "adafactor", "sgd"]
ADAPTERS = ["rslora", "dora", "ia3", "lokr", "adalora"]
_RANKS: dict[str, Any] = {"rank": 16, "alpha": 32}
SMALL = {name: Trial(**TINY, config={"optim": name}) for name in OPTIMIZERS} | {
    kind: Trial(**TINY, config={"adapter_type": kind, **({} if kind == "ia3" else _RANKS)})
    for kind in ADAPTERS
}
# What each of them makes the checks find.
FAULTS = {"wait": "'waits'", "launches": "'kernels'", "memory": "'mebibytes'"}
COSTS = {
    "qwen3-0.6b qlora 4x2048": Trial(quantization="int4"),
    "qwen3-0.6b dora dropout 4x2048": Trial(config=DORA),
    "qwen3-0.6b lora dropout 4x2048": Trial(config={"dropout": 0.1}),
    "qwen3-0.6b lora checkpointed 4x2048": Trial(config={"gradient_checkpointing": True}),
    "qwen3-0.6b lora selective 4x2048": Trial(config={"gradient_checkpointing": "selective"}),
    "qwen3-8b qlora 1x2048": Trial(base="qwen3-8b", rows=1, quantization="int4"),
    "llama-8b qlora 2x2048": Trial(base="llama-8b", rows=2, quantization="int4"),
}
# Compiled: the same step, its figures under the name with "compiled" before the batch.
_COMPILED: dict[str, Any] = {"torch_compile": True}
COMPILED = {
    # More steps: the packed batches of each have another number of tokens.
    "qwen3-0.6b lora compiled 4x2048": Trial(steps=6, config=_COMPILED),
    "qwen3-0.6b qlora compiled 4x2048": Trial(quantization="int4", config=_COMPILED),
    "qwen3-0.6b lora selective compiled 4x2048": Trial(
        config={"gradient_checkpointing": "selective", **_COMPILED}
    ),
    "qwen3-0.6b lora dropout compiled 4x2048": Trial(config={"dropout": 0.1, **_COMPILED}),
    "qwen3-0.6b dora dropout compiled 4x2048": Trial(config=DORA | _COMPILED),
    "llama-8b qlora compiled 2x2048": Trial(base="llama-8b", rows=2, quantization="int4", config=_COMPILED),
}
# Replayed: measured a few steps later, as a shape is captured when it comes the second time.
_LATER: dict[str, Any] = {"steps": 8, "measured": 6}
_REPLAYED: dict[str, Any] = {"use_cuda_graphs": True}
REPLAYED = {
    "qwen3-0.6b lora replayed 2x2048": Trial(**_LATER, rows=2, config=_REPLAYED),
    "qwen3-0.6b lora replayed 4x2048": Trial(**_LATER, config=_REPLAYED),
    "qwen3-0.6b lora compiled replayed 2x2048": Trial(**_LATER, rows=2, config=_REPLAYED | _COMPILED),
    "qwen3-0.6b qlora replayed 4x2048": Trial(**_LATER, quantization="int4", config=_REPLAYED),
    "qwen3-0.6b lora dropout replayed 4x2048": Trial(**_LATER, config=_REPLAYED | {"dropout": 0.1}),
    "qwen3-0.6b lora selective replayed 4x2048": Trial(
        **_LATER, config=_REPLAYED | {"gradient_checkpointing": "selective"}
    ),
    "qwen3-0.6b lora checkpointed replayed 4x2048": Trial(
        **_LATER, config=_REPLAYED | {"gradient_checkpointing": True}
    ),
}
# Beside the replay: clipping, the optimizer's step, the copies of A and B.
MOST_LAUNCHES = 40
# Of shapes: the longest rows, which are tried first, and packed rows with other numbers of documents.
MOST_CAPTURES = 3
# Heads and SwiGLU; norm, and sum and norm, of the first layer, whose input needs no gradient, and of the
# others.
MOST_GRAPHS = 6
# What is kept is small beside what the loss needs for a moment; and that is less than the plan's, which is
# enough for a loss without Triton.
LEAST = {
    "qwen3-0.6b lora checkpointed 4x2048": 0.90,
    "qwen3-0.6b lora checkpointed replayed 4x2048": 0.90,
    "qwen3-0.6b lora 16x2048 on 8 GB": 0.88,
    "qwen3-0.6b lora replayed 2x2048": 0.94,
    "qwen3-0.6b lora compiled replayed 2x2048": 0.94,
}


@pytest.fixture(scope="module")
def in_usual_tests(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """In one process, as importing torch takes most of their time."""
    tiny = {**TINY, **_LATER, "config": _REPLAYED}
    trials = {
        "init": Trial(),
        "replayed": Trial(**tiny),
        "waits": Trial(**tiny, fault="wait in graph"),
    }
    return run_all(driver, trials, RTX_4090, tmp_path_factory.mktemp("usual"))


@pytest.fixture(scope="module")
def on_one_card(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    faults = {fault: Trial(fault=fault) for fault in FAULTS}
    return run_all(driver, COSTS | COMPILED | SMALL | faults, RTX_4090, tmp_path_factory.mktemp("4090"))


@pytest.fixture(scope="module")
def replayed(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    return run_all(driver, REPLAYED, RTX_4090, tmp_path_factory.mktemp("replayed"))


@pytest.mark.full
@pytest.mark.parametrize("name", COSTS)
def test_costs(on_one_card: dict[str, Found], name: str) -> None:
    check_costs(name, on_one_card[name], least=LEAST.get(name, 0.95))


@pytest.mark.full
@pytest.mark.parametrize("name", COMPILED)
def test_costs_of_compiled_steps(on_one_card: dict[str, Found], name: str) -> None:
    """Nothing is compiled again for another number of tokens, and memory is that of the uncompiled step: no
    dequantized weight is kept."""
    check_costs(name, on_one_card[name])
    _, found = on_one_card[name]
    assert found["applied"]["torch_compile"] == "inductor" and found["graphs"] <= MOST_GRAPHS
    other = on_one_card.get(name.replace(" compiled", ""))
    if other is not None:
        peak, uncompiled = found["step"]["peak_allocated"], other[1]["step"]["peak_allocated"]
        assert peak <= 1.01 * uncompiled
        assert found["step"]["kernels"] < 0.85 * other[1]["step"]["kernels"]


# Nothing is computed on the stand-in: what `doctor --prove` would have found is written instead of it.
FINDING = """
import sys, torch
from pathlib import Path
from expert_worker.train.fast.kernels import verdicts
trial = verdicts.Trial(sys.argv[4], sys.argv[5], "bf16", sys.argv[2], sys.argv[3])
verdicts.keep(Path(sys.argv[1]), torch.device("cuda", 0), [trial], "2026-01-02")
"""


def find(driver: Driver, folder: Path, *trial: str) -> None:
    command = [sys.executable, "-c", FINDING, str(folder / "home"), *trial]
    subprocess.run(command, env=driver.environment(RTX_4090), check=True)


@pytest.mark.full
@pytest.mark.parametrize(
    ("verdict", "reason"), [("right", ""), ("slower", "a step takes 2.00 times as long")]
)
def test_replayed_by_default_where_it_was_found_right(
    driver: Driver, tmp_path: Path, verdict: str, reason: str
) -> None:
    """A small step is bound by its launches on any card."""
    find(driver, tmp_path, verdict, reason, "cuda_graph", "replay")
    plan, found = run(driver, Trial(**TINY, **_LATER), RTX_4090, tmp_path)
    if reason:
        assert plan["machine"]["cuda_graphs"] is None and found["captures"] == 0
    else:
        assert plan["machine"]["cuda_graphs"] == {"asked": False} and found["forecast"]["work"]["captured"]
        check_replayed((plan, found))
    assert found["events"] == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("verdict", "reason"), [("right", ""), ("slower", "a step takes 2.00 times as long")]
)
def test_compiled_by_default_where_it_was_found_right(
    driver: Driver, tmp_path: Path, verdict: str, reason: str
) -> None:
    find(driver, tmp_path, verdict, reason, "torch_compile", "inductor")
    plan, found = run(driver, Trial(**TINY), RTX_4090, tmp_path)
    if reason:
        assert plan["machine"]["compile"] is None and "torch_compile" not in found["applied"]
    else:
        assert plan["machine"]["compile"] == {"backend": "inductor", "mode": "default", "asked": False}
        assert found["applied"]["torch_compile"] == "inductor" and found["graphs"] > 0
    assert found["events"] == []


def check_replayed(found: Found) -> None:
    _, measured = found
    step = measured["step"]
    assert step["replays"] == 1 and step["captures"] == 0 and 1 <= measured["captures"] <= MOST_CAPTURES
    assert step["kernels"] + step["products"] + step["replays"] <= MOST_LAUNCHES


def test_a_step_is_one_launch(in_usual_tests: dict[str, Found]) -> None:
    """And a wait in the captured part ends the capture: the run says so and continues uncaptured."""
    replayed = in_usual_tests["replayed"]
    check_replayed(replayed)
    assert replayed[1]["events"] == [] and replayed[1]["step"]["waited"] == WAITS
    plan, waits = in_usual_tests["waits"]
    (event,) = waits["events"]
    assert event["code"] == "not-captured" and "when stream is capturing" in event["message"]
    assert plan["machine"]["cuda_graphs"] == {"asked": True} and waits["fits"]
    with pytest.raises(AssertionError):
        check_replayed((plan, waits))


@pytest.mark.full
@pytest.mark.parametrize("name", REPLAYED)
def test_costs_replayed(replayed: dict[str, Found], name: str) -> None:
    check_costs(name, replayed[name], least=LEAST.get(name, 0.95))
    check_replayed(replayed[name])
    work, step = replayed[name][1]["forecast"]["work"], replayed[name][1]["step"]
    assert work["launches"] == step["kernels"] + step["products"] + step["replays"]


@pytest.mark.full
def test_another_trial_finds_it_compiled(on_one_card: dict[str, Found]) -> None:
    first, second, *_ = (on_one_card[name][1] for name in COMPILED)
    # In one run two graphs are the same code.
    assert first["kept"] <= 1 < second["kept"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "card"), [("qwen3-0.6b lora 16x2048", H100), ("qwen3-0.6b lora 16x2048 on 8 GB", LAPTOP)]
)
def test_costs_on_other_cards(driver: Driver, tmp_path: Path, name: str, card: Card) -> None:
    check_costs(name, run(driver, Trial(rows=16), card, tmp_path), least=LEAST.get(name, 0.95))


@pytest.mark.full
@pytest.mark.parametrize("name", SMALL)
def test_optimizers_and_adapters(on_one_card: dict[str, Found], name: str) -> None:
    plan, found = on_one_card[name]
    assert name in (plan["recipe"]["optimizer"]["name"], plan["recipe"]["adapter"]["kind"])
    assert found["fits"] and found["events"] == [] and found["step"]["kernels"] > 0


@pytest.mark.full
@pytest.mark.parametrize("config", [{}, {"bf16": False, "fp16": True}], ids=["as init", "fp16"])
def test_a_card_without_bf16(driver: Driver, tmp_path: Path, config: dict[str, Any]) -> None:
    plan, found = run(driver, Trial(**TINY, config=config), T4, tmp_path)
    assert plan["machine"]["dtype"] == "fp16"
    assert found["fits"] and found["kernels_chosen"]["attention"] == "sdpa_by_document"


@pytest.mark.full
def test_memory_that_another_process_takes(driver: Driver, tmp_path: Path) -> None:
    """The step is repeated with smaller micro-batches, and says so."""
    plan, found = run(driver, Trial(others_take=14.0), RTX_4090, tmp_path)
    assert plan["machine"]["micro_batch"] == 4 and found["micro_batch"] < 4
    assert [event["kind"] for event in found["events"]] == ["out_of_memory"]


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
def test_what_it_would_find(on_one_card: dict[str, Found], fault: str) -> None:
    """A wait, 100 launches or 100 MB more than a step needs."""
    _, found = on_one_card[fault]
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        check_step("qwen3-0.6b lora 4x2048", found["step"])
    assert found["fits"]


@pytest.mark.full
def test_a_tensor_on_another_device(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="same device"):
        run(driver, Trial(**TINY, fault="device"), RTX_4090, tmp_path)
