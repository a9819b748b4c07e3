"""Attention in 16 bits on a CPU: plain products over blocks of queries, each against the keys before its end.

torch's own flash kernel is written for 32 bits and several times slower here. Heads that share keys are one
product, and nothing is saved for the backward pass: the scores of a block are recomputed. Lengths are filled
up with zeros, as oneDNN compiles and keeps kernels for every length it meets; behind the causal mask what
follows changes nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..registry import Kernel, Target
from .documents import Documents

Spans = list[tuple[int, int]]

_MULTIPLE, _BLOCK = 32, 128
# Upper bound for any document length: oneDNN keeps several hundred KiB of kernels for each reach.
_REACHES = 8
# Queries times keys of a block, for each head: its scores stay in the cache.
_SCORES = 1 << 16


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, spans: Spans, scale: float) -> Tensor:
        out = torch.empty_like(q)
        for start, end in spans:
            query, key, value = (_grouped(x[start:end], k.shape[1]) for x in (q, k, v))
            seen = torch.empty_like(query)
            for rows, reach in _blocks(query):
                weights = _weights(query, key, rows, reach, scale)
                block = torch.bmm(weights, _flat(value[:, :, :reach]))
                seen[:, :, rows] = block.view_as(seen[:, :, rows])
            out[start:end] = _ungrouped(seen, end - start)
        ctx.save_for_backward(q, k, v)
        ctx.spans, ctx.scale = spans, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v = ctx.saved_tensors
        found = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for start, end in ctx.spans:
            query, key, value, back = (_grouped(x[start:end], k.shape[1]) for x in (q, k, v, grad))
            parts = _back(query, key, value, back, ctx.scale)
            for whole, part in zip(found, parts, strict=True):
                whole[start:end] = _ungrouped(part, end - start)
        return *found, None, None


def _back(
    query: Tensor, key: Tensor, value: Tensor, grad: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    to_query = torch.empty_like(query)
    to_key, to_value = (torch.zeros(x.shape, dtype=torch.float32) for x in (key, value))
    for rows, reach in _blocks(query):
        weights = _weights(query, key, rows, reach, scale)
        asked, back = _flat(query[:, :, rows]), _flat(grad[:, :, rows])
        keys, values = _flat(key[:, :, :reach]), _flat(value[:, :, :reach])
        to_value[:, 0, :reach] += torch.bmm(weights.transpose(1, 2), back)
        slope = torch.bmm(back, values.transpose(1, 2)).float()
        slope = torch._softmax_backward_data(slope, weights.float(), -1, torch.float32)
        slope = slope.mul_(scale).to(query.dtype)
        to_query[:, :, rows] = torch.bmm(slope, keys).view_as(to_query[:, :, rows])
        to_key[:, 0, :reach] += torch.bmm(slope.transpose(1, 2), asked)
    return to_query, to_key.to(key.dtype), to_value.to(value.dtype)


def _weights(query: Tensor, key: Tensor, rows: slice, reach: int, scale: float) -> Tensor:
    """[groups, queries of the block, keys within reach]."""
    asked, keys = _flat(query[:, :, rows]), _flat(key[:, :, :reach])
    scores = torch.bmm(asked, keys.transpose(1, 2)).float().mul_(scale)
    tall = scores.view(*query.shape[:2], -1, reach)[..., rows.start :]
    tall += _future(*tall.shape[2:])
    return torch.softmax(scores, -1).to(query.dtype)


@cache
def _future(rows: int, columns: int) -> Tensor:
    return torch.full((rows, columns), float("-inf")).triu_(1)


def _blocks(query: Tensor) -> list[tuple[slice, int]]:
    """Queries, and the number of their keys: whole blocks, again for few shapes."""
    size = query.shape[2]
    rows = max(_MULTIPLE, min(_BLOCK, _SCORES // size // _MULTIPLE * _MULTIPLE))
    step = -(-size // (_REACHES * _BLOCK)) * _BLOCK
    ends = ((start, min(start + rows, size)) for start in range(0, size, rows))
    return [(slice(start, end), min(-(-end // step) * step, size)) for start, end in ends]


def _grouped(x: Tensor, groups: int) -> Tensor:
    """[groups, heads of a group, filled length, width] of one document's [length, heads, width]."""
    parts = x.view(len(x), groups, -1, x.shape[2]).permute(1, 2, 0, 3)
    missing = -len(x) % _MULTIPLE
    return torch.nn.functional.pad(parts, (0, 0, 0, missing)) if missing else parts.contiguous()


def _ungrouped(x: Tensor, length: int) -> Tensor:
    return x[:, :, :length].permute(2, 0, 1, 3).flatten(1, 2)


def _flat(x: Tensor) -> Tensor:
    return x.flatten(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    result: Tensor = _Blocked.apply(q, k, v, documents.spans, scale)
    return result


def _runs(target: Target) -> bool:
    return target.device.type == "cpu" and target.dtype != torch.float32


BLOCKS_CPU = Kernel("blocks_cpu", attend, _runs, "Attention document by document (blocks, CPU)")
