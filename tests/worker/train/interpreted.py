"""Kernels in Triton's language, by its interpreter on the CPU: how far each is from fp64, as JSON.

`interpreted.py numbers`, or `interpreted.py decoders bfloat16` for whole decoders.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from torch.nn.functional import cross_entropy, silu
from triton.runtime import interpreter

from expert_worker.train.fast import dropout
from expert_worker.train.fast import prove as proving
from expert_worker.train.fast.batch import IGNORED
from expert_worker.train.fast.kernels import head_loss
from expert_worker.train.fast.kernels.adapted_linear import ADAPTED_HEADS, ADAPTED_MLP, on_card
from expert_worker.train.fast.kernels.dequantize import DEQUANTIZE, by_bitsandbytes, in_one_launch
from expert_worker.train.fast.kernels.dropout import BY_TORCH, DROPOUT, Drops
from expert_worker.train.fast.kernels.registry import everywhere
from expert_worker.train.fast.kernels.rotary import ROTARY
from expert_worker.train.fast.kernels.triton_code import dropout as dropout_code
from expert_worker.train.fast.kernels.triton_code import heads as heads_code
from expert_worker.train.fast.kernels.triton_code import loss as loss_code
from expert_worker.train.fast.kernels.triton_code import mlp as mlp_code

ROWS, WIDTH = 37, 16
SHARE = 0.3


def as_on_a_card(builder: Any) -> None:
    """The interpreter keeps bf16 as whole numbers: it multiplies those in products, and cuts off what a card
    rounds."""
    plain_cast, plain_dot = builder.cast_impl, builder.create_dot

    def cast(self: Any, source: Any, wanted: Any) -> Any:
        if (source.dtype.scalar, wanted.scalar) != (tl.float32, tl.bfloat16):
            return plain_cast(self, source, wanted)
        rounded = torch.from_numpy(np.array(source.data)).to(torch.bfloat16)
        return interpreter.TensorHandle(rounded.view(torch.uint16).numpy(), tl.bfloat16)

    def dot(self: Any, left: Any, right: Any, *rest: Any) -> Any:
        wide = [
            plain_cast(self, it, tl.float32) if it.dtype.scalar == tl.bfloat16 else it for it in (left, right)
        ]
        return plain_dot(self, *wide, *rest)

    builder.cast_impl, builder.create_dot = cast, dot


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """NaN, which a kernel has not written, is far."""
    distance = float((found.double() - wanted).norm() / wanted.norm().clamp_min(1e-12))
    return distance if distance == distance else 1e9


def loss_of(words: int, dtype: torch.dtype, want_grad: bool = True) -> dict[str, float]:
    """Several blocks of words, the last one not full; several chunks of rows."""
    loss_code.BLOCK, head_loss._CPU_IN_PLACE_BYTES = 64, 1
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


def dropout_of(tokens: int, width: int, rank: int, layers: int, dtype: torch.dtype) -> dict[str, float]:
    """In narrow matrices that are parts of wider ones; the last blocks are not full."""
    kernels = dropout_code.InProducts()
    draw = torch.Generator().manual_seed(width)
    drops = drops_of(tokens, width, layers)
    x = torch.randn(tokens, width, generator=draw).to(dtype)
    down = torch.randn(layers * rank, width, generator=draw).to(dtype)
    back = torch.randn(tokens, layers * rank + 5, generator=draw).to(dtype)[:, 3:-2]
    kept = [x.double().masked_fill(mask, 0) for mask in drops.masks]
    downs, backs = down.double().split(rank), back.double().split(rank, 1)

    out = torch.full_like(back, float("nan"))
    kernels.project(x, down, drops, out)
    wanted = torch.cat([own @ a.t() for own, a in zip(kept, downs, strict=True)], 1)
    found = {"project": apart(out, wanted)}

    wanted = torch.cat([own.t() @ left for own, left in zip(backs, kept, strict=True)])
    for keep in (False, True):
        before = torch.randn(wanted.shape, generator=draw)
        after = before.clone() if keep else torch.full_like(before, float("nan"))
        kernels.add_to_downs(back, x, drops, after, keep=keep)
        found[f"gradient, {keep=}"] = apart(after, wanted + before if keep else wanted)

    to_x = torch.randn(tokens, width, generator=draw).to(dtype)
    parts = zip(backs, downs, drops.masks, strict=True)
    wanted = to_x.double() + sum((own @ a).masked_fill(mask, 0) for own, a, mask in parts)
    kernels.add_through_downs(to_x, back, down, drops)
    return {**found, "through": apart(to_x, wanted)}


def dropped(tokens: int, width: int, dtype: torch.dtype) -> dict[str, float]:
    """Beside torch's: the same elements, and the same in place."""
    kernels, drops = dropout_code.InProducts(), drops_of(tokens, width, 1)
    x = torch.randn(tokens, width, generator=torch.Generator().manual_seed(width)).to(dtype)
    kept, rest = (torch.full_like(x, float("nan")) for _ in range(2))
    wanted, left = torch.empty_like(x), torch.empty_like(x)
    kernels.drop(x, drops, kept, rest)
    BY_TORCH.drop(x, drops, wanted, left)
    assert torch.equal(kept == 0, drops.masks[0]) and torch.equal(rest, x - kept)
    kernels.drop(x, drops, x)
    assert torch.equal(x, kept)
    return {"kept": apart(kept, wanted.double()), "rest": apart(rest, left.double())}


