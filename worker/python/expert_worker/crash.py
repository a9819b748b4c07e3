"""An unforeseen exception: one line for the user, the traceback in a log file."""

import os
import re
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from expert_worker.checkpoint.files import NO_FOLLOW
from expert_worker.checkpoint.refusal import human
from expert_worker.errors import ExpertError, Failed, Missing, storage_error, system_error
from expert_worker.memory_errors import NO_THREAD, address_space, ran_out
from expert_worker.plan import Paths, Plan, Request
from expert_worker.process.rank import is_main_process
from expert_worker.tested import hint_of_newer_packages

_FULL_GPU = re.compile(
    r"Tried to allocate (\S+ \w+)\. (GPU \d+) has a total capacity of (\S+ \w+) of which (\S+ \w+) is free"
)

# torch on a CPU.
_ALLOCATED = re.compile(r"tried to allocate (\d+) bytes")
_RAN_OUT = re.compile(r"out of memory", re.IGNORECASE)

# By the settings that a stage reads. `evaluate` by itself answers fewer rows at once before it gives up.
_SMALLER = {
    "train": "Lower batch_size or max_seq_length, or take a smaller base; see `expert-cli plan`.",
    "evaluate": "Lower max_new_tokens, or take a smaller base or quantize it.",
    "generate": "Lower max_new_tokens, or take a smaller base or quantize it.",
    "export": "Close other programs, or take a smaller base.",
    "pretokenize": "Lower max_seq_length, or divide rows of many MB.",
}

# What the loader of a native module says.
_NO_ROOM_FOR_LIBRARY = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")


def ending_of(error: BaseException, stage: str, plan: Plan | None) -> ExpertError:
    """What a stage that ended with `error` reports; the traceback goes to the run's log, or another."""
    if isinstance(error, SystemExit):
        error = Failed(f"The stage {stage} tried to leave by itself (status {error.code})")
    return as_expert_error(error, log_folders(plan.request, plan.machine.paths) if plan else [], stage)


def as_expert_error(error: BaseException, folders: Sequence[Path] = (), stage: str = "train") -> ExpertError:
    if isinstance(error, ExpertError):
        return error
    known = _classify(error, stage)
    log = write_traceback(error, folders)
    if log is not None:
        known.message += f" (details: {log})"
    return known


def _classify(error: BaseException, stage: str) -> ExpertError:
    first_line = str(error).strip().split("\n", 1)[0] or "no message"
    if isinstance(error, ImportError):
        return _not_importable(error)
    refused = error if isinstance(error, OSError) else system_error(error)
    if refused is not None and refused.errno is not None:
        return storage_error(refused, "continue")
    if ran_out(error):
        return _out_of_memory(str(error), stage)
    if NO_THREAD in str(error):
        return Failed(
            "The system did not let the worker start a thread",
            code="no-thread",
            hint="Raise the limits of memory and processes (`ulimit -v`, `ulimit -u`), or close programs.",
        )
    if type(error).__module__.startswith(("torch._dynamo.", "torch._inductor.")):
        return Failed(
            f"torch.compile could not compile the model's layers: {first_line}",
            code="not-compiled",
            hint="The usual causes: torch_compile_backend is not installed, or there is no C++ compiler or, "
            "for a GPU, no Triton. Set torch_compile to false: the result is the same up to rounding.",
        )
    return Failed(f"{type(error).__name__}: {first_line}", code="unforeseen", hint=hint_of_newer_packages())


def _out_of_memory(said: str, stage: str) -> Failed:
    """Of a GPU: what follows in torch's message are settings of its allocator, which are for developers."""
    full = _FULL_GPU.search(said)
    smaller = _SMALLER.get(stage, _SMALLER["train"])
    if full is None:
        more, limit = _ALLOCATED.search(said), address_space()
        what = f"{human(int(more[1]))} more did not fit" if more else _besides(said.strip().split("\n", 1)[0])
        if limit is not None:
            raised = f"Raise the limit of {human(limit)} (`ulimit -v` shows it), or "
            smaller = raised + smaller[0].lower() + smaller[1:]
        return Failed(
            f"Out of memory: {what}" if what else "Out of memory", code="out-of-memory", hint=smaller
        )
    wanted, gpu, total, free = full.groups()
    return Failed(
        f"Out of memory on {gpu}: {wanted} more did not fit; {free} of {total} are free",
        code="out-of-memory",
        hint=f"{smaller} `nvidia-smi` shows what other programs hold.",
    )


def _besides(said: str) -> str:
    """What a message says besides that memory ran out."""
    return _RAN_OUT.sub("", said).strip(" :.")


def _not_importable(error: ImportError) -> ExpertError:
    name = error.name or "a package"
    if any(words in str(error) for words in _NO_ROOM_FOR_LIBRARY):
        return Failed(
            f"Out of memory: {error}",
            code="out-of-memory",
            hint="Raise the limit of memory (`ulimit -v` shows it), or close other programs.",
        )
    if name.startswith("expert_worker"):
        return Missing(
            f"The worker's installation is incomplete: {error}",
            hint="Run `make setup` or install expert-worker again; see `expert-cli doctor`.",
        )
    install = f"Install {name} beside expert-worker; `expert-cli doctor` shows which interpreter is used."
    # A package that is there, but has no such name any more.
    moved = None if isinstance(error, ModuleNotFoundError) else hint_of_newer_packages()
    return Missing(f"This Python cannot import {name}: {error}", hint=moved or install)


def write_traceback(error: BaseException, folders: Sequence[Path]) -> Path | None:
    """In the first of these folders that takes it, else in the temporary one."""
    text = "".join(traceback.format_exception(error))
    for folder in (*folders, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"worker-{os.getpid()}.log"
            with open(path, "a", encoding="utf-8", opener=_open_no_link) as file:
                file.write(text)
        except OSError:
            continue
        return path
    return None


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | NO_FOLLOW, 0o666)


def log_folders(request: Request, paths: Paths) -> list[Path]:
    """Only training has a folder, in which rank 0 alone writes."""
    logs = Path(paths.home) / "logs"
    return [Path(paths.output), logs] if request.stage == "train" and is_main_process() else [logs]
