"""Bodies of requests. A field that would change the answer and is not here is refused, never ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from expert_worker.endpoint.formats import ResponseFormat, grammar_of
from expert_worker.endpoint.refusals import Refused
from expert_worker.plan import Grammar

# Of both engines. OpenAI's have 64 bits.
_SEEDS = 2**32 - 1


class _NullsAbsent(BaseModel):
    """Clients write null for what they do not set, also in fields that are not known here."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: it for name, it in value.items() if it is not None or name in required}


class TextPart(_NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["text"]
    text: str


class ChatMessage(_NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | tuple[TextPart, ...]
    # No training row has one, so no template writes it.
    name: str | None = None

    def plain(self) -> dict[str, str]:
        text = self.content if isinstance(self.content, str) else "".join(it.text for it in self.content)
        # OpenAI's newer name for the same.
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(_NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class Body(_NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    # A 32-bit number in both engines.
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    # With these values only, which change nothing.
    n: Literal[1] | None = None
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    store: Literal[False] | None = None
    # About the request, not about the answer.
    user: str | None = None
    metadata: dict[str, Any] | None = None

    @field_validator("seed")
    @classmethod
    def _of_the_engines(cls, value: int | None) -> int | None:
        return None if value is None else value % _SEEDS

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, list) and len(value) > 4:
            raise ValueError("at most 4 stop texts")
        return value

    @property
    def stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in given if text)

    @property
    def most(self) -> int | None:
        return self.max_tokens

    @property
    def grammar(self) -> Grammar | None:
        """What the request asks for; None leaves it to the model's own."""
        return None


class ChatBody(Body):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: Literal[False] | None = None
    response_format: ResponseFormat | None = None

    @property
    def grammar(self) -> Grammar | None:
        return grammar_of(self.response_format)

    @property
    def most(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class CompletionBody(Body):
    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)]
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None

    @property
    def text(self) -> str:
        return self.prompt if isinstance(self.prompt, str) else self.prompt[0]


B = TypeVar("B", bound=Body)


def parse(kind: type[B], content: bytes) -> B:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _refusal(first) from None


def _refusal(error: Any) -> Refused:
    # The last parts may name a branch of a choice.
    path = ".".join(str(part) for part in error["loc"] if not str(part).startswith(("function-", "list[")))
    kind, message = str(error["type"]), str(error["msg"])
    if kind == "json_invalid":
        return Refused(400, f"The body is not JSON: {message}", code="invalid_json")
    if kind == "missing":
        return Refused(400, f"The field {path} is missing", code="missing_field", param=path)
    if kind == "extra_forbidden":
        return Refused(400, f"The field {path} is not supported", code="unsupported_field", param=path)
    return Refused(400, f"Invalid value of {path or 'the body'}: {message}", code="invalid_value", param=path)
