"""Variables of a chat template.

They are set at the beginning of its text, so that training rows, prompts, exported files and other programs
have the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from expert_worker._native import Recipe, template_reads
from expert_worker.plan import TemplateValue
from expert_worker.pretokenize.sample import ANSWER, QUESTION, SYSTEM, rendered

# By which templates of thinking models turn thoughts off.
THINKING = "enable_thinking"
_SETS_THINKING = re.compile(rf"(?:{{% set \w+ = [^{{}}]* %}}\n?)*?{{% set {THINKING} = (true|false) %}}")
# A template that knows its variable shows it in one of these.
_DIALOGUES = (QUESTION, [*QUESTION, *ANSWER], [*SYSTEM, *QUESTION])


def with_variables(text: str, values: Mapping[str, TemplateValue]) -> str:
    """The template with these variables set first."""
    tags = "".join(f"{{% set {name} = {_literal(value)} %}}" for name, value in values.items())
    # White space is read differently at the beginning of a line. The line break is not printed.
    return f"{tags}\n{text}" if tags and text[:1].isspace() else tags + text


def with_answers_at_once(text: str) -> str:
    """With the thoughts of answers turned off, unless its own text decides that."""
    if not template_reads(text, THINKING) or _SETS_THINKING.match(text):
        return text
    return with_variables(text, {THINKING: False})


def as_prompts_are(text: str, renderer: Callable[[], Recipe]) -> str:
    """Prompts have thoughts turned off. Most templates only end a prompt differently then. Where one also
    writes dialogues differently (SmolLM3's system message says `/no_think`), rows are trained on as they
    are asked. `renderer` is that of `text`."""
    asked = with_answers_at_once(text)
    return asked if asked != text and _writes_otherwise(renderer()) else text


def _writes_otherwise(renderer: Recipe) -> bool:
    return any(rendered(renderer, one) != rendered(renderer, one, thinking=False) for one in _DIALOGUES)


def _literal(value: TemplateValue) -> str:
    return json.dumps(value, ensure_ascii=False)
