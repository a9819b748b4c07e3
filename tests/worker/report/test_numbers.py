"""The report writes numbers as the terminal does: both are held to one table."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from expert_worker.report.numbers import duration, percent, size, whole

TABLE = json.loads((Path(__file__).parents[2] / "examples" / "numbers.json").read_text())


@pytest.mark.parametrize(
    ("kind", "show"), [("bytes", size), ("seconds", duration), ("counts", whole), ("shares", percent)]
)
def test_numbers_read_as_on_the_terminal(kind: str, show: Callable[[float], str]) -> None:
    assert [show(number) for number, _ in TABLE[kind]] == [text for _, text in TABLE[kind]]
