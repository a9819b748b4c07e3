"""`evaluate --base-only` in the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endpoint.tiny_shelf import tiny_base, tiny_expert, tiny_plan
from evaluate import tiny
from evaluate.test_evaluate_stage import adapted, adapter_says, generated, plan, report

from expert_worker.adapter import EXPERT
from expert_worker.evaluate.scored_rows import scored_rows
from expert_worker.evaluate.stage import examine
from expert_worker.evaluate.subject import Subject, open_subject
from expert_worker.events import Events

__all__ = ["adapter_says", "generated", "plan"]


def test_a_merged_expert_is_asked_without_examples(plan: Any, generated: list[str]) -> None:
    """As its users ask it."""
    events, memory = Events.in_memory("evaluate")
    subject = Subject(adapted(), tiny.tokenizer(), None, has_adapter=False, is_merged_expert=True)
    found = examine(plan, events, scored_rows(plan), subject, None)
    assert generated == ["base answers"]
    assert found.as_json()["base"]["prompt"] == {"shots": 0, "tried": {}}
    notes = [it.body.note for it in memory.events if getattr(it.body, "key", "") == "evaluation.prompt"]
    assert notes == ["Asked without examples: the base is a merged expert"]


def test_a_base_is_a_merged_expert_where_it_describes_one(tmp_path: Path) -> None:
    base = tiny_base(tmp_path / "base")
    ash = tiny_expert(base, tmp_path / "ash", "ash", 1)
    read, events = tiny_plan(base, tmp_path, "ash"), Events.in_memory("evaluate")[0]
    assert not open_subject(read, None, events).is_merged_expert
    (base / EXPERT).write_bytes((ash / EXPERT).read_bytes())
    assert open_subject(read, None, events).is_merged_expert
    # With an adapter on top it is a base like others.
    assert not open_subject(read, str(ash), events).is_merged_expert


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
