"""A frozen base weight as a matrix in the dtype of the computation, whatever it is stored as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .kernels.dequantize import Dequantize, by_bitsandbytes


def is_plain(module: nn.Module) -> bool:
    return type(module) is nn.Linear


def is_4bit(module: nn.Module) -> bool:
    return type(getattr(module, "weight", None)).__name__ == "Params4bit"


def is_8bit(module: nn.Module) -> bool:
    return type(getattr(module, "weight", None)).__name__ == "Int8Params"


def readable(module: nn.Module) -> bool:
    """Whether `read` gives the matrix that the module's own forward multiplies by."""
    return is_plain(module) or is_4bit(module) or is_8bit(module)


def read(
    module: Any, dtype: torch.dtype, dequantize: Dequantize = by_bitsandbytes, out: Tensor | None = None
) -> Tensor:
    """In `out` if that is given."""
    weight = module.weight
    if is_4bit(module):
        return dequantize(weight, dtype, out)
    if is_8bit(module):
        scale = module.state.SCB if module.state.SCB is not None else weight.SCB
        wide: Tensor = weight.data.to(dtype) if out is None else out.copy_(weight.data)
        return wide.mul_(scale.unsqueeze(1).mul(1.0 / 127.0))
    plain = plain_weight(module)
    return plain.to(dtype) if out is None else out.copy_(plain)


def plain_weight(module: nn.Module) -> Tensor:
    """The matrix of a layer that is not quantized, in its own dtype."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight.detach()


def end_to_end(tensors: Sequence[Tensor]) -> Tensor | None:
    """Contiguous tensors as one vector, where they follow each other in one piece of memory."""
    first = tensors[0]
    place = first.data_ptr()
    for tensor in tensors:
        is_next = tensor.data_ptr() == place and tensor.is_contiguous() and tensor.dtype == first.dtype
        if not is_next or tensor.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return None
        place += tensor.numel() * tensor.element_size()
    return first.detach().as_strided((sum(tensor.numel() for tensor in tensors),), (1,))


def stacked(modules: Sequence[nn.Module]) -> Tensor | None:
    """Matrices of several layers one below the other; None for one layer, or for quantized ones.
    The layers keep theirs as parts of it, so that memory has one of each."""
    rows = [plain_weight(module) for module in modules if is_plain(module)]
    alike = {(row.dtype, row.device, row.shape[1]) for row in rows}
    if len(modules) == 1 or len(rows) < len(modules) or len(alike) > 1:
        return None
    found = end_to_end(rows)
    if found is not None:
        return found.view(-1, rows[0].shape[1])
    whole = torch.cat(rows)
    for module, part in zip(modules, torch.split(whole, [len(row) for row in rows]), strict=True):
        module.weight.data = part
    return whole
