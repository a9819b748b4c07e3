"""Whether an error says that memory ran out. Without torch, whose import may be what ran out."""

from __future__ import annotations

import sys

# Python's words where a limit of memory or processes does not let it.
NO_THREAD = "can't start new thread"

# As torch on a CPU (Windows, Linux), CUDA's libraries and NCCL say it.
_WORDS = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUSPARSE_STATUS_ALLOC_FAILED",
    "Failed to CUDA malloc",
    "Failed to CUDA calloc",
)


def ran_out(error: BaseException) -> bool:
    # By name: torch has its own.
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"MemoryError", "OutOfMemoryError"}:
        return True
    said = str(error)
    return any(words in said for words in _WORDS)


def address_space() -> int | None:
    """The bytes that this process may map at most, where the shell or a scheduler set a limit."""
    if sys.platform == "win32":
        return None
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if most == resource.RLIM_INFINITY else most
