"""Standard output as a channel to the process that started this one."""

import os
import sys


def claim_stdout() -> int:
    """A descriptor of it that only the caller has. What libraries and their C code print from here on goes to
    standard error."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return descriptor
