"""Values on the stand-in driver: what its kernels leave out is computed on the CPU.

The memory of a card is the host's. `Computed` lets torch carry an operation out on the card, where its
launches, allocations and waits happen and its kernels do nothing; then it repeats the operation on CPU
tensors over the same memory. So a value on the card is what torch's CPU kernels compute. It proves that a
command works with values, on which device, in how much memory, and how often the host waits. It proves
nothing about the numbers of a CUDA kernel.

Not computed: what kernels of Triton and bitsandbytes write, and what runs while a graph is captured.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

ATEN = torch.ops.aten
CPU = torch.device("cpu")
# Inside them the host reads what a kernel wrote: mostly how large the result is. Only their result goes to
# the card, by a copy for which the host waits, as it would inside them.
READ_BY_HOST = {
    "nonzero",
    "masked_select",
    "masked_scatter_backward",
    "equal",
    "_unique2",
    "unique_consecutive",
    "unique_dim",
    "bincount",
}
# They write nothing on the card. `_local_scalar_dense` is a copy to the host, which the driver makes.
WITHOUT_VALUES = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_local_scalar_dense",
    "record_stream", "is_pinned", "resize_", "set_", "_unsafe_view", "lift_fresh",
}  # fmt: skip


class Computed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        named = dict(kwargs or {})
        name = function.overloadpacket.__name__
        with self:
            # In inference mode torch shows an operation whole that is made of others.
            parts = function.decompose(*args, **named)
        if parts is not NotImplemented:
            return parts
        if name in WITHOUT_VALUES or _is_view(function):
            return function(*args, **named)
        if not _of_card((args, named)) and not _makes_on_card(named):
            return function(*args, **named)
        if name in READ_BY_HOST:
            return tree_map(_to_card, _on_cpu(function, args, named))
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            args = (args[0], [_positions(it) for it in _spread(args[1])], *args[2:])
        found = function(*args, **named)
        if torch.cuda.is_current_stream_capturing():
            return found
        values = _on_cpu(INSTEAD.get(_name(function), function), args, named)
        if not any(it.alias_info and it.alias_info.is_write for it in function._schema.returns):
            _fill(found, values)
        return found


def _name(function: Any) -> str:
    """With its overload, where that is one of CUDA's."""
    overload = function._overloadname
    name: str = function.overloadpacket.__name__
    return f"{name}.{overload}" if overload in ("dtype", "dtype_out") else name


def _is_view(function: Any) -> bool:
    returned = [it.alias_info for it in function._schema.returns]
    return bool(returned) and all(it is not None and not it.is_write for it in returned)


def _of_card(values: Any) -> list[Tensor]:
    return [it for it in tree_flatten(values)[0] if isinstance(it, Tensor) and it.is_cuda]


def _makes_on_card(named: Mapping[str, Any]) -> bool:
    return named.get("device") is not None and torch.device(named["device"]).type == "cuda"


def _on_cpu(function: Callable[..., Any], args: Any, named: dict[str, Any]) -> Any:
    if "device" in named:
        named = {**named, "device": CPU, "pin_memory": False}
    return function(*tree_map(_shared, args), **tree_map(_shared, named))


def _shared(value: Any) -> Any:
    """A CPU tensor over the same memory."""
    if isinstance(value, torch.Generator) and value.device.type == "cuda":
        return torch.Generator().manual_seed(value.initial_seed())
    if isinstance(value, torch.device):
        return CPU
    if not isinstance(value, Tensor) or not value.is_cuda:
        return value
    storage = value.untyped_storage()
    if not storage.nbytes():
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr())
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    return torch.empty(0, dtype=value.dtype).set_(
        whole.untyped_storage(), value.storage_offset(), value.shape, value.stride()
    )


def _to_card(value: Any) -> Any:
    return value.to("cuda") if isinstance(value, Tensor) else value


def _fill(found: Any, values: Any) -> None:
    made, computed = (
        [it for it in tree_flatten(results)[0] if isinstance(it, Tensor)] for results in (found, values)
    )
    for mine, value in zip(made, computed, strict=False):
        _shared(mine).copy_(value)