def drops_of(tokens: int, width: int, layers: int) -> Drops:
    keys = dropout.token_keys(3, 5, [1, 9], [tokens - 9, 9])
    columns = [dropout.Columns(f"layer {number}").of(width, keys.device) for number in range(layers)]
    return Drops(keys, torch.stack(columns), SHARE)


def mlp_of(tokens: int, width: int, rank: int, share: float, dtype: torch.dtype) -> dict[str, float]:
    """The last blocks of tokens, columns and ranks are not full."""
    kernels, draw = mlp_code.InActivation(), torch.Generator().manual_seed(width)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw).to(dtype)

    drops = drops_of(tokens, width, 1) if share else None
    gate_up, narrow, ups = drawn(tokens, 2 * width), drawn(tokens, 2 * rank), drawn(2 * width, rank)
    down, grad, back = drawn(rank + 3, width), drawn(tokens, width), drawn(tokens, rank + 3)
    scale = 0.7
    out, out_narrow = kernels.activate(gate_up, narrow, ups, scale, down, drops)
    in_place, to_ups, to_down = gate_up.clone(), torch.full(ups.shape, float("nan")), torch.ones(down.shape)
    of_ups, of_down = kernels.through(grad, back, in_place, narrow, ups, scale, down, drops)
    kernels.add(of_ups, to_ups, keep=False)
    kernels.add(of_down, to_down, keep=True)

    wide = [it.double().requires_grad_() for it in (gate_up, ups, down)]
    of_gate, of_up = narrow.double().split(rank, 1)
    b_gate, b_up = wide[1].split(width)
    gate, up = wide[0].split(width, 1)
    product = silu(gate + scale * of_gate @ b_gate.t()) * (up + scale * of_up @ b_up.t())
    kept = product if drops is None else product.masked_fill(drops.masks[0], 0)
    # The product is rounded before it is multiplied.
    rounded = kept + (kept.to(dtype).double() - kept).detach()
    reached = rounded @ wide[2].t()
    ((product * grad.double()).sum() + (reached * back.double()).sum()).backward()
    assert all(it.grad is not None for it in wide)
    return {
        "product": apart(out, product.detach()),
        "narrow": apart(out_narrow, reached.detach()),
        "gate and up": apart(in_place, wide[0].grad),
        "ups": apart(to_ups, wide[1].grad),
        "down": apart(to_down - 1, wide[2].grad),
    }


def heads_of(tokens: int, half: int, rank: int, normed: bool, dtype: torch.dtype) -> dict[str, float]:
    """Three heads of queries and two of keys; values stay in place if those are normed."""
    kernels, draw, heads = heads_code.InHeads(), torch.Generator().manual_seed(half), (3, 2)
    width, scale, epsilon = 2 * half, 0.7, 1e-3

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw).to(dtype)

    qkv, narrow, ups = drawn(tokens, 7 * width), drawn(tokens, 3 * rank), drawn(7 * width, rank)
    angles = drawn(tokens, 1, width)
    cos, sin = angles[..., :half].cos(), angles[..., :half].sin()
    norms = drawn(2, width) if normed else None
    grads = drawn(tokens, 3, width), drawn(tokens, 2, width), drawn(tokens, 2, width)

    wide, double_ups = qkv.double().requires_grad_(), ups.double()
    left = narrow.double().requires_grad_()
    of_each = zip(left.split(rank, 1), double_ups.split([3 * width, 2 * width, 2 * width]), strict=True)
    whole = wide + scale * torch.cat([own @ up.t() for own, up in of_each], 1)
    query, key, value = (
        it.view(tokens, -1, width) for it in whole.split([3 * width, 2 * width, 2 * width], 1)
    )
    if norms is not None:
        query, key = (
            it * torch.rsqrt(it.square().mean(-1, keepdim=True) + epsilon) * weight.double()
            for it, weight in zip((query, key), norms, strict=True)
        )
    wanted = [ROTARY.kernels[-1].function(it, cos.double(), sin.double()) for it in (query, key)]
    sum((it * grad.double()).sum() for it, grad in zip((*wanted, value), grads, strict=True)).backward()
    assert wide.grad is not None and left.grad is not None

    given = narrow, ups, scale, cos, sin, norms, epsilon, heads
    to_qkv, back = kernels.back(grads, qkv.clone() if normed else None, *given)
    turned = torch.full((tokens, 5 * width), float("nan"), dtype=dtype)
    values = qkv[:, 5 * width :] if normed else torch.full((tokens, 2 * width), float("nan"), dtype=dtype)
    kernels.turn(qkv, *given, turned, values)
    return {
        "turned": apart(turned, torch.cat([it.detach().flatten(1) for it in wanted], 1)),
        "values": apart(values, value.detach().flatten(1)),
        "outputs": apart(to_qkv, wide.grad),
        "back": apart(back, left.grad),
    }


