"""What plans and events have in common: strict, frozen, and closed to unknown keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

U8 = Annotated[int, Field(ge=0, le=2**8 - 1)]
U32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Field(ge=0, le=2**64 - 1)]


class Document(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
