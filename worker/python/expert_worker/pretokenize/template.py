"""Which chat template renders the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from expert_worker._native import BUILTIN_TEMPLATES, template_decides, template_reads
from expert_worker._native import Recipe as Renderer
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Recipe, Template
from expert_worker.pretokenize.sample import ANSWER, QUESTION, SYSTEM, rendered
from expert_worker.pretokenize.variables import as_prompts_are, with_variables
from expert_worker.pretokenize.vocabulary import Vocabulary

_BUILTIN = dict(BUILTIN_TEMPLATES)
# `<|im_start|>`, `<｜User｜>`, `<start_of_turn>`.
_MARKER = re.compile(r"<\|\w+\|>|<｜\w+｜>|<\w+_of_turn>")
# Of a filter, a test or a function. A method depends on the kind of a value, and so on the row.
_UNKNOWN_NAME = re.compile(r" is unknown \(template line \d+\)$")
_REFUSES = "the chat template refuses the row: "
_LINE = re.compile(r"\(template line (\d+)\)$")
# For a base whose tokenizer has no template.
_FALLBACK = "chatml"
_CORRECT = "Correct the template, or set prompt_template to a built-in one."


def template_text(template: Template, tokenizer: Any) -> str:
    """The Jinja text that rows and prompts are rendered with."""
    own = tokenizer.get_chat_template() if getattr(tokenizer, "chat_template", None) else None
    text = _named(template) or own or _BUILTIN[_FALLBACK]
    return _with_its_variables(text, template, special_texts(tokenizer))


def special_texts(tokenizer: Any) -> dict[str, str]:
    """Of bos, eos and the like, as templates read them."""
    named = tokenizer.special_tokens_map.items()
    return {name: str(text) for name, text in named if not isinstance(text, list)}


def template_for(recipe: Recipe, vocabulary: Vocabulary, events: Events) -> str:
    """The same, from the tokenizer's files."""
    template, base = recipe.template, recipe.base.name
    wanted = _named(template) or vocabulary.chat_template
    if wanted is not None:
        _refuse_unread(template, wanted, base)
        text = _with_its_variables(wanted, template, vocabulary.specials)
        sample = "" if template.kind in _BUILTIN else _checked_sample(recipe, text, vocabulary, events)
        if template.kind != "tokenizer":
            _warn_of_unknown_tokens(template.kind, text + sample, base, vocabulary, events)
        return text
    _refuse_unread(template, _BUILTIN[_FALLBACK], base)
    warn_of_none(base, "Set prompt_template in the manifest to choose one.", events)
    return _BUILTIN[_FALLBACK]


def warn_of_none(base: str, hint: str, events: Events) -> None:
    events.warning(
        "no-chat-template", f"The tokenizer of {base} has no chat template: {_FALLBACK} is used", hint
    )


def _with_its_variables(text: str, template: Template, specials: Mapping[str, str]) -> str:
    whole = with_variables(text, template.kwargs)
    return as_prompts_are(whole, lambda: renderer(whole, specials))


def _refuse_unread(template: Template, text: str, base: str) -> None:
    for name in template.kwargs:
        if not template_reads(text, name):
            raise BadInput(
                f"The chat template of {base} does not read {name}, which chat_template_kwargs sets: it "
                "would have no effect",
                hint=f"Remove {name} from chat_template_kwargs, or choose a template that reads it.",
                code="template-variable-unread",
            )
        if template_decides(text, name):
            raise BadInput(
                f"The chat template of {base} sets {name} itself, so the value of chat_template_kwargs "
                "would have no effect",
                hint=f"Remove {name} from chat_template_kwargs, or name your template "
                "(prompt_template custom).",
                code="template-variable-unread",
            )


