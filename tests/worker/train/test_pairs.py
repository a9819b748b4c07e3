"""Settings that meet: a small set of runs in which every pair of choices occurs together at least once.

Each run learns, ends in the same bytes after a stop and a resume, and agrees with the plain path. Pairs that
cannot be combined are named with their reason and are refused by `expert-cli`.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from defaults import build, cases, cli
from safetensors.torch import load_file
from scene import put_data, rows, train

from expert_worker.train.dataset import InMemory

Row = dict[str, Any]

FACTORS: dict[str, tuple[Any, ...]] = {
    "optimizer": (
        "adamw_torch_fused",
        "adamw_torch",
        "adamw_bnb_8bit",
        "paged_adamw_8bit",
        "paged_adamw_32bit",
        "sgd",
        "adafactor",
        "muon",
    ),
    "adapter": ("lora", "rslora", "dora", "ia3", "lokr", "adalora"),
    "quantization": ("none", "int4", "int8"),
    "precision": ("fp32", "bf16", "fp16"),
    "packing": (True, False),
    "checkpointing": ("none", "selective", "full"),
    "dropout": (0.0, 0.2),
    "micro_batch": (4, 2, 1),
}
# Pairs that cannot be, each with what `expert-cli` says of it.
IMPOSSIBLE = {
    (("optimizer", "muon"), ("adapter", "dora")): "muon trains matrices only",
    (("optimizer", "muon"), ("adapter", "ia3")): "muon trains matrices only",
    (("optimizer", "muon"), ("adapter", "adalora")): "muon trains matrices only",
    (("adapter", "lokr"), ("quantization", "int4")): "cannot be trained on a base in int4",
}
# Of losses between the fast and the plain path: each rounds activations to the format that it computes in.
CLOSE = {"fp32": 1e-4, "bf16": 1e-2, "fp16": 2e-3}


def possible(row: Row) -> bool:
    return not any(dict(pair).items() <= row.items() for pair in IMPOSSIBLE)


def every_pair() -> Iterator[Row]:
    for (one, ones), (other, others) in itertools.combinations(FACTORS.items(), 2):
        for pair in itertools.product(ones, others):
            found = dict(zip((one, other), pair, strict=True))
            if possible(found):
                yield found


def pairs_of(row: Row) -> set[tuple[tuple[str, Any], ...]]:
    return set(itertools.combinations([(name, row[name]) for name in FACTORS if name in row], 2))


def covering_rows() -> list[Row]:
    """Greedy: each row begins with a pair that no row holds yet and takes what adds most pairs."""
    left = dict.fromkeys(next(iter(pairs_of(pair))) for pair in every_pair())
    found = []
    while left:
        row: Row = dict(next(iter(left)))
        for name, values in FACTORS.items():
            if name not in row:
                fitting = [value for value in values if possible({**row, name: value})]
                # Among equals the next in turn, so that no value needs many additional rows.
                turn = len(found) % len(fitting)
                order = fitting[turn:] + fitting[:turn]
                row[name] = max(order, key=lambda value: len(pairs_of({**row, name: value}) & left.keys()))
        for pair in pairs_of(row):
            left.pop(pair, None)
        found.append(row)
    return found


ROWS = covering_rows()


def changes(row: Row) -> dict[str, Any]:
    ia3 = {
        "recipe.adapter.rank": None,
        "recipe.adapter.alpha": None,
        "recipe.adapter.feedforward_modules": ["down_proj"],
    }
    return {
        "recipe.optimizer.name": row["optimizer"],
        "recipe.adapter.kind": row["adapter"],
        "recipe.adapter.target_modules": ["q_proj", "v_proj", "down_proj"],
        "recipe.base.quantization": row["quantization"],
        "machine.dtype": row["precision"],
        "recipe.batch.packing": row["packing"],
        "machine.checkpointing": row["checkpointing"],
        "recipe.adapter.dropout": row["dropout"],
        "machine.micro_batch": row["micro_batch"],
        "machine.accumulation": 4 // row["micro_batch"],
        "recipe.schedule.duration": {"unit": "steps", "value": 3},
        "recipe.saving.steps": 1,
        "machine.save_total_limit": None,
        **(ia3 if row["adapter"] == "ia3" else {}),
    }


def data(packing: bool, seed: int = 5) -> InMemory:
    packed = rows(8, seed)
    return packed if packing else InMemory([[document] for row in packed.packed for document in row])


# At every change the whole array is too much: every third row.
@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.full if at % 3 else ()) for at, row in enumerate(ROWS)],
    ids=lambda row: "-".join(map(str, row.values())),
)
def test_a_pair_resumes_to_the_same_bytes_and_agrees_with_the_plain_path(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_data(monkeypatch, data(row["packing"]))
    whole = train(tmp_path, changes(row), output="whole")
    progress = whole.of("progress")
    assert len(progress) == 3 and all(body.grad_norm > 0 for body in progress)
    first, last = (
        load_file(whole.output / place / "adapter_model.safetensors") for place in ("checkpoint-1", "final")
    )
    assert any(not torch.equal(first[name], last[name]) for name in last)

    shutil.copytree(whole.output / "checkpoint-1", tmp_path / "resumed" / "checkpoint-1")
    resumed = train(tmp_path, {**changes(row), "request.resume": {"from": "newest"}}, output="resumed")
    assert resumed.result["resumed_from"] == 1 and resumed.losses == whole.losses[1:]
    weights = "adapter_model.safetensors"
    assert resumed.final(weights) == whole.final(weights)

    plain = train(tmp_path, {**changes(row), "machine.fast_path": False}, output="plain")
    assert plain.applied["path"] == "plain"
    assert plain.losses == pytest.approx(whole.losses, rel=CLOSE[row["precision"]])

    put_data(monkeypatch, data(row["packing"], seed=6))
    assert train(tmp_path, changes(row), output="other").final(weights) != whole.final(weights)


def test_every_pair_that_can_be_is_in_a_row() -> None:
    covered = set().union(*(pairs_of(row) for row in ROWS))
    assert all(pairs_of(pair) <= covered for pair in every_pair())
    assert all(possible(row) for row in ROWS) and len(ROWS) < 60


KEYS = {
    "optimizer": "training.config.optim",
    "adapter": "training.config.adapter_type",
    "quantization": "base_models.0.quantization",
}


@pytest.mark.parametrize("pair", IMPOSSIBLE, ids=lambda pair: "-".join(value for _, value in pair))
def test_what_cannot_be_is_refused(pair: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    case = next(case for case in cases() if case.name == "preset test")
    expert = build(case, tmp_path)
    chosen = [word for name, value in pair for word in ("--set", f"{KEYS[name]}={value}")]
    command = [cli(), "plan", "--json", "--device", "cpu", "-m", expert.folder, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and IMPOSSIBLE[pair] in done.stderr + done.stdout
