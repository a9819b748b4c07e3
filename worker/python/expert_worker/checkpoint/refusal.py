"""The file system says no: what could not be done, how much room it takes, and what is still safe."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from expert_worker.errors import Storage, remedy

RESUME = "run again with --resume"
AGAIN = "run the command again"


@contextmanager
def refusals_in_words(
    folder: Path, doing: str, needed: Callable[[], int], safe: Callable[[], Sequence[str]], then: str = RESUME
) -> Iterator[None]:
    """`safe` names the checkpoints that exist, oldest first; `then` says how the command continues."""
    try:
        yield
    except OSError as error:
        raise _explain(error, folder, doing, needed(), _untouched(safe), then) from error


def _explain(error: OSError, folder: Path, doing: str, size: int, untouched: str, then: str) -> Storage:
    message = f"Cannot {doing} in {folder}: {error.strerror or error}."
    if size:
        message += f" It needs {human(size)}{_free(folder)}."
    return Storage(message, hint=f"{untouched}{remedy(error)}, then {then}.")


def _untouched(safe: Callable[[], Sequence[str]]) -> str:
    try:
        names = safe()
    except OSError:
        return ""
    return f"{names[-1]} is untouched. " if names else ""


def _free(folder: Path) -> str:
    try:
        return f"; {human(shutil.disk_usage(folder).free)} are free"
    except OSError:
        return ""


def human(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
