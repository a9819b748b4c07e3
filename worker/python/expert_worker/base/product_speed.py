"""How long a product in a 16-bit format takes on this CPU, by one in fp32: measured once and kept.

The processor's flags do not decide it: with AVX512-BF16 a product takes half or twice the time. Measured at
each start, two runs that should be the same would sooner or later differ.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from expert_worker.checkpoint import files
from expert_worker.processor import cpu_name
from expert_worker.results import ProductSpeed

# What the processor's flags promise stands unless the times differ by more than this.
_CLEARLY = 1.25
_ROUNDS = 8
_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def of(dtype: torch.dtype, planned: bool, home: Path) -> ProductSpeed:
    """What was measured first on this processor with these instructions and this torch. `planned` is what the
    processor's flags say, or what was measured before."""
    place = home / "products" / f"{_NAMES[dtype]}.json"
    known = _read(place)
    if known is not None:
        return known
    times = slowdown(dtype)
    contradicted = times < 1 / _CLEARLY if planned else times > _CLEARLY
    mine = ProductSpeed(
        processor=cpu_name(),
        instructions=_instructions(),
        torch=torch.__version__,
        times_fp32=times,
        in_fp32=planned != contradicted,
    )
    return _kept(mine, place)


def slowdown(dtype: torch.dtype) -> float:
    """How many times as long a product takes in `dtype` as in fp32: one thread, best of a few, in turns."""
    wide = torch.ones(128, 512)
    weight = torch.ones(512, 512)
    narrow, narrow_weight = wide.to(dtype), weight.to(dtype)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # The first ones compile the kernels.
        pairs = [(_seconds(narrow, narrow_weight), _seconds(wide, weight)) for _ in range(_ROUNDS)]
    finally:
        torch.set_num_threads(threads)
    return min(one for one, _ in pairs) / min(other for _, other in pairs)


def _seconds(x: Tensor, weight: Tensor) -> float:
    began = time.thread_time()
    nn.functional.linear(x, weight)
    return max(time.thread_time() - began, 1e-9)


def _instructions() -> str:
    """oneDNN has its own switch."""
    held = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA")
    names = [torch.backends.cpu.get_cpu_capability(), *([f"oneDNN: {held}"] if held else [])]
    return ", ".join(names)


def _read(place: Path) -> ProductSpeed | None:
    try:
        found = ProductSpeed.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        return None
    here = (cpu_name(), _instructions(), torch.__version__)
    return found if (found.processor, found.instructions, found.torch) == here else None


def _kept(mine: ProductSpeed, place: Path) -> ProductSpeed:
    """Another process that measured at the same time may have been first: then its word counts."""
    content = files.json_bytes(mine.as_json())
    temporary = place.with_name(f".{place.name}-{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        try:
            os.link(temporary, place)
        except FileExistsError:
            if (theirs := _read(place)) is not None:
                return theirs
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError:
        # Where nothing can be kept, every run measures.
        pass
    return mine
