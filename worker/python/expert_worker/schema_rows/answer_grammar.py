"""Whether a JSON Schema can be the grammar of answers: llguidance reads it, and the rows' answers fit it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from expert_worker.errors import ExpertError
from expert_worker.evaluate.guidance import check_grammar, guidance, matcher
from expert_worker.plan import Grammar

# As large as a manifest's grammar may be.
_MOST_BYTES = 256 << 10


def fits(schema: bytes, answers: Iterable[str]) -> bool:
    """llguidance allows the keys of an object in the order of the schema alone."""
    from llguidance import LLTokenizer

    if len(schema) > _MOST_BYTES:
        return False
    try:
        grammar = Grammar(kind="json_schema", name="schema.json", text=schema.decode("utf-8-sig"))
        check_grammar(grammar)
        letters = LLTokenizer("byte")
        rules = guidance(grammar, "")
        return all(_accepts(matcher(grammar, rules, letters), letters.tokenize_str(it)) for it in answers)
    except (ExpertError, UnicodeDecodeError):
        return False


def _accepts(grammar: Any, letters: list[int]) -> bool:
    return grammar.try_consume_tokens(letters) == len(letters) and bool(grammar.is_accepting())
