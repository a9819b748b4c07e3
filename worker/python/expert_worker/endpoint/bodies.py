"""Bodies of requests. A field that would change the answer and is not here is refused, never ignored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import from_json

from expert_worker.endpoint.formats import ResponseFormat, grammar_of
from expert_worker.endpoint.nulls import NullsAbsent
from expert_worker.endpoint.refusals import Refused
from expert_worker.plan import Grammar

# Of both engines. OpenAI's have 64 bits.
_SEEDS = 2**32 - 1
Role = Literal["system", "developer", "user", "assistant"]


def only(what: str, *kinds: str) -> BeforeValidator:
    """A check of a `type`, whose error says what is taken."""

    def check(value: Any) -> Any:
        if value not in kinds:
            raise ValueError(f"only {what} of type {' and '.join(kinds)} are taken")
        return value

    return BeforeValidator(check)


class Part(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    # First: what else is wrong with a part of another type is not the error.
    type: str
    text: str


class TextPart(Part):
    type: Annotated[Literal["text"], only("parts", "text")]


def plain(role: str, content: str | Sequence[Part]) -> dict[str, str]:
    """A message as templates read it."""
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    # OpenAI's newer name for the same.
    return {"role": "system" if role == "developer" else role, "content": text}


class ChatMessage(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: str | tuple[TextPart, ...]
    # No training row has one, so no template writes it.
    name: str | None = None

    def plain(self) -> dict[str, str]:
        return plain(self.role, self.content)


class StreamOptions(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    include_obfuscation: Literal[False] = False


class Body(NullsAbsent):
    """What all calls have."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    # The field with the prompt.
    asks: ClassVar[str]
    # The field with the form of the answer.
    forms: ClassVar[str] = "response_format"

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    # A 32-bit number in both engines.
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    # With this value only, which changes nothing.
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
    @abstractmethod
    def most(self) -> tuple[str, int | None]:
        """The field that limits the answer, and its value."""

    @property
    def grammar(self) -> Grammar | None:
        """What the request asks for; None leaves it to the model's own."""
        return None


class UsageOptions(StreamOptions):
    include_usage: bool = False


class _ChoicesBody(Body):
    """What the calls have that answer with `choices`."""

    stream_options: UsageOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    # With these values only, which change nothing.
    n: Literal[1] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None

    @field_validator("frequency_penalty", "presence_penalty")
    @classmethod
    def _without_penalty(cls, value: float | None) -> float | None:
        if value:
            raise ValueError("only 0 is supported: answers are not penalised")
        return value

    @property
    def most(self) -> tuple[str, int | None]:
        return "max_tokens", self.max_tokens

    @property
    def includes_usage(self) -> bool:
        """At the end of a stream."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatBody(_ChoicesBody):
    asks = "messages"

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: Literal[False] | None = None
    response_format: ResponseFormat | None = None

    @field_validator("max_completion_tokens")
    @classmethod
    def _one_limit(cls, value: int | None, info: ValidationInfo) -> int | None:
        other = info.data.get("max_tokens")
        if value is not None and other is not None and value != other:
            raise ValueError(f"max_tokens is {other}: send one of the two")
        return value

    @property
    def grammar(self) -> Grammar | None:
        return grammar_of(self.response_format)

    @property
    def most(self) -> tuple[str, int | None]:
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return super().most


class CompletionBody(_ChoicesBody):
    asks = "prompt"

    prompt: str
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None

    @field_validator("prompt", mode="before")
    @classmethod
    def _one_text(cls, value: Any) -> str:
        text = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(text, str):
            raise ValueError("one text is taken, also in a list; several texts and token ids are not")
        return text


B = TypeVar("B", bound=Body)


def parse(kind: type[B], content: bytes) -> B:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False, include_input=False), content) from None


def _refusal(errors: Sequence[Any], content: bytes) -> Refused:
    if errors[0]["type"] == "json_invalid":
        return Refused(400, f"The body is not JSON: {errors[0]['msg']}", code="invalid_json")
    document = from_json(content)
    found = [(_path(error, document), error) for error in errors]
    # Of the branches of a choice, the one that fits furthest, before those for another type of value.
    start = found[0][0]
    parts, error = max(
        (it for it in found if it[0][: len(start)] == start),
        key=lambda it: (len(it[0]), not it[1]["type"].endswith("_type")),
    )
    path, message = ".".join(map(str, parts)), str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing":
        return Refused(400, f"The field {path} is missing", code="missing_field", param=path)
    if error["type"] == "extra_forbidden":
        return Refused(400, f"The field {path} is not supported", code="unsupported_field", param=path)
    return Refused(400, f"Invalid value of {path or 'the body'}: {message}", code="invalid_value", param=path)


def _path(error: Any, document: Any) -> tuple[str | int, ...]:
    """In the body: other parts of an error's place name a branch of a choice."""
    place = tuple(error["loc"])
    absent = place[-1:] if error["type"] == "missing" else ()
    path = []
    for part in place[: len(place) - len(absent)]:
        with suppress(KeyError, IndexError, TypeError):
            document = document[part]
            path.append(part)
    return (*path, *absent)
