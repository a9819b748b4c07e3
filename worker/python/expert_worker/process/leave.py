"""The way out of a worker whose work is done or has failed."""

import atexit
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """With all that asked to be called at the end, and without taking torch apart object by object, which
    takes seconds. A thread of autograd that frees Python's objects at that time would abort the process."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
