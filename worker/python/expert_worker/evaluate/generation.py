"""What every call of transformers' `generate` has in common here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from expert_worker.train.fast.answering import fast_answers
from expert_worker.train.fast.cache_name import cache_known_to_peft

# The likeliest token, whatever a model's own settings say. Tokens are drawn by `Draw`.
GREEDY: dict[str, Any] = {
    "do_sample": False,
    "temperature": None,
    "top_p": None,
    "top_k": None,
    "min_p": None,
}


@contextmanager
def answering(model: Any) -> Iterator[None]:
    """Without dropout, by the fast path where it can; afterwards the model trains as before. A block within
    another one adds nothing.
    """
    was_training = model.training
    model.eval()
    try:
        with cache_known_to_peft(model), fast_answers(model):
            yield
    finally:
        model.train(was_training)
