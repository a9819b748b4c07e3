"""Whether the installed torch has code for a GPU: each of its builds leaves out older or newer ones."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def has_code_for(index: int) -> bool:
    """For the GPU that torch counts so."""
    import torch

    if index >= torch.cuda.device_count():
        return True  # CUDA itself says that there is none.
    return runs_on(torch.cuda.get_device_capability(index), torch.cuda.get_arch_list())


def runs_on(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Machine code (`sm_86`) runs on the same major version from its minor one on, PTX (`compute_80`) is
    compiled by the driver for any later GPU. With an `a` each is for one GPU, with an `f` for its family."""
    read = [_ARCHITECTURE.fullmatch(name) for name in architectures]
    known = [found.groups() for found in read if found is not None]
    if not known:
        return True  # The build does not say.
    return any(
        _fits(capability, kind, (int(major), int(minor)), suffix) for kind, major, minor, suffix in known
    )


def _fits(capability: tuple[int, int], kind: str, built: tuple[int, int], suffix: str) -> bool:
    if suffix == "a":
        return capability == built
    same_major = capability[0] == built[0]
    return capability >= built and (same_major or (kind == "compute" and not suffix))
