"""Kernels in Triton's language. The modules beside this one import Triton, which not every machine has."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import torch

from ..registry import Target

C_COMPILERS = ("gcc", "clang")


def runs(target: Target) -> bool:
    return supports(target.device) and missing() is None


def supports(device: torch.device) -> bool:
    """Triton makes code for compute capability 8.0 and above."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def missing() -> str | None:
    """What Triton needs and is not installed, for the user: it compiles in C what starts a kernel."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    if os.environ.get("CC") or any(map(shutil.which, C_COMPILERS)):
        return None
    return "there is no C compiler"
