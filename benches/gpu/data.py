"""Documents of random tokens, the same for both sides, and our packed rows of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from shapes import Case, Shape

Pair = tuple[list[int], list[int]]


def documents(case: Case, shape: Shape) -> list[Pair]:
    """(prompt, completion) enough for every step, log-normal in length as dialogues are."""
    draw = random.Random(7)
    wanted = int(case.length * case.rows * (case.steps + 1) * 1.1)
    pairs: list[Pair] = []
    while wanted > 0:
        length = max(8, min(case.length, int(draw.lognormvariate(0, 0.5) * case.mean_document)))
        answer = max(2, int(length * case.supervised))
        ids = [draw.randrange(1, shape.vocabulary) for _ in range(length)]
        pairs.append((ids[:-answer], ids[-answer:]))
        wanted -= length
    return pairs


class PackedRows:
    """Tensors that lie ready, as the mapped cache's do."""

    def __init__(self, pairs: Sequence[Pair], length: int) -> None:
        self._rows = [_row(row) for row in _packed(pairs, length)]

    def __len__(self) -> int:
        return len(self._rows)

    def row_lengths(self) -> list[int]:
        return [len(ids) for ids, _, _ in self._rows]

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any, Any, Any]:
        rows = [self._rows[index] for index in indices]
        sizes = torch.cat([row[2] for row in rows])
        bounds = torch.cat([torch.zeros(1, dtype=sizes.dtype), sizes.cumsum(0)])
        positions = torch.cat([torch.arange(int(size)) for size in sizes])
        return torch.cat([row[0] for row in rows]), torch.cat([row[1] for row in rows]), bounds, positions


def _packed(pairs: Sequence[Pair], length: int) -> list[list[Pair]]:
    """Each document into the first of the last rows with room for it."""
    rows: list[list[Pair]] = []
    held: list[int] = []
    for pair in pairs:
        size = len(pair[0]) + len(pair[1])
        fitting = [i for i in range(max(0, len(rows) - 16), len(rows)) if held[i] + size <= length]
        if fitting:
            rows[fitting[0]].append(pair)
            held[fitting[0]] += size
        else:
            rows.append([pair])
            held.append(size)
    return rows


def _row(row: Sequence[Pair]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids = [token for prompt, answer in row for token in prompt + answer]
    labels = [token for prompt, answer in row for token in [-100] * len(prompt) + answer]
    sizes = [len(prompt) + len(answer) for prompt, answer in row]
    return torch.tensor(ids), torch.tensor(labels), torch.tensor(sizes)
