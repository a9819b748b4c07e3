"""A CUDA driver that computes nothing, so that the unmodified CUDA build of torch runs without a GPU.

`driver/` takes the place of the CUDA driver and runtime, cuBLAS, NCCL and NVML. Memory is the host's, mapped
when it is touched and bounded by the card's size; copies are real; kernels and products are counted and not
run. It proves what happens on the host: devices and dtypes, waits for the device, launches, the allocator's
peak, what an out-of-memory error leads to. It cannot prove numbers or speed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).parent / "driver"
ROOT = Path(__file__).parents[2]
# What torch and bitsandbytes import of CUDA's libraries, which `driver/` has to have or a stub stands for.
IMPORTED = re.compile(
    r"__cuda|cuda[A-Z]|cublas|nccl[A-Z]|"
    r"cu(?:Ctx|Device|Func|Get|Init|Launch|Link|Mem|Module|Occup|Pointer|Stream|Tensor|Event|Green|Multicast)"
)


@dataclass(frozen=True)
class Card:
    name: str
    capability: int
    gib: float
    count: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        return {
            "FAKECUDA_NAME": self.name,
            "FAKECUDA_CC": str(self.capability),
            "FAKECUDA_GIB": str(self.gib),
            "FAKECUDA_DEVICES": str(self.count),
            **self.environment,
        }


RTX_4090 = Card("NVIDIA GeForce RTX 4090", 89, 23.52)
H100 = Card("NVIDIA H100 80GB HBM3", 90, 79.65)
T4 = Card("Tesla T4", 75, 14.56)
# torch for CUDA 13 has no code for it.
V100 = Card("Tesla V100-SXM2-32GB", 70, 31.73)
LAPTOP = Card("NVIDIA GeForce RTX 4060 Laptop GPU", 89, 7.75)
# Its share of an H100; the driver answers no question about utilization.
MIG = Card("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 90, 9.5, environment={"FAKENVML_NO_UTIL": "1"})


class Missing(Exception):
    """Why the driver cannot be built here."""


@dataclass(frozen=True)
class Driver:
    folder: Path

    def python(self, folder: Path) -> Path:
        """For `--python`: only the worker loads the driver, as the CLI is not a Python program."""
        script = folder / "python"
        script.write_text(
            f'#!/bin/sh\nLD_PRELOAD="{self.folder / "libcuda.so.1"}" exec "{sys.executable}" "$@"\n'
        )
        script.chmod(0o755)
        return script

    def for_cli(self, card: Card | None) -> dict[str, str]:
        """It finds the card by NVML and loads nothing else of CUDA."""
        return {name: text for name, text in self.environment(card).items() if name != "LD_PRELOAD"}

    def environment(self, card: Card | None) -> dict[str, str]:
        """For a process that shall find this card. Without one, FAKECUDA_CARDS names the cards."""
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("CUDA_")}
        return {
            **inherited,
            **(card.variables() if card else {}),
            "LD_PRELOAD": str(self.folder / "libcuda.so.1"),
            "LD_LIBRARY_PATH": str(self.folder),
            # torch would otherwise ask NVML in a child process whether there is a card.
            "PYTORCH_NVML_BASED_CUDA_CHECK": "0",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }


def build() -> Driver:
    """Built once for each version of the sources and of torch."""
    libraries, headers = _of_torch()
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or shutil.which("nm") is None:
        raise Missing("no C++ compiler")
    sources = sorted(SOURCES.iterdir())
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    for path in libraries:
        digest.update(f"{path}{path.stat().st_size}".encode())
    folder = ROOT / "target" / f"fakecuda-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        partial = folder.with_suffix(f".{os.getpid()}")
        partial.mkdir(parents=True)
        try:
            _compile(partial, compiler, libraries, headers)
            partial.rename(folder)
        except OSError:
            # Another process was first.
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return Driver(folder)


def _of_torch() -> tuple[list[Path], list[Path]]:
    """The libraries that call CUDA, and the folders with its headers."""
    packages = _package("torch").parent
    found = [
        *packages.glob("torch/lib/lib*cuda*.so"),
        *packages.glob("torch/lib/libtorch_python.so"),
        *packages.glob("torch/lib/libtorch_nvshmem.so"),
        *packages.glob("torch/lib/libcaffe2_nvrtc.so"),
        *_package("bitsandbytes").glob("libbitsandbytes_cuda13*.so"),
    ]
    headers = [*packages.glob("nvidia/cu*/include"), *packages.glob("triton/backends/nvidia/include")]
    if not any(path.name == "libtorch_cuda.so" for path in found) or not headers:
        raise Missing("torch is not the CUDA build")
    return sorted(found), headers


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise Missing(f"no package {name}")
    return Path(spec.origin).parent


def _compile(folder: Path, compiler: str, libraries: list[Path], headers: list[Path]) -> None:
    def run(*words: str | Path) -> str:
        return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout

    includes = [f"-I{path}" for path in headers]
    flags = ("-O1", "-fPIC", "-w", "-std=c++17", "-include", "atomic")
    for name in ("cuda", "nccl"):
        run(compiler, *flags, *includes, "-c", SOURCES / f"{name}.cpp", "-o", f"{name}.o")
    defined = _symbols(run("nm", "--defined-only", "cuda.o", "nccl.o"), "T")
    wanted = {
        symbol for path in libraries for symbol in _symbols(run("nm", "-D", "--undefined-only", path), "U")
    }
    stubs = sorted(symbol for symbol in wanted - defined if IMPORTED.match(symbol))
    lines = [f'int {name}() {{ fakecuda_stub_called("{name}"); return 0; }}' for name in stubs]
    (folder / "stubs.cpp").write_text(
        'extern "C" {\nvoid fakecuda_stub_called(const char*);\n' + "\n".join(lines) + "\n}\n"
    )
    run(compiler, "-O1", "-fPIC", "-w", "-c", "stubs.cpp", "-o", "stubs.o")
    objects = ("cuda.o", "nccl.o", "stubs.o")
    soname = "-Wl,-soname,libcuda.so.1"
    run(compiler, "-shared", "-o", "libcuda.so.1", soname, *objects, "-ldl", "-lpthread")
    run(compiler, "-O1", "-fPIC", "-shared", "-w", "-x", "c", SOURCES / "nvml.c", "-o", "libnvidia-ml.so.1")
    (folder / "libnvidia-ml.so").symlink_to("libnvidia-ml.so.1")


def _symbols(listed: str, kind: str) -> set[str]:
    lines = (line.split() for line in listed.splitlines())
    return {words[-1].split("@")[0] for words in lines if len(words) >= 2 and words[-2] == kind}
