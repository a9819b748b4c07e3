"""Rows that do not fit into memory together are computed again, fewer at once: with the same answers."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
import torch
from evaluate import tiny

from expert_worker.errors import Failed
from expert_worker.evaluate.decode import Prompt, answer_all, sample_all
from expert_worker.evaluate.loss import LossAlong, answer_loss
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.rows_at_once import RowsAtOnce
from expert_worker.events import Events
from expert_worker.plan import Decoding

WARM = Decoding(temperature=0.9, top_p=0.95, top_k=50, min_p=0.0, stop_sequences=(), max_new_tokens=24)
SYSTEM = {"role": "system", "content": "a system message of more than sixty-four tokens " * 2}
ROWS = [
    {"messages": [SYSTEM, {"role": "user", "content": "q" * size}], "completion": "answer" * (size % 3 + 1)}
    for size in (3, 11, 5, 2, 9, 4, 7)
]


def prompts() -> list[Prompt]:
    return PromptMaker(tiny.tokenizer()).prompts(ROWS)


def tight(model: Any, fits: int, passes_before: int = 0) -> Any:
    """A card with memory for `fits` rows, after the given number of forward passes."""
    forward, passes = model.forward, 0

    @wraps(forward)  # `generate` looks at its parameters.
    def limited(input_ids: torch.Tensor, **rest: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes > passes_before and len(input_ids) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(input_ids=input_ids, **rest)

    model.forward = limited
    return model


def said(memory: Any) -> list[str]:
    return [event.body.detail for event in memory.events if event.body.type == "recovered"]


@pytest.mark.parametrize("after", [0, 1, 20])
def test_answers_that_do_not_fit_together_are_repeated_with_fewer_rows(after: int) -> None:
    """Also where memory runs out late in a batch, whose losses are known by then."""
    maker, (events, memory) = PromptMaker(tiny.tokenizer()), Events.in_memory("evaluate")
    whole = tiny.model()
    expected = answer_all(whole, tiny.tokenizer(), prompts(), WARM, seed=5)
    model, counted = tight(tiny.model(), 2, after), list[int]()
    along = LossAlong.of(model, maker, ROWS)
    assert along is not None
    rows = RowsAtOnce(6, events)
    found = answer_all(
        model,
        tiny.tokenizer(),
        prompts(),
        WARM,
        seed=5,
        each_batch=counted.append,
        prompts_read=along.read,
        rows=rows,
    )
    assert found == expected
    assert along.mean() == pytest.approx(answer_loss(whole, maker, ROWS), rel=1e-5)
    assert said(memory) == [
        "6 rows at once did not fit into memory: the batch is repeated with 3",
        "3 rows at once did not fit into memory: the batch is repeated with 2",
    ]
    # Ranks agree to stop after each batch: it stays one batch, in however many parts.
    assert counted == [6, 1] and rows.most == 2


@pytest.mark.parametrize("fits", [1, 3])
@pytest.mark.parametrize("count", [2, 9])
def test_samples_that_do_not_fit_together_are_repeated_with_fewer_rows(count: int, fits: int) -> None:
    events, memory = Events.in_memory("evaluate")
    asked = prompts()[:3]
    expected = sample_all(tiny.model(), tiny.tokenizer(), asked, WARM, count, seed=5)
    model = tight(tiny.model(), fits)
    found = sample_all(model, tiny.tokenizer(), asked, WARM, count, seed=5, rows=RowsAtOnce(8, events))
    assert found == expected and all(len(texts) == count for texts in found)
    assert said(memory)


def test_reference_answers_that_do_not_fit_together_are_repeated_with_fewer_rows() -> None:
    maker, (events, memory) = PromptMaker(tiny.tokenizer()), Events.in_memory("evaluate")
    expected = answer_loss(tiny.model(), maker, ROWS)
    assert answer_loss(tight(tiny.model(), 2), maker, ROWS, events=events) == pytest.approx(
        expected, rel=1e-5
    )
    assert said(memory)


def test_one_row_that_does_not_fit_ends_the_run() -> None:
    events, _ = Events.in_memory("evaluate")
    # The beginning of all prompts is computed before.
    model = tight(tiny.model(), 0, passes_before=1)
    with pytest.raises(Failed, match="One row alone") as error:
        answer_all(model, tiny.tokenizer(), prompts(), WARM, rows=RowsAtOnce(4, events))
    assert error.value.hint is not None and "max_new_tokens" in error.value.hint


def test_a_rank_of_a_sharded_base_does_not_repeat_alone() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        answer_all(tight(tiny.model(), 2), tiny.tokenizer(), prompts(), WARM, rows=RowsAtOnce(4))


def test_another_error_is_raised() -> None:
    rows = RowsAtOnce(4, Events.in_memory("evaluate")[0])

    def broken(_: Any) -> None:
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        next(rows.parts([1, 2], broken))
