"""What every call of transformers' `generate` has in common here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The likeliest token, whatever a model's own settings say. Tokens are drawn by `Draw`.
GREEDY: dict[str, Any] = {
    "do_sample": False,
    "temperature": None,
    "top_p": None,
    "top_k": None,
    "min_p": None,
}


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """Without dropout; afterwards it trains as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
