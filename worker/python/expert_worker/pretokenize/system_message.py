"""The system message that the training rows have in common: questions are asked with it later, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from expert_worker.errors import ExpertError
from expert_worker.plan import Data
from expert_worker.pretokenize.first_messages import first_messages


def common_system_message(data: Data, files: Mapping[str, str]) -> str | None:
    """That of the first rows of each source. None where one of them has another or none, or where no row can
    be read any more."""
    found: set[str | None] = set()
    with suppress(OSError, ExpertError):
        for messages in first_messages(data, files):
            found.add(_system_message(messages))
            if len(found) > 1:
                return None
    return found.pop() if found else None


def _system_message(messages: Sequence[Mapping[str, Any]]) -> str | None:
    first = messages[0] if messages else {}
    content = first.get("content")
    return content if first.get("role") == "system" and isinstance(content, str) and content else None
