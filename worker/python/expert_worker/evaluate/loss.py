"""The mean loss of the reference answers per supervised token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from expert_worker.base import positions, token_vectors
from expert_worker.evaluate.generation import answering
from expert_worker.evaluate.prompt_cache import PromptKeys, keeps_prompts
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.rows_at_once import RowsAtOnce
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.train.fast.cache_name import CACHE

TOKENS_AT_ONCE = 2048


def answer_loss(
    model: Any,
    maker: PromptMaker,
    rows: Sequence[Row],
    each: Callable[[int], None] = lambda _: None,
    events: Events | None = None,
) -> float | None:
    """Mean cross-entropy over every token of every reference answer and the end behind it, without rows that
    are longer than the base has positions; None where all are."""
    total, count = 0.0, 0
    encoded = [row for row in _encoded(maker, rows) if _is_computable(model, row)]
    token_vectors.check_ids(model, maker.tokenizer, (prompt + answer for prompt, answer in encoded))
    with answering(model), torch.inference_mode():
        batches = _batches(encoded)
        fitting = RowsAtOnce(max(map(len, batches), default=1), events)
        for batch in batches:
            for _, (loss, tokens) in fitting.parts(batch, partial(_summed, model)):
                total, count = total + loss, count + tokens
            each(len(batch))
    if len(encoded) < len(rows):
        each(len(rows) - len(encoded))
    return total / max(1, count) if encoded or not rows else None


class LossAlong:
    """The same loss, summed while answers to the same prompts are generated: their keys and values are there,
    and a reference answer is much shorter than its prompt.
    """

    def __init__(self, model: Any, answers: Sequence[list[int]]) -> None:
        self._model, self._answers = model, answers
        self._sums: dict[int, tuple[float, int]] = {}
        """By the first place of a batch: one that is repeated with fewer rows replaces its sums."""

    @classmethod
    def of(cls, model: Any, maker: PromptMaker, rows: Sequence[Row]) -> LossAlong | None:
        """None where each prompt has to be computed with its answer."""
        if not keeps_prompts(model):
            return None
        if positions.longest(model) is not None:
            encoded = _encoded(maker, rows)
            if not all(_is_computable(model, row) for row in encoded):
                return None
        answers = maker.answers(rows)
        token_vectors.check_ids(model, maker.tokenizer, answers)
        return cls(model, answers)

    def mean(self) -> float:
        total = sum(loss for loss, _ in self._sums.values())
        return total / max(1, sum(tokens for _, tokens in self._sums.values()))

    def read(self, places: Sequence[int], prompts: PromptKeys) -> None:
        longest = max(len(self._answers[place]) for place in places)
        size = max(1, TOKENS_AT_ONCE // (prompts.ids.shape[1] + longest))
        total, count = 0.0, 0
        for first in range(0, len(places), size):
            chosen = slice(first, first + size)
            answers = [self._answers[place] for place in places[chosen]]
            loss, tokens = _summed_after(self._model, prompts.rows(chosen), answers)
            total, count = total + loss, count + tokens
        self._sums[places[0]] = total, count


def _summed_after(model: Any, prompts: PromptKeys, answers: Sequence[list[int]]) -> tuple[float, int]:
    """The last token of each prompt is read with its answer: what it predicts is the answer's first one."""
    width = max(map(len, answers))
    if width == 0:
        return 0.0, 0
    labels = torch.full((len(answers), width), -100, dtype=torch.long)
    for place, answer in enumerate(answers):
        labels[place, : len(answer)] = torch.tensor(answer)
    read = labels[:, :-1]
    ids = torch.cat([prompts.ids[:, -1:], read.clamp_min(0)], dim=1)
    mask = torch.cat([prompts.mask, (read != -100).long()], dim=1)
    positions = (mask.cumsum(1) - 1).clamp_min(0)[:, -width:]
    with answering(model), torch.inference_mode():
        logits = model(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            position_ids=positions.to(model.device),
            use_cache=True,
            **{CACHE: prompts.cache},
        ).logits
        return _cross_entropy(logits, labels)


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> tuple[float, int]:
    """Its sum over the tokens that have a label, and how many they are."""
    wanted = labels.to(logits.device)
    there = wanted != -100
    loss = torch.nn.functional.cross_entropy(logits[there].float(), wanted[there], reduction="sum")
    return float(loss), int(there.sum())


Encoded = tuple[list[int], list[int]]


def _encoded(maker: PromptMaker, rows: Sequence[Row]) -> list[Encoded]:
    prompts = [list(prompt.ids) for prompt in maker.prompts(rows)]
    return list(zip(prompts, maker.answers(rows), strict=True))


def _is_computable(model: Any, row: Encoded) -> bool:
    most = positions.longest(model)
    return most is None or len(row[0]) + len(row[1]) <= most


def _batches(rows: list[Encoded]) -> list[list[Encoded]]:
    """Rows of like length together, each batch within a bound of padded tokens."""
    batches: list[list[Encoded]] = []
    for row in sorted(rows, key=lambda row: len(row[0]) + len(row[1])):
        width = len(row[0]) + len(row[1])
        if batches and (len(batches[-1]) + 1) * width <= TOKENS_AT_ONCE:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _summed(model: Any, batch: Sequence[Encoded]) -> tuple[float, int]:
    width = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    labels = torch.full((len(batch), width), -100, dtype=torch.long)
    mask = torch.zeros((len(batch), width), dtype=torch.long)
    for place, (prompt, answer) in enumerate(batch):
        size = len(prompt) + len(answer)
        ids[place, :size] = torch.tensor(prompt + answer)
        labels[place, len(prompt) : size] = torch.tensor(answer)
        mask[place, :size] = 1
    logits = model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits
    # A soft prompt's virtual tokens come first and have no labels.
    return _cross_entropy(logits[:, -width:][:, :-1], labels[:, 1:])
