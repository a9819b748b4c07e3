"""Compares a run's adapter in plain transformers and peft with `evaluate`, token for token.

Both are computed by transformers: the fast path rounds otherwise, and of two equally likely
tokens it may take the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from expert_worker.base import locate
from expert_worker.errors import BadInput
from expert_worker.evaluate.decode import write_tokens
from expert_worker.evaluate.finished import refuse_unfinished
from expert_worker.evaluate.rows import rows_of, skipped_rows, spread, text_of
from expert_worker.evaluate.subject import open_subject
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.plan import Plan, load_plan
from expert_worker.train.fast.answering import plain_answers

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Compared:
    question: str
    here: list[int]
    there: list[int]

    @property
    def same(self) -> bool:
        return bool(self.here) and self.there == self.here


def compare(run: Path, count: int) -> list[Compared]:
    """`count` questions of the test set, one at a time."""
    plan = _plan(run)
    data = plan.recipe.data
    asked = rows_of(data.test, data.field_mapping, plan.machine.paths.data, broken=skipped_rows(data))
    rows = spread(asked, count)
    if not rows:
        raise BadInput(f"{run} was trained without a test set: there are no questions", code="no-test-set")
    events, _ = Events.in_memory("evaluate")
    here = list(_asked_here(plan, events, run / "final", rows))
    base = locate(plan.recipe.base, plan.machine.paths, events)
    there = list(_asked_there(plan, base, run / "final", rows))
    return [
        Compared(text_of(row["messages"][-1]), *pair) for row, *pair in zip(rows, here, there, strict=True)
    ]


def _plan(run: Path) -> Plan:
    refuse_unfinished(run)
    return load_plan(run / "plan.json")


def _asked_here(plan: Plan, events: Events, adapter: Path, rows: Sequence[Row]) -> Iterator[list[int]]:
    subject = open_subject(plan, str(adapter), events)
    greedy = plan.recipe.decoding.model_copy(update={"temperature": 0.0, "grammar": None})
    for row in rows:
        ids = torch.tensor([list(subject.maker().prompt(row).ids)])
        with plain_answers(subject.model):
            found = write_tokens(subject.model, subject.tokenizer, ids, torch.ones_like(ids), greedy)
        yield found[0].tolist()


def _asked_there(plan: Plan, base: Path, adapter: Path, rows: Sequence[Row]) -> Iterator[list[int]]:
    """As any user of peft would: the base from its folder, everything else from `final/`. The base's number
    format is not the adapter's to decide."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    tokenizer: Any = AutoTokenizer.from_pretrained(adapter)
    settings = GenerationConfig.from_pretrained(adapter)
    settings.update(do_sample=False, temperature=None, top_p=None, top_k=None, min_p=None)  # type: ignore[no-untyped-call]
    model: Any = AutoModelForCausalLM.from_pretrained(
        base, dtype=DTYPES.get(plan.machine.dtype, torch.float32)
    )
    model = PeftModel.from_pretrained(model, adapter).eval()
    for row in rows:
        given = tokenizer.apply_chat_template(
            row["messages"], add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        found = model.generate(**given, generation_config=settings, tokenizer=tokenizer)
        yield found[0, given["input_ids"].shape[1] :].tolist()
