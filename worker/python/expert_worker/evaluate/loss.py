"""The mean loss of the reference answers per supervised token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from expert_worker.base import token_vectors
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.verdict import Row

TOKENS_AT_ONCE = 2048


def answer_loss(
    model: Any, maker: PromptMaker, rows: Sequence[Row], each: Callable[[int], None] = lambda _: None
) -> float:
    """Mean cross-entropy over every token of every reference answer and the end behind it."""
    total, count = 0.0, 0
    encoded = _encoded(maker, rows)
    token_vectors.check_ids(model, maker.tokenizer, (prompt + answer for prompt, answer in encoded))
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for batch in _batches(encoded):
                loss, tokens = _summed(model, batch)
                total, count = total + loss, count + tokens
                each(len(batch))
    finally:
        model.train(was_training)
    return total / max(1, count)


Encoded = tuple[list[int], list[int]]


def _encoded(maker: PromptMaker, rows: Sequence[Row]) -> list[Encoded]:
    prompts = [list(prompt.ids) for prompt in maker.prompts(rows)]
    return list(zip(prompts, maker.answers(rows), strict=True))


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


def _summed(model: Any, batch: list[Encoded]) -> tuple[float, int]:
    width = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    labels = torch.full((len(batch), width), -100, dtype=torch.long)
    mask = torch.zeros((len(batch), width), dtype=torch.long)
    for place, (prompt, answer) in enumerate(batch):
        size = len(prompt) + len(answer)
        ids[place, :size] = torch.tensor(prompt + answer)
        labels[place, len(prompt) : size] = torch.tensor(answer)
        mask[place, :size] = 1
    logits = model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits[:, :-1]
    wanted = labels[:, 1:].to(logits.device)
    there = wanted != -100
    loss = torch.nn.functional.cross_entropy(logits[there].float(), wanted[there], reduction="sum")
    return float(loss), int(there.sum())
