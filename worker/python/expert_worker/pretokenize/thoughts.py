"""Thoughts that rows teach and prompts do not ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from expert_worker._native import Recipe as Renderer
from expert_worker._native import template_reads
from expert_worker.errors import ExpertError
from expert_worker.events import Events
from expert_worker.plan import Template
from expert_worker.pretokenize.first_messages import first_messages
from expert_worker.pretokenize.inputs import Inputs
from expert_worker.pretokenize.template import renderer
from expert_worker.pretokenize.variables import THINKING, with_answers_at_once

# Of an answer, beside its content.
FIELDS = ("reasoning_content", "reasoning", "thinking")
_LEAVE = "or leave the thoughts out of the rows."

Message = Mapping[str, Any]


def warn_of_thoughts(inputs: Inputs, events: Events) -> None:
    """An expert that learned to think first, and is asked with an empty thought, answers without one: its
    scores are not those of what it learned."""
    recipe, text, specials = inputs.plan.recipe, inputs.template, inputs.vocabulary.specials
    if "</think>" not in text:
        return
    rows, prompts = renderer(text, specials), renderer(with_answers_at_once(text), specials)
    looked_at = thinking = 0
    with suppress(OSError, ExpertError):
        for messages in first_messages(recipe.data, inputs.plan.machine.paths.data):
            looked_at += 1
            learned = _learned(messages, recipe.data.train_on)
            thinking += any(_is_not_asked_for(messages, place, rows, prompts) for place in learned)
    if thinking:
        events.warning(
            "thoughts-not-asked-for",
            f"{thinking} of the first {looked_at} rows: answers begin with thoughts, and the prompts of "
            "evaluate, generate and serve end with an empty thought, so the expert would answer without them",
            _advice(recipe.template, text),
        )


def _advice(template: Template, text: str) -> str:
    if template.kwargs.get(THINKING) is True:
        return f"Let no message turn thoughts off, as /no_think does, {_LEAVE}"
    if template_reads(text, THINKING):
        return f'Set base_models[].chat_template_kwargs to {{"{THINKING}": true}}, {_LEAVE}'
    return (
        "Set the variable by which the template turns thoughts on, such as thinking, in "
        f"base_models[].chat_template_kwargs, {_LEAVE}"
    )


def _learned(messages: Sequence[Message], train_on: str) -> Iterator[int]:
    """Places of answers of which something is learned."""
    answers = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    yield from answers if train_on != "completions" else answers[-1:]


def _is_not_asked_for(messages: Sequence[Message], place: int, rows: Renderer, prompts: Renderer) -> bool:
    thought = _thought(messages[place])
    if not thought:
        return False
    try:
        prompt, _ = prompts.render(json.dumps(messages[:place]), True)
        whole, _ = rows.render(json.dumps(messages), False)
    except ValueError:  # A row that the template refuses.
        return False
    return prompt.rstrip().endswith("</think>") and thought in whole


def _thought(answer: Message) -> str:
    """That an answer begins with; the opening mark may stand in the prompt."""
    fields = (answer.get(name) for name in FIELDS)
    beside = next((field.strip() for field in fields if isinstance(field, str) and field.strip()), "")
    content = answer.get("content")
    if beside or not isinstance(content, str):
        return beside
    thought, closed, rest = content.partition("</think>")
    before, opened, inner = thought.partition("<think>")
    if not opened:
        return before.strip() if closed and rest.lstrip(" \t\r").startswith("\n") else ""
    return "" if before.strip() else inner.strip()
