"""A sample dialogue, by which it is seen how a chat template writes."""

from __future__ import annotations

import json

from expert_worker._native import Recipe

SYSTEM = [{"role": "system", "content": "sample instructions"}]
QUESTION = [{"role": "user", "content": "sample question"}]
ANSWER = [{"role": "assistant", "content": "sample answer"}]


def rendered(renderer: Recipe, messages: list[dict[str, str]], thinking: bool | None = None) -> str | None:
    """None where the template refuses them: it may have no place for a system message."""
    try:
        return renderer.render(json.dumps(messages), False, enable_thinking=thinking)[0]
    except ValueError:
        return None
