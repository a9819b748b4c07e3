"""Signals of the scoring process to what it starts, where seccomp forbids them (before Linux 6.12).

A filter of seccomp cannot know the ids of those processes, so the parent, which is not confined, sends them.
Without them `subprocess.run(timeout=...)` would wait until the program ends by itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


def ask_parent(say: Callable[[Mapping[str, Any]], None]) -> None:
    """Replaces the functions by which subprocess and multiprocessing end processes."""
    if sys.platform != "linux":
        return
    allowed = os.kill

    def kill(process_id: int, number: int) -> None:
        try:
            allowed(process_id, number)
        except PermissionError:
            # 0 is this process's group.
            named = process_id or -os.getpgrp()
            if os.getsid(abs(named)) != os.getsid(0):
                raise
            say({"signal": [named, int(number)]})

    os.kill = kill
    os.killpg = lambda group, number: kill(-group, number)


def sent_for_child(line: bytes, child: int) -> bool:
    """Whether the child's line asks for a signal, which then reaches processes of its session alone."""
    if sys.platform != "linux" or not line.startswith(b'{"signal"'):
        return False
    # Whoever writes such a line may write anything in it.
    with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError, OSError):
        process_id, number = json.loads(line)["signal"]
        if os.getsid(abs(process_id)) == child:
            os.kill(process_id, number)
    return True
