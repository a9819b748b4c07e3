"""Null in the body of a request."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, model_validator


class NullsAbsent(BaseModel):
    """Clients write null for what they do not set, also in fields that are not known here."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        required = {field.alias or name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: it for name, it in value.items() if it is not None or name in required}
