"""Questions that are written by hand, on separate tables: what no wording of a generator says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from expert_worker.evaluate.authoring.written import Block, Row, blocks, conversations

FOLDER = Path(__file__).parent / "written"
_PARTS = re.compile(r" JOIN |GROUP BY|\(SELECT|HAVING|\b(?:WITH|OVER|UNION|CASE)\b")


def by_hand(
    system: str, longest: int, name: str, wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[Row]:
    """Conversations of at most so many characters, with the answers that are wanted."""
    found = [
        Block(block.shown, tuple(pair for pair in block.asked if wanted(pair[1]))) for block in blocks(FOLDER)
    ]
    for messages in conversations(found, system, longest, name):
        answers = [message["content"] for message in messages if message["role"] == "assistant"]
        yield {"messages": messages, "tags": ["written"], "level": max(map(level, answers))}


def level(answer: str) -> int:
    """One more for each of these: more than one table, groups, a query within it, and what is rarer."""
    return min(4, 1 + len(set(_PARTS.findall(answer))))
