"""Disables garbage collection during heavy imports: it would scan every object of torch and transformers
repeatedly."""

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