def _checked_sample(recipe: Recipe, text: str, vocabulary: Vocabulary, events: Events) -> str:
    """A question and its answer as the template prints them; empty where it prints no such dialogue."""
    template = renderer(text, vocabulary.specials)
    try:
        sample = template.render(json.dumps([*QUESTION, *ANSWER]), False)[0]
        asked, prompt = (template.render(json.dumps(QUESTION), is_prompt)[0] for is_prompt in (False, True))
    except ValueError as error:
        if _UNKNOWN_NAME.search(str(error)) and rendered(template, [*SYSTEM, *QUESTION, *ANSWER]) is None:
            raise template_fails(recipe.template, recipe.base.name, str(error)) from None
        # It may want other messages, which the rows have.
        return ""
    header = sample.partition(ANSWER[0]["content"])[0].removeprefix(prompt)
    if prompt == asked and sample.startswith(prompt) and header.strip():
        _no_generation_prompt(recipe, header, events)
    elif prompt != asked and not sample.startswith(prompt):
        _warn_of_prompt(recipe, prompt.removeprefix(asked), events)
    return sample


def _warn_of_prompt(recipe: Recipe, end: str, events: Events) -> None:
    """As templates of thinking models that begin the thought: the expert learns answers without one."""
    events.warning(
        "prompt-not-in-rows",
        f"{_whose(recipe.template, recipe.base.name)} ends prompts with {end!r}, which does not stand before "
        "the answers of rows: the expert is asked in another way than it is trained",
        'Set prompt_template to "custom", with a template that prints the same text before an answer as '
        "after a question.",
    )


def _no_generation_prompt(recipe: Recipe, header: str, events: Events) -> None:
    """Whoever asks such an expert gets this text in front of each answer, and every score is 0. With
    `train_on: all` the text is learned in any case, and nobody may want to ask."""
    template, learns_all = recipe.template, recipe.data.train_on == "all"
    effect = (
        "so answers of evaluate, generate and serve begin with it"
        if learns_all
        else "so the expert would learn to write it"
    )
    line = f"{{% if add_generation_prompt %}}{{{{ {header!r} }}}}{{% endif %}}"
    whose = _whose(template, recipe.base.name)
    message = (
        f"{whose} prints the same with and without add_generation_prompt: the text before "
        f"an answer, {header!r}, is not part of the prompt, {effect}"
    )
    if template.kind != "custom":
        hint = (
            f"Set prompt_template to a built-in one, or to custom with this template and, at its end: {line}"
        )
        events.warning("no-generation-prompt", message, hint)
        return
    hint = f"Add at its end: {line}"
    if not learns_all:
        raise BadInput(message, hint=hint, code="no-generation-prompt")
    events.warning("no-generation-prompt", message, hint)


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
    template: str,
    specials: Mapping[str, str],
    field_mapping: Mapping[str, str] | None = None,
    *,
    parse_dialogue: bool = False,
    train_on: str = "all",
) -> Renderer:
    """Only for rendering and comparing: nothing else in it is used."""
    try:
        return Renderer(
            template=template,
            specials=specials,
            mapping=field_mapping or {},
            parse_dialogue=parse_dialogue,
            train_on=train_on,
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
        hint=_CORRECT,
        code="template-damaged",
    )


def template_fails(template: Template, base: str, error: str) -> BadInput:
    """With an error in Jinja that no row can be blamed for."""
    return BadInput(
        f"{_whose(template, base)} fails with every row: {error.removeprefix(_REFUSES)}",
        hint=_CORRECT,
        code="template-damaged",
    )


def fails_by_itself(text: str, error: str) -> bool:
    """Whether what the template says of a row is an error of Jinja, not a refusal by `raise_exception`."""
    line = _LINE.search(error)
    lines = text.split("\n")
    return not (line and int(line[1]) <= len(lines) and "raise_exception" in lines[int(line[1]) - 1])


def _whose(template: Template, base: str) -> str:
    return "The custom chat template" if template.kind == "custom" else f"The chat template of {base}"


def _named(template: Template) -> str | None:
    if template.kind == "tokenizer":
        return None
    return template.source if template.kind == "custom" else _BUILTIN[template.kind]
