"""That a run learnt something: a comparison of two runs holds for two untouched initialisations as well."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file


def assert_learnt(run: Path) -> None:
    """That what the run left is not its initialisation: gradients, a falling loss and weights that moved."""
    bodies = [json.loads(line)["body"] for line in (run / "events.jsonl").read_text().splitlines()]
    steps = {body["step"]: body for body in bodies if body["type"] == "progress"}
    ordered = [steps[number] for number in sorted(steps)]
    assert_gradients([step["grad_norm"] for step in ordered])
    losses = [step["loss"] for step in ordered]
    half = len(losses) // 2
    assert sum(losses[half:]) / (len(losses) - half) < sum(losses[:half]) / half, losses
    assert_moved(run)


def assert_gradients(norms: list[Any]) -> None:
    assert norms and all(norm is not None and norm > 1e-4 for norm in norms), norms


def assert_moved(run: Path) -> None:
    """B starts at zero, so its values were learnt. Rows of two tokens leave q and k without a gradient."""
    learnt = {n: t for n, t in load_file(run / "final/adapter_model.safetensors").items() if "lora_B" in n}
    moved = [name for name, tensor in learnt.items() if tensor.any()]
    assert len(moved) > len(learnt) / 2, sorted(learnt.keys() - set(moved))
