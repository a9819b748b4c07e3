"""What `doctor --prove` found out about the kernels on this device: a file per device, torch and version."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from expert_worker import __version__
from expert_worker.checkpoint import files

FOLDER = "kernels"
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# The operation and the kernel that torch's compiler makes: norms, residual sums, positions and SwiGLU.
COMPILED, COMPILER = "torch_compile", "inductor"
# The operation and the kernel that replay a micro-batch's forward and backward pass.
CAPTURED, GRAPH = "cuda_graph", "replay"


@dataclass(frozen=True)
class Trial:
    """One kernel in one number format, the other operations by their references."""

    operation: str
    kernel: str
    format: str
    # "right", "differs", "fails" or "slower".
    verdict: str
    # Why it is not used; empty where it is right.
    reason: str = ""
    # Relative distances from the same model by the references in fp32, and the largest that is accepted.
    loss_apart: float | None = None
    gradients_apart: float | None = None
    accepted: float | None = None
    # The best of several steps.
    seconds: float | None = None
    reference_seconds: float | None = None


def subject(device: torch.device) -> dict[str, str]:
    """What the findings hold for."""
    return {
        "device": device_name(device),
        "torch": str(torch.__version__),
        "worker": __version__,
        "instructions": torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else "",
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{properties.name}, compute capability {properties.major}.{properties.minor}"
    return f"{device.type}, {platform.machine()}"


def place(home: Path, device: torch.device) -> Path:
    key = json.dumps(subject(device), sort_keys=True)
    return home / FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def keep(home: Path, device: torch.device, trials: list[Trial], date: str, named: str | None = None) -> Path:
    """Findings in number formats that were not tried again stay. `named`: as the driver calls the device."""
    path = place(home, device)
    path.parent.mkdir(parents=True, exist_ok=True)
    tried = {trial.format for trial in trials}
    earlier = [trial for trial in _kept(home, device)[0] if trial.format not in tried]
    document = {
        **subject(device),
        "named": named,
        "date": date,
        "trials": [asdict(trial) for trial in [*earlier, *trials]],
    }
    files.replace_json(path, document)
    return path


@dataclass(frozen=True)
class Refused:
    """Kernels that a run leaves out, by operation, with the reason."""

    reasons: Mapping[str, Mapping[str, str]]
    date: str = ""

    def of(self, operation: str) -> Mapping[str, str]:
        return self.reasons.get(operation, {})


NOTHING = Refused({})


def refused_of(trials: Iterable[Trial], dtype: torch.dtype, date: str = "") -> Refused:
    reasons: dict[str, dict[str, str]] = {}
    for trial in trials:
        if trial.verdict != "right" and trial.format == format_name(dtype):
            reasons.setdefault(trial.operation, {})[trial.kernel] = trial.reason
    return Refused(reasons, date)


def refused(home: Path, device: torch.device, dtype: torch.dtype) -> Refused:
    """A file that cannot be read refuses nothing: it can be written again by `doctor --prove`."""
    trials, date = _kept(home, device)
    return refused_of(trials, dtype, date)


def not_proved(home: Path, device: torch.device, dtype: torch.dtype, operation: str) -> str | None:
    """Why a run does not compile, or capture, by default; None where that was found right."""
    trials, _ = _kept(home, device)
    for trial in trials:
        if (trial.operation, trial.format) == (operation, format_name(dtype)):
            return None if trial.verdict == "right" else trial.reason
    return "`expert-cli doctor --prove` has not tried it on this device with this torch"


def _kept(home: Path, device: torch.device) -> tuple[list[Trial], str]:
    """The findings and their date."""
    try:
        document: dict[str, Any] = json.loads(place(home, device).read_bytes())
        return [Trial(**fields) for fields in document["trials"]], str(document["date"])
    except (OSError, ValueError, TypeError, KeyError):
        return [], ""


def format_name(dtype: torch.dtype) -> str:
    return next((name for name, known in FORMATS.items() if known == dtype), str(dtype))
