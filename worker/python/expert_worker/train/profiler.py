"""`--profile`: a torch.profiler trace of the run's first steps, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from expert_worker.events import Events

# Each operation takes about 5 kB while the trace is written.
PROFILED_STEPS = 5
_SHOWN = 8


class Profile:
    """Records from now on, what is between the steps too."""

    def __init__(self, output: Path, device: torch.device, events: Events) -> None:
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        self._events = events
        self._steps_left = PROFILED_STEPS
        self._trace = output / "profile" / "trace.json"
        self._trace.parent.mkdir(parents=True, exist_ok=True)
        kinds = [ProfilerActivity.CPU]
        if device.type == "cuda":
            kinds.append(ProfilerActivity.CUDA)
        # A batch's chunks are processed on separate threads.
        threads = _ExperimentalConfig(profile_all_threads=True)
        self._recorded: profile | None = profile(activities=kinds, experimental_config=threads)
        self._recorded.start()

    def is_last_step(self) -> bool:
        """Call after each step."""
        self._steps_left -= 1
        return self._steps_left == 0

    def write(self) -> None:
        """Ends it; later calls do nothing."""
        recorded, self._recorded = self._recorded, None
        if recorded is None:
            return
        recorded.stop()
        recorded.export_chrome_trace(str(self._trace))
        spent = sorted(recorded.key_averages(), key=lambda entry: -entry.self_cpu_time_total)
        whole = sum(entry.self_cpu_time_total for entry in spent) or 1
        shares = {entry.key: round(entry.self_cpu_time_total / whole, 4) for entry in spent[:_SHOWN]}
        self._events.applied(
            "profile",
            {"trace": "profile/trace.json", "share_of_time": shares},
            "Profile in profile/trace.json",
        )


@contextmanager
def profiled(output: Path, device: torch.device, events: Events) -> Iterator[Profile]:
    """Where the training ends before the last profiled step, the steps until then are written."""
    profile = Profile(output, device, events)
    try:
        yield profile
    finally:
        profile.write()
