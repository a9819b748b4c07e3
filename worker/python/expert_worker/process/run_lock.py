"""The lock of the run's folder, which the CLI has taken and this process holds too.

No other CLI writes there before both have ended, whichever ends first.
"""

from __future__ import annotations

import contextlib
import os

NAME = "EXPERT_RUN_LOCK"
_held: list[int] = []
_named: list[str] = []


def hold_inherited() -> None:
    """The descriptors that the CLI has left open and named: one for each run of this process. Programs that
    are started here do not get them. On Windows, where the CLI alone holds the lock, it says `held`."""
    _named[:] = filter(None, os.environ.pop(NAME, "").split(","))
    for number in filter(str.isdecimal, _named):
        # A worker that a person starts by hand may find a number that means nothing here.
        with contextlib.suppress(OSError):
            hold(int(number))


def hold(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    _held.append(descriptor)


def is_held() -> bool:
    """Whether this process works for a run that nobody else may write: it trains or scores it."""
    return bool(_named or _held)


def for_process() -> tuple[dict[str, str], tuple[int, ...]]:
    """Environment and descriptors by which a process that trains with this one holds the lock as well."""
    return ({NAME: str(_held[0])}, (_held[0],)) if _held else ({}, ())
