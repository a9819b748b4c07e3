"""What the speed of products allows."""

from __future__ import annotations

from typing import Any

from shapes import Shape


def floor(case: dict[str, Any], document: dict[str, Any]) -> float | None:
    """Tokens per second if the products of a token took all of the time, at this device's measured speed."""
    if not document["peak_operations"]:
        return None
    operations = Shape(**document["shape"]).operations_a_token(case["case"]["mean_document"])
    return float(document["peak_operations"] / operations)
