"""Exit codes, as the CLI documents them. Nothing else decides a code."""

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    MISSING = 3
    STORAGE = 4
    LOCKED = 5
    INTERRUPTED = 130
    TERMINATED = 143
