"""The files by which other programs render prompts and generate as `evaluate` does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expert_worker.adapter import EXPERT
from expert_worker.checkpoint import files
from expert_worker.evaluate.decode import end_ids, pad_id, sampling, stop_texts
from expert_worker.plan import Decoding, Grammar, GrammarKind, Recipe, Template
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


def is_greedy(folder: Path) -> bool:
    """Whether the expert's answers are, by its settings there."""
    settings = folder / GENERATION
    return settings.is_file() and not files.read_json(settings).get("do_sample")


def penalty_of(folder: Path) -> float:
    """The repetition penalty of the expert's answers, by its settings there; 1 is none."""
    settings = folder / GENERATION
    return float((files.read_json(settings) if settings.is_file() else {}).get("repetition_penalty") or 1.0)


def answers_of(adapter: Path, recipe: Recipe, model: Any, tokenizer: Any) -> tuple[str, Decoding]:
    """The chat template and the settings of answers that are beside the adapter: the manifest may name others
    since. A bare checkpoint has none of them, and a run of an older version not all."""
    template, settings = adapter / CHAT_TEMPLATE, adapter / GENERATION
    is_described = (adapter / EXPERT).is_file()
    return (
        template.read_text(encoding="utf-8")
        if is_described and template.is_file()
        else chat_template(recipe.template, tokenizer),
        _decoding(files.read_json(settings), recipe.decoding, model, tokenizer)
        if is_described and settings.is_file()
        else recipe.decoding,
    )


def _decoding(settings: Mapping[str, Any], now: Decoding, model: Any, tokenizer: Any) -> Decoding:
    """What `generation_config` wrote."""
    ended, of_base = settings.get("eos_token_id"), (None, *end_ids(model, tokenizer))
    ends = ended if isinstance(ended, list) else [ended]
    stops = [tokenizer.convert_ids_to_tokens(end) for end in ends if end not in of_base]
    found = {name: settings[name] for name in ("max_new_tokens", "top_p", "top_k") if name in settings}
    return now.model_copy(
        update={
            **found,
            "min_p": settings.get("min_p", 0.0),
            "temperature": settings.get("temperature", 1.0) if settings.get("do_sample") else 0.0,
            "stop_sequences": (*stops, *settings.get("stop_strings", ())),
        }
    )
