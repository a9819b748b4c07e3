"""`evaluate --base-only` in the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evaluate.test_evaluate_stage import adapter_says, plan, report

__all__ = ["adapter_says", "plan"]


@pytest.mark.parametrize("scored", ["the adapter", "the base alone", "nothing"])
def test_scores_of_the_base_alone_replace_no_adapters(plan: Any, scored: str) -> None:
    output = Path(plan.machine.paths.output)
    output.mkdir()
    (output / "plan.json").write_text("{}")
    if scored != "nothing":
        report(plan, has_adapter=scored == "the adapter")
    names = ("evaluation.json", "answers.jsonl")
    before = {name: (output / name).read_bytes() for name in names if scored == "the adapter"}
    found, said = report(plan, has_adapter=False)
    assert found["base"] is not None and found["adapter"] is None
    warned = [event.body.message for event in said if event.body.type == "warning"]
    if scored == "the adapter":
        assert {name: (output / name).read_bytes() for name in names} == before
        assert [text for text in warned if "only printed" in text and str(output) in text]
    else:
        assert json.loads((output / "evaluation.json").read_text())["seconds"] == found["seconds"]
        assert not [text for text in warned if "only printed" in text]
