"""Kernels in Triton's language. The modules beside this one import Triton, which not every machine has."""

from __future__ import annotations

from importlib.util import find_spec

import torch

from ..registry import Target


def runs(target: Target) -> bool:
    """Triton makes code for compute capability 8.0 and above."""
    if target.device.type != "cuda" or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(target.device) >= (8, 0)
