"""`--profile`: a torch.profiler trace of the whole run's first steps, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from expert_worker.events import Events

_SHOWN = 8


@contextmanager
def profiled(output: Path, device: torch.device, events: Events) -> Iterator[None]:
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
    # A batch's chunks are processed on separate threads.
    threads = _ExperimentalConfig(profile_all_threads=True)
    with profile(activities=kinds, experimental_config=threads) as recorded:
        yield
    folder = output / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    recorded.export_chrome_trace(str(folder / "trace.json"))
    spent = sorted(recorded.key_averages(), key=lambda entry: -entry.self_cpu_time_total)
    whole = sum(entry.self_cpu_time_total for entry in spent) or 1
    shares = {entry.key: round(entry.self_cpu_time_total / whole, 4) for entry in spent[:_SHOWN]}
    events.applied(
        "profile", {"trace": "profile/trace.json", "share_of_time": shares}, "Profile in profile/trace.json"
    )
