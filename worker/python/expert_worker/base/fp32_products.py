"""A 16-bit base computed in fp32, for processors without units for the 16-bit format.

Such a processor emulates the format: on AVX2 a product in bf16 takes eight times as long as one in fp32. So
the base is read in its format, which rounds its weights, and then held and computed in fp32. Activations take
fp32 too: rounded to 16 bits between the products, they would be converted forth and back around each one, at
six percent of the time, to save memory that a few documents at a time hardly need.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from expert_worker.base import product_speed
from expert_worker.events import Events

_MARK = "computes_in_fp32"
_PACKED = ("Params4bit", "Int8Params")


def is_choice(dtype: torch.dtype, device: torch.device) -> bool:
    return dtype != torch.float32 and device.type == "cpu"


def chosen(
    planned: bool,
    dtype: torch.dtype,
    device: torch.device,
    home: Path,
    events: Events,
    kept: bool | None = None,
) -> bool:
    """The plan's choice, unless products measured on this processor contradict it clearly. A resumed run's
    choice is `kept`: another one rounds differently."""
    if not is_choice(dtype, device):
        return False
    if kept is not None:
        events.applied("fp32_products", kept, "Computing in fp32, as when the run began" if kept else None)
        return kept
    found = product_speed.of(dtype, planned, home)
    name = str(dtype).removeprefix("torch.")
    if found.in_fp32 != planned:
        events.warning(
            "products-measured",
            f"A {name} product takes {found.times_fp32:.1f} times as long as one in fp32 here, against what "
            f"the processor's flags say: this run computes in {'fp32' if found.in_fp32 else name}",
            "The next plan counts their memory." if found.in_fp32 else None,
        )
    text = f"Computing in fp32: {name} products take {found.times_fp32:.1f} times as long on this processor"
    events.applied("fp32_products", found.in_fp32, text if found.in_fp32 else None)
    return found.in_fp32


def held(model: Any) -> bool:
    return any(getattr(module, _MARK, False) for module in model.modules())


def hold_in_fp32(model: Any, dtype: torch.dtype) -> None:
    """Converts what is in `dtype`, tensor by tensor; 4 and 8 bit weights are read in fp32 from now on."""
    for module in model.modules():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if tensor.dtype == dtype and type(tensor).__name__ not in _PACKED:
                tensor.data = tensor.data.float()
        if hasattr(module, "compute_dtype"):
            # bitsandbytes' own forward converts inputs to it and outputs back.
            module.compute_dtype = torch.float32
            module.compute_type_is_set = True
    setattr(model, _MARK, True)
    _return_free_memory()


def _return_free_memory() -> None:
    """glibc keeps what the 16-bit weights took, in holes that few later tensors fit: 8% of a run's peak."""
    with suppress(OSError, AttributeError, TypeError):  # Other systems have no such function.
        ctypes.CDLL(None).malloc_trim(0)
