"""Recorded files read back: run.json, plan.json, evaluation.json and cache.json.

They may be older, damaged or forged. A value that does not fit its field is counted and left out; the rest is
read. Numbers, texts and lists have bounds, so that no value can break or bloat what shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import from_json

_LARGEST_FILE = 256 << 20
_MOST_ITEMS = 100_000
_LONGEST_TEXT = 2000


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


Number = Annotated[float, Field(ge=-1e15, le=1e15)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Text = Annotated[str, AfterValidator(_cut)]


@dataclass
class LeftOut:
    """The number of values that did not fit."""

    count: int = 0


class RecordedDocument(BaseModel):
    """A part of a file: every field has a default, which is used where the value does not fit."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    _found: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def as_found(self) -> dict[str, Any]:
        """The whole part, with the values that do not fit and those of unknown keys."""
        return self._found

    @model_validator(mode="wrap")
    @classmethod
    def _with_what_was_found(cls, value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        made = handler(value)
        if isinstance(value, dict):
            made._found = value
        return made

    @field_validator("*", mode="wrap")
    @classmethod
    def _default_where_it_does_not_fit(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        value, left_out = _bounded(value), info.context if isinstance(info.context, LeftOut) else LeftOut()
        before = left_out.count
        try:
            return handler(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
        bad = {item["loc"][0] for item in found if item["loc"]}
        left_out.count = before + (0 if value is None else max(1, len(bad)))
        assert info.field_name is not None
        try:
            return handler(_without(value, bad))
        except ValidationError:
            return cls.model_fields[info.field_name].get_default(call_default_factory=True)


def _bounded(value: Any) -> Any:
    if isinstance(value, list):
        return value[:_MOST_ITEMS]
    if isinstance(value, dict) and len(value) > _MOST_ITEMS:
        return dict(islice(value.items(), _MOST_ITEMS))
    return value


def _without(value: Any, bad: set[int | str]) -> Any:
    """A list or map without the items that do not fit."""
    if isinstance(value, list):
        return [item for place, item in enumerate(value) if place not in bad]
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if key not in bad}
    return None


Kind = TypeVar("Kind", bound=RecordedDocument)


def read_json(path: Path) -> dict[str, Any] | None:
    """The file's object; None for a file that is absent, too large, or holds no JSON object."""
    try:
        # A named pipe or a device would block or never end.
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        document = from_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def read_record(kind: type[Kind], document: dict[str, Any] | None) -> tuple[Kind, int]:
    """The valid part of the document, and the number of values that did not fit."""
    left_out = LeftOut()
    try:
        return kind.model_validate(document or {}, context=left_out), left_out.count
    except ValidationError:
        return kind(), 1
