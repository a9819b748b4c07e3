"""Thoughts that rows teach and prompts do not ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from expert_worker.errors import ExpertError
from expert_worker.events import Events
from expert_worker.plan import Data
from expert_worker.pretokenize.first_messages import first_messages
from expert_worker.pretokenize.template import renderer
from expert_worker.pretokenize.variables import THINKING, reads, with_answers_at_once

_FIELDS = ("reasoning_content", "reasoning", "thinking")
_ASK = (
    'Set base_models[].chat_template_kwargs to {"enable_thinking": true}, or leave the thoughts out of '
    "the rows."
)
_ASK_OTHERWISE = (
    "Set the variable by which the base's chat template turns thoughts on, such as thinking, in "
    "base_models[].chat_template_kwargs, or leave the thoughts out of the rows."
)
_QUESTION = [{"role": "user", "content": "sample question"}]


def warn_of_thoughts(
    data: Data, files: Mapping[str, str], template: str, specials: Mapping[str, str], events: Events
) -> None:
    """An expert that learned to think first, and is asked with an empty thought, answers without one: its
    scores are not those of what it learned."""
    if not _ends_thoughts(template, specials):
        return
    looked_at = thinking = 0
    with suppress(OSError, ExpertError):
        for messages in first_messages(data, files):
            looked_at += 1
            thinking += _thinks(messages)
    if thinking:
        events.warning(
            "thoughts-not-asked-for",
            f"{thinking} of the first {looked_at} rows: the answer begins with thoughts, and the prompts of "
            "evaluate, generate and serve end with an empty thought, so the expert would answer without them",
            _ASK if reads(template, THINKING) else _ASK_OTHERWISE,
        )


def _ends_thoughts(template: str, specials: Mapping[str, str]) -> bool:
    asked = with_answers_at_once(template)
    if asked == template and "</think>" not in template:
        return False
    try:
        prompt, _ = renderer(asked, specials).render(json.dumps(_QUESTION), True)
    except ValueError:
        return False
    return prompt.rstrip().endswith("</think>")


def _thinks(messages: Sequence[Mapping[str, Any]]) -> bool:
    answer = messages[-1] if messages else {}
    content = answer.get("content")
    fields = (answer.get(name) for name in _FIELDS)
    said = any(isinstance(field, str) and field.strip() for field in fields)
    return said or (isinstance(content, str) and _has_thought(content))


def _has_thought(answer: str) -> bool:
    """At its beginning, and not an empty one; the opening mark may stand in the prompt."""
    thought, closed, rest = answer.partition("</think>")
    before, opened, inner = thought.partition("<think>")
    if not opened:
        return bool(closed and before.strip() and rest.lstrip(" \t\r").startswith("\n"))
    return not before.strip() and bool(inner.strip())
