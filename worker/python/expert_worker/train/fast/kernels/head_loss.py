"""Cross entropy of the supervised tokens, including the head, without materialising all logits.

The head is frozen, so the gradient of the hidden states can be computed from a chunk's logits in the
forward pass: the backward pass only scales and scatters it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy

from expert_worker import _native

from ..batch import IGNORED
from . import native, triton_code
from .matmul import times, times_transposed
from .native import memory
from .registry import Kernel, Operation, Target

HeadLoss = Callable[[Tensor, Tensor, Tensor], Tensor]

_CPU_BYTES, _GPU_BYTES = 24 << 20, 512 << 20
# In place there are only the logits of 16 bits, where else there are theirs beside 32. A product on a CPU
# reads the whole head for each chunk: 448 rows of 49,152 words take 144 ms by chunks of 96 rows, and 115 by
# chunks of 320. From 32 MiB on, glibc asks the kernel for new memory each time.
_CPU_IN_PLACE_BYTES, _IN_PLACE_BYTES = 30 << 20, 720 << 20
_ROWS = 32


def _chunk_rows(head: Tensor) -> int:
    """Rows whose fp32 logits stay in the cache (CPU) or small beside the model (GPU)."""
    budget = _CPU_BYTES if head.device.type == "cpu" else _GPU_BYTES
    return _rows_within(budget, 4 * head.shape[0])


def _chunk_rows_in_place(head: Tensor) -> int:
    budget = _CPU_IN_PLACE_BYTES if head.device.type == "cpu" else _IN_PLACE_BYTES
    return _rows_within(budget, head.element_size() * head.shape[0])


def _rows_within(budget: int, row_bytes: int) -> int:
    return max(1, budget // (row_bytes * _ROWS)) * _ROWS


def _chunk(hidden: Tensor, head: Tensor, labels: Tensor, want_grad: bool) -> tuple[Tensor, Tensor | None]:
    counted = (labels != IGNORED).unsqueeze(-1).float()
    labels = labels.clamp_min(0).unsqueeze(-1)
    logits = times_transposed(hidden, head).float()
    peak = logits.amax(-1, keepdim=True)
    chosen = logits.gather(-1, labels)
    logits.sub_(peak).exp_()
    total = logits.sum(-1, keepdim=True)
    loss = counted * (total.log() + peak - chosen)
    if not want_grad:
        return loss, None
    logits.mul_(counted / total)
    logits.scatter_add_(-1, labels, -counted)
    return loss, times(logits.to(head.dtype), head)


def _chunk_in_place(
    hidden: Tensor, head: Tensor, labels: Tensor, want_grad: bool
) -> tuple[Tensor, Tensor | None]:
    from .triton_code.loss import losses_in_place

    logits = times_transposed(hidden, head)
    losses = losses_in_place(logits, labels, IGNORED, want_grad)
    return losses, times(logits, head) if want_grad else None


def _chunk_native(
    hidden: Tensor, head: Tensor, labels: Tensor, want_grad: bool
) -> tuple[Tensor, Tensor | None]:
    if head.dtype != torch.bfloat16:
        return _chunk(hidden, head, labels, want_grad)
    logits = times_transposed(hidden, head)
    losses = logits.new_empty(logits.shape[0], dtype=torch.float32)
    threads = torch.get_num_threads()
    _native.row_losses(memory(logits), memory(labels), IGNORED, want_grad, memory(losses), threads)
    return losses, times(logits, head) if want_grad else None


class _Way(NamedTuple):
    """How many rows are a chunk, and the losses of its rows with the gradient of its hidden states."""

    rows: Callable[[Tensor], int]
    chunk: Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor | None]]


_BESIDE = _Way(_chunk_rows, _chunk)
_IN_PLACE = _Way(_chunk_rows_in_place, _chunk_in_place)
_NATIVE = _Way(_chunk_rows_in_place, _chunk_native)


def _walk(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor, way: _Way) -> list[Tensor]:
    """The losses of each chunk's rows; their gradients are saved."""
    rows, want_grad = way.rows(head), ctx.needs_input_grad[0]
    losses = []
    grads = torch.empty_like(hidden) if want_grad else None
    parts = zip(torch.split(hidden, rows), torch.split(labels, rows), strict=True)
    for number, (part, own) in enumerate(parts):
        loss, grad = way.chunk(part.to(head.dtype), head, own, want_grad)
        losses.append(loss)
        if grads is not None and grad is not None:
            grads[number * rows : (number + 1) * rows] = grad
    if grads is not None:
        ctx.save_for_backward(grads)
    return losses


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor, way: _Way) -> Tensor:
        loss = hidden.new_zeros((), dtype=torch.float32)
        for part in _walk(ctx, hidden, head, labels, way):
            loss += part.sum()
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (grads,) = ctx.saved_tensors
        # Multiplied in fp32: rounded to 16 bits first, the scale would be off by up to 0.2 percent.
        return (grads.float() * grad.float()).to(grads.dtype), None, None, None


class _RowLosses(torch.autograd.Function):
    """Of each row, for rows of several experts, each with a separate scale."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor, way: _Way) -> Tensor:
        return torch.cat(_walk(ctx, hidden, head, labels, way)).view(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (grads,) = ctx.saved_tensors
        return (grads.float() * grad.float().unsqueeze(-1)).to(grads.dtype), None, None, None


def row_losses(hidden: Tensor, head: Tensor, labels: Tensor, kernel: HeadLoss) -> Tensor:
    """The loss of each row of `hidden`, as `kernel` computes it where it does so by chunks; 0 for ignored
    ones."""
    ways: dict[HeadLoss, _Way] = {head_loss_in_place: _IN_PLACE, head_loss_native: _NATIVE}
    result: Tensor = _RowLosses.apply(hidden, head, labels, ways.get(kernel, _BESIDE))
    return result


def head_loss(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """Summed loss of `hidden` [supervised, width] against `labels` [supervised], ignored ones left out.

    The products are formed in the head's format."""
    result: Tensor = _HeadLoss.apply(hidden, head, labels, _BESIDE)
    return result


def head_loss_in_place(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """The same with one kernel for the logits where torch's operations need ten."""
    result: Tensor = _HeadLoss.apply(hidden, head, labels, _IN_PLACE)
    return result


def head_loss_native(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """The same by the native module, in bf16 on a CPU."""
    result: Tensor = _HeadLoss.apply(hidden, head, labels, _NATIVE)
    return result


def _runs_native(target: Target) -> bool:
    is_bf16 = target.dtype == torch.bfloat16 and native.runs_in(target.dtype)
    return target.device.type == "cpu" and is_bf16


def _runs_in_place(target: Target) -> bool:
    return triton_code.runs(target) and target.dtype != torch.float32


def whole_head_loss(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """The same with all logits at once, as in torch: the reference for the chunked version."""
    return cross_entropy((hidden.to(head.dtype) @ head.t()).float(), labels, reduction="sum")


HEAD_LOSS: Operation[Target, HeadLoss] = Operation(
    "head_loss",
    [
        Kernel(
            "in_place", head_loss_in_place, _runs_in_place, "Loss in place of its logits", saves_memory=True
        ),
        Kernel("native", head_loss_native, _runs_native, saves_memory=True),
        Kernel("chunked", head_loss, saves_memory=True),
        Kernel("whole", whole_head_loss),
    ],
)
