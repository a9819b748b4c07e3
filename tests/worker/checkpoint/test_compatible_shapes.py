"""Recipes whose parts have another shape, not only another value."""

from __future__ import annotations

from typing import Any

import pytest

from expert_worker.checkpoint.compatible import Difference, differences


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        ({"a": {"b": 1}}, {"a": None}, [("a", {"b": 1}, None)]),
        ({"a": None}, {"a": {"b": 1}}, [("a", None, {"b": 1})]),
        ({"a": [1]}, {"a": 1}, [("a", [1], 1)]),
        ({"a": 1}, {"a": [1]}, [("a", 1, [1])]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a[1]", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, [("a[0].b", 1, 2)]),
        ({"a": 1}, {}, [("a", 1, "(absent)")]),
        ({}, {"a": 1}, [("a", "(absent)", 1)]),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, [("a", 1, 2), ("b", 1, 2)]),
        ({"a": 1, "b": [1]}, {"b": [1], "a": 1}, []),
    ],
)
def test_every_difference_has_its_place(was: Any, now: Any, found: list[tuple[str, Any, Any]]) -> None:
    assert list(differences(was, now)) == [Difference(*one) for one in found]


def test_a_missing_value_reads_as_null() -> None:
    assert str(Difference("a.b", None, 2)) == "a.b: null in the checkpoint, 2 now"
