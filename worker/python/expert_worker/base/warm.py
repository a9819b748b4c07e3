"""Weights that a warm parent has loaded for the children that it forks, which share its memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expert_worker.plan import Base, Machine, Paths


@dataclass(frozen=True)
class _Key:
    folder: str
    # Of every file, so that weights that were replaced meanwhile are read again.
    written: tuple[tuple[str, int, int], ...]
    dtype: str
    sdpa: bool


# At most one: experts of one base mostly follow each other.
_kept: dict[_Key, Any] = {}


def keep(base: Base, machine: Machine) -> bool:
    """Loads the base unless it is loaded; returns whether it was loaded now."""
    folder = _folder(base, machine.paths)
    key = _key(base, machine, folder)
    if folder is None or key is None or key in _kept:
        return False
    from expert_worker.base import fp32_products
    from expert_worker.base.load import compute_dtype, read_model, torch_device

    _kept.clear()
    model = read_model(base, machine, torch_device(machine.device), folder)
    if machine.fp32_products:
        fp32_products.hold_in_fp32(model, compute_dtype(base.quantization, machine.dtype))
    _kept[key] = model
    return True


def take(base: Base, machine: Machine, folder: Path) -> Any | None:
    """The model as it would be loaded, once: whoever has it changes it."""
    if not _kept:
        return None
    key = _key(base, machine, folder)
    return None if key is None else _kept.pop(key, None)


def _folder(base: Base, paths: Paths) -> Path | None:
    """The path of a base that is on disk; a child downloads or converts others, and reports it."""
    from expert_worker.base.embedded import NAME

    if paths.base is not None:
        return Path(paths.base)
    converted = Path(paths.home) / "bases" / NAME
    return converted if base.name == NAME and (converted / "config.json").is_file() else None


def _key(base: Base, machine: Machine, folder: Path | None) -> _Key | None:
    """None for bases that cannot be shared: on a device, or quantized after loading."""
    from expert_worker.base.load import compute_dtype

    as_on_disk = base.quantization not in ("int4", "int8") and base.rope_scaling is None
    if folder is None or machine.device.kind != "cpu" or not as_on_disk:
        return None
    files = sorted(path for path in folder.iterdir() if path.is_file())
    written = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    dtype = compute_dtype(base.quantization, machine.dtype)
    return _Key(str(folder.resolve()), written, str(dtype), machine.sdpa)
