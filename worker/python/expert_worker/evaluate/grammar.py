"""Answers that conform to a grammar: tokens that would break it get no probability. llguidance keeps track.

llguidance rather than xgrammar: MIT, one wheel without dependencies (xgrammar brings torch's CUDA packages),
and tokenizers of Hugging Face as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import LogitsProcessor

from expert_worker.base import token_vectors
from expert_worker.errors import BadInput, Failed, Missing
from expert_worker.plan import Grammar
from expert_worker.schema_grammar import OF_PROMPT

INSTALL = "pip install llguidance"
# As llama.cpp has it between the parts of a JSON document: endless white space would never end an answer.
_JSON_SPACE = r"( |\n[ \t]{0,20})?"
# For each token. A base that was not trained opens brackets without end; llguidance's default is 50,000.
_MOST_STATES = 2_000_000
_tokenizers: WeakKeyDictionary[Any, dict[tuple[int, ...], Any]] = WeakKeyDictionary()


def is_installed() -> bool:
    return find_spec("llguidance") is not None


def check_grammar(grammar: Grammar | None) -> None:
    """Before a model is loaded: llguidance is here, and can use the grammar."""
    if grammar is None:
        return
    if not is_installed():
        raise Missing(
            f"Answers are constrained by {grammar.name}, which needs the package llguidance",
            hint=f"Install it: {INSTALL}; or set training.decoding.use_grammar to false.",
            code="missing-package",
        )
    from llguidance import LLMatcher

    reason = LLMatcher.validate_grammar(_guidance(grammar, ""))
    if reason:
        raise _unusable(grammar, reason)


class Constraint(LogitsProcessor):
    """Of one batch. `ends` are the tokens that end an answer, allowed where the grammar is complete."""

    def __init__(
        self,
        grammar: Grammar,
        model: Any,
        tokenizer: Any,
        ends: Sequence[int],
        ids: torch.Tensor,
        mask: torch.Tensor,
    ) -> None:
        check_grammar(grammar)
        self._grammar, self._start, self._ends = grammar, ids.shape[1], frozenset(ends)
        known = _llguidance_tokenizer(model, tokenizer, ends)
        prompts = _texts(tokenizer, ids, mask) if grammar.kind in OF_PROMPT else [""] * len(ids)
        first = {prompt: matcher(grammar, _guidance(grammar, prompt), known) for prompt in set(prompts)}
        # None is an answer that has ended: transformers fills it up.
        self._rows = [first[prompt].deep_copy() for prompt in prompts]
        self._allowed: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] > self._start:
            self._advance(input_ids[:, -1].tolist())
        self._allowed = self._mask(scores.shape[1])
        return scores.masked_fill(~self._allowed.to(scores.device), float("-inf"))

    def keep(self, rows: Sequence[int]) -> None:
        """The batch continues with these rows alone."""
        self._rows = [self._rows[row] for row in rows]
        if self._allowed is not None:
            self._allowed = self._allowed[list(rows)]

    def _advance(self, tokens: Sequence[int]) -> None:
        allowed = self._allowed
        for place, token in enumerate(tokens):
            matcher = self._rows[place]
            if matcher is None or allowed is None:
                continue
            # Where the grammar does not allow it, a stop sequence has ended the answer, and this is padding.
            if token in self._ends or not bool(allowed[place, token]):
                self._rows[place] = None
            elif not matcher.consume_token(token):
                self._fail_on(matcher)

    def _mask(self, width: int) -> torch.Tensor:
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        bits = allocate_token_bitmask(len(self._rows), width)
        for place, matcher in enumerate(self._rows):
            if matcher is not None:
                fill_next_token_bitmask(matcher, bits, place)
                self._fail_on(matcher)
        allowed = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, :width]
        mask = torch.from_numpy(allowed.astype(np.bool_))
        if not bool(mask.any(dim=1).all()):
            raise Failed(
                f"No token of this base continues an answer that {self._grammar.name} allows",
                hint="Write the grammar for the characters that the base's tokenizer has.",
                code="grammar-failed",
            )
        return mask

    def _fail_on(self, matcher: Any) -> None:
        if matcher.is_error():
            raise Failed(
                f"The grammar {self._grammar.name} is too complex: {_first_line(matcher.get_error())}",
                hint="Make its rules less ambiguous, or its repetitions shorter.",
                code="grammar-failed",
            )


def _texts(tokenizer: Any, ids: torch.Tensor, mask: torch.Tensor) -> list[str]:
    rows = [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]
    return [str(text) for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]


def matcher(grammar: Grammar, guidance: str, tokenizer: Any) -> Any:
    """`guidance` is the grammar as llguidance takes it."""
    from llguidance import LLMatcher, LLParserLimits

    made = LLMatcher(tokenizer, guidance, log_level=0, limits=LLParserLimits(step_max_items=_MOST_STATES))
    if made.is_error():
        raise _unusable(grammar, made.get_error())
    return made


def _llguidance_tokenizer(model: Any, tokenizer: Any, ends: Sequence[int]) -> Any:
    """Takes about a second for a large vocabulary, so it is kept as long as the tokenizer."""
    from llguidance.hf import from_tokenizer

    if not ends:
        raise BadInput(
            "This base has no token that ends an answer, so no answer can be constrained by a grammar",
            hint="Set training.decoding.use_grammar to false.",
            code="grammar-unusable",
        )
    size = max(len(tokenizer), token_vectors.count(model))
    known = _tokenizers.setdefault(tokenizer, {})
    key = (size, *sorted(ends))
    if key not in known:
        try:
            known[key] = from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(ends))
        except ValueError as error:
            raise BadInput(
                f"Answers of this base cannot be constrained by a grammar: {_first_line(str(error))}",
                hint="Set training.decoding.use_grammar to false.",
                code="grammar-unusable",
            ) from None
    return known[key]


def rules_for(grammar: Grammar | None, prompt: str) -> str | None:
    """Of a grammar that depends on the prompt: `grammar.text` is only its name, whatever its rules are."""
    if grammar is None or grammar.kind not in OF_PROMPT:
        return None
    return OF_PROMPT[grammar.kind](prompt).lark()


@lru_cache(maxsize=16)
def _guidance(grammar: Grammar, prompt: str) -> str:
    """As llguidance takes it. `prompt` is empty where the grammar does not depend on it."""
    from llguidance import LLMatcher
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        if (rules := rules_for(grammar, prompt)) is not None:
            return str(LLMatcher.grammar_from_lark(rules))
        if grammar.kind == "gbnf":
            return str(LLMatcher.grammar_from_lark(gbnf_to_lark(_plain_characters(grammar.text))))
        return str(
            LLMatcher.grammar_from_json_schema(
                grammar.text, overrides={"whitespace_flexible": True, "whitespace_pattern": _JSON_SPACE}
            )
        )
    except Exception as error:
        # The converter raises plain exceptions, some of them about a recursion that is too deep.
        raise _unusable(grammar, str(error)) from None


def _plain_characters(text: str) -> str:
    """The converter takes characters beyond ASCII only as they are."""

    def plain(found: re.Match[str]) -> str:
        code = int(found[0][2:], 16) if found[0][1] in "uU" and len(found[0]) > 2 else 0
        return chr(code) if code >= 0x80 else f"\\x{code:02x}" if code else found[0]

    return re.sub(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", plain, text, flags=re.DOTALL)


def _unusable(grammar: Grammar, reason: str) -> BadInput:
    return BadInput(
        f"The grammar {grammar.name} cannot be used: {_first_line(reason)}",
        hint="Correct it, or set training.decoding.use_grammar to false.",
        code="grammar-unusable",
    )


def _first_line(reason: str) -> str:
    return " ".join(reason.strip().split("\n", 1)[0].split())[:300]
