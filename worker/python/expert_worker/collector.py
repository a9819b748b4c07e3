"""The garbage collector goes through every object of torch and its kin again and again while they are
imported, and once more on the way out. None of them is garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_rest() -> Iterator[None]:
    """While libraries are imported; what they made is never looked at again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def rest_for_good() -> None:
    """The process ends: its memory goes back in one piece."""
    gc.disable()
    gc.freeze()
