"""A grammar as llguidance takes it, and whether it can. Nothing here needs torch."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from expert_worker.errors import BadInput, Missing
from expert_worker.evaluate import gbnf
from expert_worker.evaluate.multiples import check_multiples
from expert_worker.plan import Grammar
from expert_worker.schema_grammar import OF_PROMPT

INSTALL = "pip install llguidance"
# As llama.cpp has it between the parts of a JSON document: endless white space would never end an answer.
_JSON_SPACE = r"( |\n[ \t]{0,20})?"
# For each token. A base that was not trained opens brackets without end; llguidance's default is 50,000.
_MOST_STATES = 2_000_000
# At one place of an answer: each text of a long list of alternatives is one. llguidance's default is 2,000.
_MOST_CHOICES = 20_000


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

    reason = LLMatcher.validate_grammar(guidance(grammar, ""))
    if reason:
        raise _unusable(grammar, reason)


def matcher(grammar: Grammar, written: str, tokenizer: Any) -> Any:
    """`written` is the grammar as llguidance takes it."""
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(step_max_items=_MOST_STATES, max_items_in_row=_MOST_CHOICES)
    made = LLMatcher(tokenizer, written, log_level=0, limits=limits)
    if made.is_error():
        raise _unusable(grammar, made.get_error())
    return made


def rules_for(grammar: Grammar | None, prompt: str) -> str | None:
    """Of a grammar that depends on the prompt: `grammar.text` is only its name, whatever its rules are."""
    if grammar is None or grammar.kind not in OF_PROMPT:
        return None
    return OF_PROMPT[grammar.kind](prompt).lark()


@lru_cache(maxsize=16)
def guidance(grammar: Grammar, prompt: str) -> str:
    """As llguidance takes it. `prompt` is empty where the grammar does not depend on it."""
    from llguidance import LLMatcher

    try:
        if (rules := rules_for(grammar, prompt)) is not None:
            return str(LLMatcher.grammar_from_lark(rules))
        if grammar.kind == "gbnf":
            *better, last = (str(LLMatcher.grammar_from_lark(form)) for form in gbnf.forms(grammar.text))
            return next((form for form in better if not LLMatcher.validate_grammar(form)), last)
        written = LLMatcher.grammar_from_json_schema(
            grammar.text,
            # Where the schema itself does not say it.
            defaults={"whitespace_flexible": True, "whitespace_pattern": _JSON_SPACE},
        )
        check_multiples(json.loads(grammar.text))
        return str(written)
    except Exception as error:
        # The reader of GBNF raises plain exceptions, some of them about a recursion that is too deep.
        raise _unusable(grammar, str(error)) from None


def why_stopped(grammar: Grammar, matcher: Any) -> str:
    """In words, where the matcher has an error."""
    reason = first_line(matcher.get_error())
    if reason == "NoExtensionBias":
        # Such as rules that lead to themselves only.
        return f"The grammar {grammar.name} cannot be used: it leads to no answer"
    return f"The grammar {grammar.name} is too complex: {reason}"


def _unusable(grammar: Grammar, reason: str) -> BadInput:
    # It numbers its symbols in 16 bits.
    why = "it is too large" if reason.startswith("panic") else first_line(reason)
    return BadInput(
        f"The grammar {grammar.name} cannot be used: {why}",
        hint="Correct it, or set training.decoding.use_grammar to false.",
        code="grammar-unusable",
    )


def first_line(reason: str) -> str:
    return " ".join(reason.strip().split("\n", 1)[0].split())[:300]