def unlike(kind: str, nested: bool, block: int, shape: tuple[int, int], dtype: torch.dtype) -> int:
    """How many weights are not bitsandbytes' own to the last bit, in the format that they had and in fp32."""
    from bitsandbytes.functional import quantize_4bit

    draw = torch.Generator().manual_seed(block)
    whole = torch.randn(shape, generator=draw).to(dtype)
    data, state = quantize_4bit(whole, quant_type=kind, compress_statistics=nested, blocksize=block)
    weight = SimpleNamespace(data=data, quant_state=state)
    found = 0
    for wanted in {dtype, torch.float32}:
        out = torch.full(shape, float("nan"), dtype=wanted)
        in_one_launch(weight, wanted, out)
        found += int((out != by_bitsandbytes(weight, wanted)).sum())
    return found


def each(check: Callable[..., Any], *cases: tuple[Any, ...]) -> dict[str, Any]:
    return {" ".join(map(str, case)): check(*case) for case in cases}


def losses() -> dict[str, Any]:
    cases = [(words, dtype) for words in (64, 97, 200) for dtype in (torch.float32, torch.bfloat16)]
    found = each(loss_of, *cases, (97, torch.float32, False))
    large = torch.tensor([[200.0, 0.0, -200.0], [0.0, 200.0, 0.0]])
    of_large = loss_code.losses_in_place(large, torch.tensor([0, 0]), IGNORED, True)
    return {**found, "large": {"loss": apart(of_large, torch.tensor([0.0, 200.0]).double())}}


def proved(dtype: torch.dtype) -> dict[str, str]:
    """Verdicts of `doctor --prove` on whole decoders, in which the kernels are those of a card."""
    on_card.DEVICES, proving.COMPILES = {"cpu"}, set()
    for operation in (DROPOUT, DEQUANTIZE, ADAPTED_HEADS, ADAPTED_MLP):
        first, *rest = operation.kernels
        operation.kernels = (replace(first, runs=everywhere), *rest)
    proving.PARTS = tuple(part for part in proving.PARTS if set(part.operations) <= set(proving.INSIDE))
    proving.Scene.of = lambda _device: proving.Scene(128, (11, 1, 20))
    proving.STEPS, proving.SLOWER = 1, 1e9
    proving.formats = lambda _device: [dtype]
    return {
        f"{trial.operation} {trial.kernel} {number}": trial.verdict + trial.reason
        for number, trial in enumerate(proving.prove(torch.device("cpu")))
    }


def numbers() -> dict[str, Any]:
    shapes = ((37, 100, 4, 3), (130, 257, 16, 1), (70, 64, 70, 2))
    dtypes = (torch.float32, torch.bfloat16)
    blocks = (
        ("nf4", True, 64, (20, 128)),
        ("nf4", False, 128, (33, 50)),
        ("fp4", True, 32, (7, 64)),
        ("nf4", True, 4096, (5, 1000)),
        ("fp4", False, 64, (3, 37)),
    )
    weights = [(*it, dtype) for it in blocks for dtype in dtypes] + [
        ("nf4", True, 64, (3, 50), torch.float16)
    ]
    return {
        "loss": losses(),
        "dropout": each(dropout_of, *((*shape, dtype) for shape in shapes for dtype in dtypes)),
        "drop": each(dropped, *((tokens, 300, dtype) for tokens in (10, 37) for dtype in dtypes)),
        "mlp": each(
            mlp_of,
            *((*it, dtype) for it in ((70, 100, 4, 0.0), (37, 130, 16, SHARE)) for dtype in dtypes),
        ),
        "heads": each(
            heads_of,
            *((*it, dtype) for it in ((37, 16, 4, True), (35, 12, 20, False)) for dtype in dtypes),
        ),
        "dequantize": each(unlike, *weights),
    }


def main() -> None:
    as_on_a_card(interpreter.InterpreterBuilder)
    # Several parts of the tokens.
    dropout_code.PART_TOKENS = 64
    print(json.dumps(numbers() if sys.argv[1] == "numbers" else proved(getattr(torch, sys.argv[2]))))


if __name__ == "__main__":
    main()
