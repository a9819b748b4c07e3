"""Which chat template renders the rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from expert_worker._native import BUILTIN_TEMPLATES, Recipe
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Template
from expert_worker.pretokenize.vocabulary import Vocabulary

_BUILTIN = dict(BUILTIN_TEMPLATES)
# `<|im_start|>`, `<｜User｜>`, `<start_of_turn>`.
_MARKER = re.compile(r"<\|\w+\|>|<｜\w+｜>|<\w+_of_turn>")
# For a base whose tokenizer has no template.
_FALLBACK = "chatml"


def template_text(template: Template, tokenizer: Any) -> str | None:
    """The Jinja text that rows and prompts are rendered with; None is the tokenizer's own."""
    wanted = _named(template)
    if wanted is not None:
        return wanted
    return None if getattr(tokenizer, "chat_template", None) else _BUILTIN[_FALLBACK]


def template_for(template: Template, base: str, vocabulary: Vocabulary, events: Events) -> str:
    """The same, from the tokenizer's files."""
    wanted = _named(template) or vocabulary.chat_template
    if wanted is not None:
        if template.kind in _BUILTIN:
            _warn_of_unknown_tokens(template.kind, wanted, base, vocabulary, events)
        return wanted
    events.warning(
        "no-chat-template",
        f"The tokenizer of {base} has no chat template: {_FALLBACK} is used",
        "Set prompt_template in the manifest to choose one.",
    )
    return _BUILTIN[_FALLBACK]


def _warn_of_unknown_tokens(kind: str, text: str, base: str, vocabulary: Vocabulary, events: Events) -> None:
    """A marker that is not one token is spelled out, and means nothing to the base."""
    unknown = [marker for marker in dict.fromkeys(_MARKER.findall(text)) if marker not in vocabulary.added]
    if not unknown:
        return
    fitting = "remove prompt_template" if vocabulary.chat_template else "choose one that fits the base"
    events.warning(
        "template-tokens",
        f"The tokenizer of {base} has no token for {', '.join(unknown)} of the template {kind}: each of them "
        "becomes several tokens that mean nothing to the base",
        f"Train with the template that the base knows: {fitting}.",
    )


def renderer(
    template: str, specials: Mapping[str, str], field_mapping: Mapping[str, str] | None = None
) -> Recipe:
    """Only for rendering and comparing: nothing else in it is used."""
    try:
        return Recipe(
            template=template,
            specials=specials,
            mapping=field_mapping or {},
            parse_dialogue=False,
            train_on="all",
            eos=[],
            stops=[],
            prefix=[],
            suffix=[],
            max_seq_length=2**31,
            overlong="truncate",
            deduplicate=False,
            min_length=None,
            max_length=None,
            interpret=True,
        )
    except ValueError as error:
        raise template_damaged(error) from None


def template_damaged(error: ValueError) -> BadInput:
    return BadInput(
        f"The chat template cannot be read: {error}",
        hint="Correct the template, or set prompt_template to a built-in one.",
        code="template-damaged",
    )


def _named(template: Template) -> str | None:
    if template.kind == "tokenizer":
        return None
    return template.source if template.kind == "custom" else _BUILTIN[template.kind]
