"""Commands that read what kernels write, through the CLI, on a card whose operations the CPU computes.

They say and write what the same commands do with `--device cpu`, up to rounding. CUDA's kernels are not
compared: see computed.py.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_trial import manifest_of
from safetensors.numpy import load_file
from stand_in import RTX_4090, Driver
from test_runs import OF_EXPERT, WORDS, Runs, expert

pytestmark = [pytest.mark.timeout(300), pytest.mark.full]
TOKENS = 24
# transformers' `generate` asks twice per token whether to continue; a drawn token is one more wait.
GREEDY, DRAWN, WAITS_A_BATCH = 2, 3, 10
ROWS = 10
LOW_RANK, SCALE = ("lora_A", "lora_B"), OF_EXPERT["alpha"] / OF_EXPERT["rank"]
ANSWER = "w7 w8 w9"
# In 32 bits the devices differ only in the order of sums. At this rate the adapter changes answers.
CONFIG = OF_EXPERT | {"bf16": False, "learning_rate": 0.02}


def write_questions(path: Path, count: int) -> None:
    draw = random.Random(count)
    asked = [draw.choices(WORDS[2:], k=draw.randint(3, 30)) for _ in range(count)]
    rows = [{"prompt": " ".join(words), "completion": ANSWER} for words in asked]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def card(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("values")
    runs = expert(driver, folder)
    manifest = manifest_of("./base", CONFIG)
    manifest["training"]["dataset"]["test_path"] = "test.jsonl"
    manifest["training"]["decoding"] = {"max_new_tokens": TOKENS}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for name, count in (("train", 120), ("test", ROWS)):
        write_questions(folder / f"{name}.jsonl", count)
    variables = {
        "EXPERT_TEST_STAGE": "expert_test_computed",
        "COMPUTED_FIGURES": str(folder),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    return replace(runs, variables=variables)


@pytest.fixture(scope="module")
def host(card: Runs) -> Runs:
    return replace(card, variables={"EXPERT_HOME": str(card.folder / "home-of-host")}, device="cpu")


@pytest.fixture(scope="module")
def trained(card: Runs) -> Runs:
    card.train("card", "--evaluate")
    return card


def document(runs: Runs, command: str, *options: str) -> dict[str, Any]:
    """What a command says of the adapter that the card trained."""
    code, said = runs.run(command, "card", "--json", "--quiet", *options)
    assert code == 0, said
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def figures(runs: Runs, stage: str, waits: int = GREEDY) -> dict[str, Any]:
    """Of the last stage of this name: on the card, within the plan's memory and these waits per token."""
    found: dict[str, Any] = json.loads((runs.folder / f"{stage}.json").read_text())
    assert found["device"] == RTX_4090.name and found["launches"] > 100 and found["products"] > 10
    assert 0 < found["peak_bytes"] <= found["planned_bytes"]
    for batch in found["batches"]:
        assert batch["waits"] <= batch["tokens"] * waits + WAITS_A_BATCH, batch
    return found


def scores(path: Path) -> list[Any]:
    """Base and adapter: right answers, loss, and each answer that was wrong."""
    found = json.loads(path.read_text())
    texts = [[row[side]["text"] for side in ("base", "adapter")] for row in found["failures"]]
    return [found["base"]["loss"], found["adapter"]["loss"], found["adapter"]["correct"], texts]


def test_trained_and_scored(trained: Runs, host: Runs) -> None:
    host.train("host", "--evaluate")
    losses = [[body["loss"] for body in trained.events(name, "progress")] for name in ("card", "host")]
    assert len(losses[0]) == len(losses[1]) > 0 and losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0] - 0.3
    assert figures(trained, "train")["batches"]
    mine, theirs = (scores(trained.output(name) / "evaluation.json") for name in ("card", "host"))
    assert mine[:2] == pytest.approx(theirs[:2], rel=1e-5) and mine[2:] == theirs[2:]
    assert mine[1] < mine[0] - 0.3 and len(mine[3]) == ROWS and mine[3][0][0] != mine[3][0][1]


def test_sampled(trained: Runs, host: Runs) -> None:
    options = ("--samples", "3", "--temperature", "1", "--rows", "4")
    mine, theirs = (document(runs, "evaluate", *options) | {"seconds": 0} for runs in (trained, host))
    losses = [[found[side].pop("loss") for side in ("base", "adapter")] for found in (mine, theirs)]
    assert mine == theirs and losses[0] == pytest.approx(losses[1], rel=1e-5)
    sampled = [batch["rows"] for batch in figures(trained, "evaluate", DRAWN)["batches"]]
    assert 12 in sampled, sampled


def test_generated(trained: Runs, host: Runs) -> None:
    options = ("--prompt", "w1 w2 w3", "--temperature", "1")
    (mine,), (theirs,) = (document(runs, "generate", *options)["answers"] for runs in (trained, host))
    assert mine == theirs and mine["base"] != mine["adapter"]
    batches = figures(trained, "generate", DRAWN)["batches"]
    assert [batch["tokens"] for batch in batches] == [TOKENS, TOKENS]


def test_merged(trained: Runs, host: Runs) -> None:
    folders = [trained.folder / "merged-on-card", trained.folder / "merged-on-host"]
    for runs, folder in zip((trained, host), folders, strict=True):
        found = document(runs, "export", "--merge", "--to", str(folder))
        assert found["logits_difference"] < 1e-5, found
    mine, theirs = (load_file(folder / "model.safetensors") for folder in folders)
    base = load_file(trained.folder / "base" / "model.safetensors")
    adapter = load_file(trained.output("card") / "final" / "adapter_model.safetensors")
    assert mine.keys() == theirs.keys() == base.keys()
    for name, weight in base.items():
        adapted, change = name.endswith("_proj.weight"), np.zeros_like(weight)
        if adapted:
            a, b = (adapter[f"base_model.model.{name.replace('weight', it)}.weight"] for it in LOW_RANK)
            change = SCALE * b @ a
        assert np.any(change) == adapted, name
        for found in (mine, theirs):
            assert np.allclose(found[name], weight + change, rtol=0, atol=1e-6), name
    figures(trained, "export")
