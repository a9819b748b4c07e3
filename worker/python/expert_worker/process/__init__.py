"""What differs by operating system in a worker's bond to the CLI that started it.

Each module has the same function: `die_with_parent(parent, reads_stdin)`.
"""

import os
import sys

if sys.platform == "linux":
    from expert_worker.process.linux import die_with_parent
elif sys.platform == "win32":
    from expert_worker.process.windows import die_with_parent
else:
    from expert_worker.process.macos import die_with_parent

__all__ = ["bind_to_parent"]


def bind_to_parent(*, reads_stdin: bool) -> None:
    """Only where the CLI asked for it: a worker that a person starts by hand is on its own."""
    parent = os.environ.get("EXPERT_PARENT_PID", "")
    if parent.isdecimal():
        die_with_parent(int(parent), reads_stdin=reads_stdin)
