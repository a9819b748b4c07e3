"""What the worker writes: no field is forgotten or misspelt, and no number is beyond JSON."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from expert_worker.results import BestChoice, EvaluationResult

CHOICE: dict[str, Any] = {"step": 3, "reason": "r", "metric": None, "value": 0.5, "evaluations": {}}


def test_a_field_that_is_forgotten_or_misspelt_is_refused() -> None:
    with pytest.raises(ValidationError, match="value\n  Field required"):
        BestChoice(**{name: value for name, value in CHOICE.items() if name != "value"})
    with pytest.raises(ValidationError, match="evaluation\n  Extra inputs"):
        BestChoice(**CHOICE, evaluation={})


def test_a_number_that_is_not_finite_is_null() -> None:
    made = BestChoice(**{**CHOICE, "value": math.inf, "evaluations": {"1": math.nan, "2": 0.25}})
    assert made.as_json()["value"] is None
    assert made.as_json()["evaluations"] == {"1": None, "2": 0.25}


def test_an_optional_field_that_was_not_given_is_left_out() -> None:
    made = EvaluationResult(
        expert="e", scorer="exact", rows=0, base=None, adapter=None, by_level=(), by_tag=(), confinement=None,
        seconds=None,
    )  # fmt: skip
    assert "gains" not in made.as_json() and made.as_json()["seconds"] is None
