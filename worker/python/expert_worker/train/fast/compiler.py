"""torch.compile for functions whose tensors begin with the tokens, whose number differs for every batch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .between import Wrapper
from .kernels import triton_code

# torch compiles one row, as one expert's only supervised token, for itself.
_FEWEST_TOKENS = 2
CXX_COMPILERS = ("g++", "clang++", "c++")
_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def missing(device: torch.device, backend: str) -> str | None:
    """What inductor needs and is not installed, for the user."""
    if backend != "inductor":
        return None
    if device.type == "cuda":
        return triton_code.missing()
    if os.environ.get("CXX") or any(map(shutil.which, CXX_COMPILERS)):
        return None
    return "there is no C++ compiler"


def keep_between_runs(home: Path) -> None:
    """Keep compiled code with the other caches: torch's default is a folder for temporary files."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    # torch enters its default into the environment when one of its modules first asks for it.
    if os.environ.get(_CACHE) in (None, str(Path(default_cache_dir()).absolute())):
        os.environ[_CACHE] = str(home / "compiled")


def compiler(
    backend: str, mode: str | None = None, failed: Callable[[BaseException], None] | None = None
) -> Wrapper:
    """Only the first dimension of its tensors is dynamic, except of vectors, which are weights. With
    `failed`, called once, functions that cannot be compiled run uncompiled; else the error is raised."""
    broken: list[BaseException] = []
    options = _options(mode) if backend == "inductor" else None

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        # `dynamic=False`: a size that differs in the next model is compiled again, not made dynamic too.
        made = torch.compile(function, backend=backend, options=options, dynamic=False)

        def call(*tensors: Tensor) -> Any:
            tokens = tensors[0].shape[0]
            if broken or tokens < _FEWEST_TOKENS:
                return function(*tensors)
            for tensor in tensors:
                if tensor.dim() > 1:
                    torch._dynamo.maybe_mark_dynamic(tensor, 0)
            try:
                # The backward pass is compiled with the forward pass: a failure in it could not be caught.
                with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
                    return made(*tensors)
            except Exception as error:
                if failed is None or not _of_the_compiler(error):
                    raise
                broken.append(error)
                failed(error)
                return function(*tensors)

        return call

    return compiled


def _options(mode: str | None) -> dict[str, Any]:
    """Of the mode, without CUDA graphs: each would hold a kernel or two, for one number of tokens."""
    import torch._inductor

    chosen = torch._inductor.list_mode_options(mode) if mode else {}
    # Compiled here: helper processes take longer to start than these few functions to compile, 400 MiB each,
    # and the exit may wait five minutes for them. An option, as a setting is that of one thread, and experts
    # that train fused are computed by another.
    return {**chosen, "triton.cudagraphs": False, "compile_threads": 1}


def _of_the_compiler(error: Exception) -> bool:
    return type(error).__module__.startswith(("torch._dynamo.", "torch._inductor."))


def reason(error: BaseException) -> str:
    """In one line, without what torch adds for its developers."""
    inner = getattr(error, "inner_exception", error)
    return f"{type(inner).__name__}: {str(inner).strip()}".split("\n", 1)[0]
