"""Ids that the base has no vector for: each is an index beyond a matrix, in the middle of the work, on a GPU
without a reason. They are refused first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from expert_worker.errors import BadInput

TOO_LARGE = "tokenizer-too-large"


def count(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[0])


def has_spare_ids(model: Any, tokenizer: Any) -> bool:
    """Whether the tokenizer knows an id that the base has no vector for; many never use it."""
    return bool(max(len(tokenizer) - 1, *tokenizer.added_tokens_decoder, 0) >= count(model))


def check_ids(model: Any, tokenizer: Any, rows: Iterable[Sequence[int]]) -> None:
    check_largest(model, tokenizer, max((max(row, default=0) for row in rows), default=0))


def check_largest(model: Any, tokenizer: Any, largest: int) -> None:
    vectors = count(model)
    if largest >= vectors:
        token = tokenizer.convert_ids_to_tokens(largest)
        raise BadInput(
            f"The tokenizer gives {token!r} the id {largest}, but the base has only {vectors} token vectors",
            hint="The tokenizer is not this base's own: fetch the base again with its tokenizer files.",
            code=TOO_LARGE,
        )
