"""Kernels in Triton's language, by its interpreter on the CPU: how far each is from fp64, as JSON."""

from __future__ import annotations

import json
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch.nn.functional import cross_entropy

from expert_worker.train.fast.batch import IGNORED
from expert_worker.train.fast.kernels import head_loss
from expert_worker.train.fast.kernels.triton_code import loss as loss_code

ROWS, WIDTH = 37, 16


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm().clamp_min(1e-12))


def loss_of(words: int, dtype: torch.dtype, want_grad: bool = True) -> dict[str, float]:
    """Several blocks of words, the last one not full; several chunks of rows."""
    loss_code.BLOCK, head_loss._IN_PLACE_BYTES = 64, 1
    draw = torch.Generator().manual_seed(words)
    hidden = torch.randn(ROWS, WIDTH, generator=draw).to(dtype).requires_grad_(want_grad)
    head = torch.randn(words, WIDTH, generator=draw).to(dtype)
    labels = torch.randint(words, (ROWS,), generator=draw)
    labels[[0, ROWS - 1]] = IGNORED
    labels[1] = words - 1
    found = head_loss.head_loss_in_place(hidden, head, labels)
    # From the same rounded logits.
    logits = (hidden.detach() @ head.t()).double().requires_grad_()
    wanted = cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
    result = {"loss": apart(found.detach(), wanted.detach())}
    if want_grad:
        found.backward()
        wanted.backward()
        assert hidden.grad is not None and logits.grad is not None
        assert not hidden.grad[0].any()
        result["gradient"] = apart(hidden.grad, logits.grad @ head.double())
    return result


def main() -> None:
    found = {}
    for words in (64, 97, 200):
        for dtype in (torch.float32, torch.bfloat16):
            found[f"loss {words} {dtype}"] = loss_of(words, dtype)
    found["loss 97 alone"] = loss_of(97, torch.float32, want_grad=False)
    large = torch.tensor([[200.0, 0.0, -200.0], [0.0, 200.0, 0.0]])
    losses = loss_code.losses_in_place(large, torch.tensor([0, 0]), IGNORED, True)
    found["large"] = {"loss": apart(losses, torch.tensor([0.0, 200.0]).double())}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