def _spread(indices: list[Tensor | None]) -> list[Tensor | None]:
    """A mask selects as the positions of its true elements do, one index for each of its dimensions."""
    found: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype == torch.bool and index.is_cuda:
            found += [it.contiguous() for it in _shared(index).nonzero().unbind(1)]
        else:
            found.append(index)
    return found


def _positions(index: Tensor | None) -> Tensor | None:
    return index if index is None or index.is_cuda or index.dtype != torch.int64 else index.to("cuda")


def _weights(
    query: Tensor, key: Tensor, bias: Tensor | None, dropout: float, causal: bool, scale: float | None
) -> tuple[Tensor, float]:
    """Of each query for each key, and the factor of their products."""
    assert not dropout, "dropout inside attention is not computed"
    factor = scale if scale is not None else query.shape[-1] ** -0.5
    scores = query.float() @ key.float().transpose(-2, -1) * factor
    if bias is not None:
        scores = scores + bias
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    # Of a query that may see no key, such as one of padding, all weights are zero.
    return ATEN._safe_softmax(scores, -1), factor


def _attention(query: Tensor, key: Tensor, value: Tensor, *given: Any) -> tuple[Tensor]:
    groups = query.shape[1] // key.shape[1]
    key, value = (it.repeat_interleave(groups, 1) for it in (key, value))
    weights, _ = _weights(query, key, *given)
    return ((weights @ value.float()).to(query.dtype),)


def _attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *given: Any
) -> tuple[Tensor, Tensor, Tensor]:
    shared, groups = key.shape, query.shape[1] // key.shape[1]
    key, value = (it.repeat_interleave(groups, 1) for it in (key, value))
    weights, factor = _weights(query, key, *given)
    grad, to_value = grad.float(), weights.transpose(-2, -1) @ grad.float()
    back = grad @ value.float().transpose(-2, -1)
    scores = weights * (back - (back * weights).sum(-1, keepdim=True)) * factor
    to_query, to_key = scores @ key.float(), scores.transpose(-2, -1) @ query.float()
    # Heads that share keys add up.
    to_key, to_value = (
        it.reshape(shared[0], shared[1], groups, *shared[2:]).sum(2).to(key.dtype)
        for it in (to_key, to_value)
    )
    return to_query.to(query.dtype), to_key, to_value


def _flash(
    q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, causal: bool = False, *_: Any, scale: Any = None
) -> Any:
    return _attention(q, k, v, None, dropout, causal, scale)


def _flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, _out: Tensor, _sums: Tensor, _q_ends: Any, _k_ends: Any,
    _longest_q: Any, _longest_k: Any, dropout: float, causal: bool, *_: Any, scale: Any = None,
) -> Any:  # fmt: skip
    return _attention_backward(grad, q, k, v, None, dropout, causal, scale)


def _efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, _: bool, dropout: float = 0.0, causal: bool = False,
    *, scale: Any = None,
) -> Any:  # fmt: skip
    return _attention(q, k, v, bias, dropout, causal, scale)


def _efficient_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, _out: Tensor, _sums: Tensor,
    _seed: Tensor, _offset: Tensor, dropout: float, _wanted: Any, causal: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    return _attention_backward(grad, q, k, v, bias, dropout, causal, scale)


def _product(*given: Any, out: Tensor | None = None, **factors: Any) -> Tensor:
    """Of 16-bit matrices, perhaps added to one, in the number format that comes last."""
    *tensors, dtype = given
    wide = [it.to(dtype) for it in tensors]
    found = torch.addmm(*wide, **factors) if len(wide) == 3 else torch.mm(*wide)
    return found if out is None else out.copy_(found)


# What torch has for CUDA only. Of attention's forward pass only the first result is computed: the others are
# for its backward pass, which here computes all it needs.
INSTEAD: dict[str, Callable[..., Any]] = {
    "mm.dtype": _product,
    "mm.dtype_out": _product,
    "addmm.dtype": _product,
    "addmm.dtype_out": _product,
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention": _efficient,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
}
