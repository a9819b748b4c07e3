"""What `expert-cli doctor` asks a worker: versions, native module, devices. One JSON document on stdout."""

import contextlib
import importlib
import importlib.metadata
import json
import platform
import sys
from typing import Any

from expert_worker import __version__
from expert_worker.event_sinks import claim_stdout
from expert_worker.plan import CONTRACT_VERSION

PACKAGES = (
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
    pipe = claim_stdout()
    pipe.write_raw(json.dumps(probe(), sort_keys=True).encode() + b"\n")
    pipe.close()


def probe() -> dict[str, Any]:
    return {
        "contract": CONTRACT_VERSION,
        "worker": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: _version(name) for name in PACKAGES},
        "native": _native(),
        "bitsandbytes_error": _import_error("bitsandbytes"),
        "torch": _torch(),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import_error(name: str) -> str | None:
    try:
        importlib.import_module(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n", 1)[0]
    return None


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
                }
            )
    return devices
