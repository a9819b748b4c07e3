"""What the models of documents have in common: strict, frozen, and closed to unknown keys."""

import math
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

U8 = Annotated[int, Field(ge=0, le=2**8 - 1)]
U32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Field(ge=0, le=2**64 - 1)]


class Document(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class OutputDocument(Document):
    """A document that the worker writes. A number that is not finite becomes null, because JSON has neither
    infinities nor NaN; an optional field that was not given is left out."""

    @model_validator(mode="before")
    @classmethod
    def _finite(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        # This validator hides from the fields that a list comes from JSON, where it stands for a tuple.
        return {name: _as_tuple(finite(value)) for name, value in values.items()}

    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        return {name: value for name, value in document.items() if name in self.model_fields_set}

    def as_json(self) -> dict[str, JsonValue]:
        # Also in the parts of a plan: what `expert-cli` left out as a default stays left out.
        document: dict[str, JsonValue] = self.model_dump(mode="json", exclude_unset=True)
        return document


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, tuple):
        return tuple(finite(item) for item in value)
    return value


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Where in the document, as a JSON pointer, and what is wrong there."""
    first = error.errors(include_url=False)[0]
    return "".join(f"/{part}" for part in first["loc"]) or "/", first["msg"]
