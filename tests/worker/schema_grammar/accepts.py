"""Whether the grammar of a prompt accepts an answer, as llguidance reads it."""

from __future__ import annotations

from llguidance import LLMatcher, LLTokenizer

from expert_worker.schema_grammar.rules import Rules

_BYTES = LLTokenizer("byte")
# Two prompts for each grammar that depends on its prompt.
SCHEMAS = {
    "sql": (
        "CREATE TABLE shop (id INT, town TEXT);\nwhich towns?",
        "create table pump (bar REAL);\nmean bar?",
    ),
    "cypher": ("(:Town {name:STRING})\n(:Road)-[:ENDS_IN]->(:Town)\nall towns", "Pump(bar)\nall pumps"),
}


def refused_at(rules: Rules, answer: str) -> str | None:
    """What is left of the answer where the grammar refuses it; empty where it is incomplete, None if it is
    accepted."""
    matcher = LLMatcher(_BYTES, LLMatcher.grammar_from_lark(rules.lark()), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = _BYTES.tokenize_str(answer)
    taken = matcher.validate_tokens(tokens)
    matcher.consume_tokens(tokens[:taken])
    if taken < len(tokens):
        return answer.encode()[taken:].decode()
    return None if matcher.is_accepting() else ""


def stops_in(rules: Rules, answer: str, word: str) -> bool:
    """Whether the answer is refused in this word or right after it."""
    rest = refused_at(rules, answer)
    begin = answer.index(word)
    return bool(rest) and begin <= len(answer) - len(rest or "") <= begin + len(word)
