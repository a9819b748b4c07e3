"""The lease that a task of a cluster holds on its run; the CLI has taken it (see `cli/src/sys/lease.rs`).

What such a task publishes in the run is written in the lease's folder and renamed from there, and what it
takes away is renamed into it. Another task that takes the run over removes that folder first: a task that was
paused meanwhile can do neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.exit import Exit

NAME = "EXPERT_LEASE"


class LeaseLost(ExpertError):
    """Another task trains this expert."""

    exit = Exit.LOCKED
    default_code = "lease-lost"


def folder() -> Path | None:
    """None in a process that holds no lease."""
    named = os.environ.get(NAME)
    return Path(named) if named else None


def folder_for(path: Path) -> Path | None:
    """The folder through which `path` is published or taken away."""
    lease = folder()
    return lease if lease is not None and path.is_relative_to(lease.parent.parent) else None


def beside(path: Path, suffix: str) -> Path:
    """A temporary name on the same file system. Outside of the run two tasks must not share one."""
    lease = folder_for(path)
    if lease is not None:
        return lease / (path.name + suffix)
    held = folder()
    token = f".{held.name}" if held is not None else ""
    return path.with_name(path.name + token + suffix)


@contextmanager
def held() -> Iterator[None]:
    """Refusals of the system in words, where the lease's folder is gone."""
    try:
        yield
    except OSError as error:
        lease = folder()
        if lease is None or lease.is_dir():
            raise
        raise taken_over() from error


def taken_over() -> LeaseLost:
    return LeaseLost(
        "Another task has taken over this expert",
        hint="This node was paused or cut off from the others; what it had saved is kept.",
    )


def confirm() -> None:
    """Before a change that does not pass through the folder. An entry is made in it, because what a network
    file system remembers of a folder may be old."""
    lease = folder()
    if lease is not None:
        with held():
            probe = lease / f"alive-{os.getpid()}"
            probe.touch()
            probe.unlink(missing_ok=True)
