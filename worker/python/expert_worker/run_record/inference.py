"""The files by which other programs render prompts and generate as `evaluate` does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from expert_worker.checkpoint import files
from expert_worker.evaluate.decode import end_ids, pad_id, sampling, stop_texts
from expert_worker.plan import Decoding, Grammar, GrammarKind, Template
from expert_worker.pretokenize.template import template_text
from expert_worker.pretokenize.variables import with_answers_at_once
from expert_worker.results import ExpertGrammar

CHAT_TEMPLATE = "chat_template.jinja"
GENERATION = "generation_config.json"
GRAMMAR_FILES: Mapping[GrammarKind, str] = {"gbnf": "grammar.gbnf", "json_schema": "grammar.json"}

# Of the file itself, not of how text is generated.
_ABOUT = ("transformers_version", "_from_model_config")


def inference_files(
    template: Template, decoding: Decoding, model: Any, tokenizer: Any
) -> Mapping[str, bytes]:
    return {
        **_grammar_file(decoding.grammar),
        CHAT_TEMPLATE: chat_template(template, tokenizer).encode(),
        GENERATION: generation_file(decoding, model, tokenizer),
    }


def generation_file(decoding: Decoding, model: Any, tokenizer: Any) -> bytes:
    return files.json_bytes(generation_config(decoding, model, tokenizer))


def _grammar_file(grammar: Grammar | None) -> Mapping[str, bytes]:
    """A grammar that depends on the prompt has none: the worker writes it for each."""
    if grammar is None or grammar.kind not in GRAMMAR_FILES:
        return {}
    return {GRAMMAR_FILES[grammar.kind]: grammar.text.encode()}


def sha256(grammar: Grammar | None) -> str | None:
    return None if grammar is None else hashlib.sha256(grammar.text.encode()).hexdigest()


def named(grammar: Grammar | None) -> ExpertGrammar | None:
    """As `expert.json` names the file beside it, or a grammar without one."""
    digest = sha256(grammar)
    if grammar is None or digest is None:
        return None
    return ExpertGrammar(name=GRAMMAR_FILES.get(grammar.kind, grammar.kind), sha256=digest)


def chat_template(template: Template, tokenizer: Any) -> str:
    """The template that rendered the training rows. Prompts have thoughts turned off, unless the manifest
    says otherwise; programs set the variable for that differently, llama.cpp to true."""
    return with_answers_at_once(template_text(template, tokenizer))


def generation_config(decoding: Decoding, model: Any, tokenizer: Any) -> dict[str, Any]:
    """The base's own settings, such as a repetition penalty, which `evaluate` keeps, then the expert's."""
    base = {name: value for name, value in model.generation_config.to_dict().items() if name not in _ABOUT}
    chosen = {
        "max_length": None,
        "max_new_tokens": decoding.max_new_tokens,
        "eos_token_id": end_ids(model, tokenizer, decoding.stop_sequences) or None,
        "pad_token_id": pad_id(model, tokenizer),
        "stop_strings": stop_texts(tokenizer, decoding.stop_sequences) or None,
        **sampling(decoding),
    }
    return {name: value for name, value in {**base, **chosen}.items() if value is not None}
