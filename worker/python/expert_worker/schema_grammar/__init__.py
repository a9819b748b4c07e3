"""Grammars of one query, which may use only the names of the schema in its prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from expert_worker.plan import GrammarKind
from expert_worker.schema_grammar import cypher, sql
from expert_worker.schema_grammar.rules import Rules

OF_PROMPT: Mapping[GrammarKind, Callable[[str], Rules]] = {"sql": sql.rules, "cypher": cypher.rules}
"""The kinds whose grammar depends on the prompt."""
