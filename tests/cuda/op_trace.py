"""What a step reads, writes and multiplies on the device: every operation that torch dispatches, and the
worker's own kernels for adapters and 4-bit weights, by kind.

Kernels that one operation launches are not seen apart, so an operation counts as if it read each input and
wrote each output once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from expert_worker.train.fast.kernels.triton_code import dequantize, dropout, heads, mlp

# They move nothing.
FREE = {
    "view", "_unsafe_view", "t", "transpose", "permute", "slice", "select", "unsqueeze", "squeeze", "expand",
    "detach", "alias", "as_strided", "unbind", "split", "split_with_sizes", "narrow", "reshape",
    "_reshape_alias",
    "lift_fresh", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "record_stream",
    "_local_scalar_dense", "is_pinned", "resize_", "set_", "unfold", "diagonal", "view_as",
}  # fmt: skip
PRODUCTS = {"mm", "addmm", "addmm_", "bmm", "baddbmm", "matmul", "_addmm_activation"}
OPTIMIZER = ("_fused_", "_foreach_", "linalg_vector_norm")
FILLS = {
    "zero_",
    "fill_",
    "zeros",
    "ones",
    "full",
    "arange",
    "new_zeros",
    "zeros_like",
    "new_full",
    "ones_like",
}
# They read as much as they write, whatever the size of their source.
SELECTIONS = {"index_select", "embedding", "index", "gather"}
# Which of the tensors that it takes a kernel of the worker's reads and writes, and does not return.
IN_PLACE = {"add_through_downs": 0, "through": 2}
# A side of a product that is no longer than this belongs to an adapter.
RANK = 64


class OpTrace(TorchDispatchMode):
    """`bytes`, `flops` and `calls` by kind: product, low_rank, attention, dequantize, optimizer and
    elementwise."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()
        self.flops: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.by_name: Counter[str] = Counter()
        self._watched: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> OpTrace:
        """What the worker's own kernels read and write."""
        for place, name, kind in (
            (dropout.InProducts, "project", "low_rank"),
            (dropout.InProducts, "add_to_downs", "low_rank"),
            (dropout.InProducts, "add_through_downs", "low_rank"),
            (dropout.InProducts, "drop", "elementwise"),
            (heads.InHeads, "turn", "elementwise"),
            (heads.InHeads, "back", "elementwise"),
            (mlp.InActivation, "activate", "elementwise"),
            (mlp.InActivation, "through", "elementwise"),
            (mlp.InActivation, "add", "low_rank"),
        ):
            self._watch(place, name, kind)
        self._watch(dequantize, "dequantize", "dequantize")
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for place, name, function in self._watched:
            setattr(place, name, function)

    def _watch(self, place: Any, name: str, kind: str) -> None:
        function = getattr(place, name)
        self._watched.append((place, name, function))

        def watched(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            tensors = [*_on_card([getattr(it, "data", it) for it in args]), *_on_card(result)]
            moved = sum(map(_size, tensors))
            if name in IN_PLACE:
                moved += _size(tensors[IN_PLACE[name]])
            self.bytes[kind] += moved
            self.calls[kind] += 1
            self.by_name[f"{kind} {name} {tuple(tensors[0].shape)}"] += moved
            return result

        setattr(place, name, watched)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        if name not in FREE:
            inputs, outputs = list(_on_card(_read(args, kwargs or {}))), list(_on_card(result))
            if outputs or (inputs and name.endswith("_")):
                self._count(func._schema.name, name, inputs, outputs)
        return result

    def _count(self, whole: str, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        kind = _kind(whole, name)
        flops = 0
        if kind == "product":
            left, right = inputs[-2:]
            flops = 2 * left.numel() * right.shape[-1]
            if min(left.shape[-2], left.shape[-1], right.shape[-1]) <= RANK:
                kind = "low_rank"
        moved = _moved(name, inputs, outputs)
        self.bytes[kind] += moved
        self.flops[kind] += flops
        self.calls[kind] += 1
        shape = str(tuple(inputs[0].shape)) if inputs else ""
        self.by_name[f"{kind} {name} {shape}"] += moved

    def found(self) -> dict[str, Any]:
        return {
            "bytes": dict(self.bytes),
            "flops": dict(self.flops),
            "calls": dict(self.calls),
            "by_name": dict(self.by_name.most_common(60)),
        }


def _read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Without what is only written: `out`, and what a product would be added to."""
    named = {name: value for name, value in kwargs.items() if name != "out"}
    return [args[1:] if kwargs.get("beta") == 0 else args, named]


def _kind(whole: str, name: str) -> str:
    if name in PRODUCTS:
        return "product"
    if "varlen" in name or "flash" in name or "scaled_dot" in name:
        return "attention"
    if name.startswith(OPTIMIZER):
        return "optimizer"
    return "dequantize" if whole.startswith("bitsandbytes") else "elementwise"


def _moved(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int:
    read, written = sum(map(_size, inputs)), sum(map(_size, outputs))
    if name in FILLS:
        read = 0
    elif name in SELECTIONS:
        read = written
    elif name == "copy_" and len(inputs) > 1:
        read = _size(inputs[1])
    elif name == "scatter_add_":
        read = written = 2 * _size(inputs[1])
    return read + written


def _size(tensor: Tensor) -> int:
    """An expanded dimension is read once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count * tensor.element_size()


def _on_card(found: Any) -> Iterator[Tensor]:
    if isinstance(found, torch.Tensor):
        if found.device.type == "cuda":
            yield found
    elif isinstance(found, (list, tuple)):
        for one in found:
            yield from _on_card(one)
    elif isinstance(found, dict):
        yield from _on_card(list(found.values()))
