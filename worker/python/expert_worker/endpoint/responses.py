"""`/v1/responses`: the call that OpenAI's newer clients make. Nothing is stored, so each request brings its
whole conversation."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from expert_worker.endpoint.answers import Document
from expert_worker.endpoint.bodies import Body, Part, Role, only, plain
from expert_worker.endpoint.engine import Finish, Sampling
from expert_worker.endpoint.formats import FlatFormat, grammar_of
from expert_worker.endpoint.nulls import NullsAbsent
from expert_worker.endpoint.refusals import Refused
from expert_worker.plan import Grammar

_FORM = "text.format"


class InputPart(Part):
    """A text; of an earlier answer with what clients send back beside it."""

    type: Annotated[Literal["input_text", "output_text"], only("parts", "input_text", "output_text")]
    annotations: Annotated[tuple[Any, ...], Field(max_length=0)] = ()
    logprobs: Annotated[tuple[Any, ...], Field(max_length=0)] = ()


class InputMessage(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Annotated[Literal["message"], only("items", "message")] = "message"
    role: Role
    content: str | tuple[InputPart, ...]
    # Of an earlier answer.
    id: str | None = None
    status: str | None = None

    def plain(self) -> dict[str, str]:
        return plain(self.role, self.content)


class TextSettings(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: FlatFormat | None = None
    # With this value only, which is OpenAI's own and changes nothing.
    verbosity: Literal["medium"] | None = None


class ResponsesBody(Body):
    asks = "input"
    forms = _FORM

    input: str | Annotated[list[InputMessage], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    text: TextSettings | None = None
    # With these values only, which change nothing.
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["disabled"] | None = None
    background: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    # An answer has none.
    include: list[Literal["reasoning.encrypted_content"]] | None = None
    # About the request, not about the answer.
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: Literal["auto", "default"] | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        first = [] if self.instructions is None else [{"role": "system", "content": self.instructions}]
        if isinstance(self.input, str):
            return [*first, {"role": "user", "content": self.input}]
        return [*first, *(message.plain() for message in self.input)]

    @property
    def most(self) -> tuple[str, int | None]:
        return "max_output_tokens", self.max_output_tokens

    @property
    def grammar(self) -> Grammar | None:
        return grammar_of(self.text.format if self.text else None, _FORM)


@dataclass
class Response:
    """The shape of one answer. Its events are numbered."""

    body: ResponsesBody
    model: str
    prompt_tokens: int
    sampling: Sampling
    most_tokens: int
    created: int = field(default_factory=lambda: int(time.time()))
    mark: str = field(default_factory=lambda: secrets.token_hex(24))
    closing = b""
    _events: int = 0
    # Of a stream, so far.
    _text: str = ""
    _tokens: int = 0

    def whole(self, text: str, tokens: int, finish: Finish) -> Document:
        status = "completed" if finish == "stop" else "incomplete"
        return self._response(status, [self._message(text, status)], tokens)

    def first(self) -> list[Document]:
        response, item = self._response("in_progress", []), self._message(None, "in_progress")
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.content_part.added", **self._place, part=_part("")),
        ]

    def piece(self, text: str, tokens: int) -> list[Document]:
        self._text, self._tokens = self._text + text, tokens
        return [self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])]

    def last(self, tokens: int, finish: Finish) -> list[Document]:
        text = self._text
        whole = self.whole(text, tokens, finish)
        return [
            self._event("response.output_text.done", **self._place, text=text, logprobs=[]),
            self._event("response.content_part.done", **self._place, part=_part(text)),
            self._event("response.output_item.done", output_index=0, item=whole["output"][0]),
            self._event(f"response.{whole['status']}", response=whole),
        ]

    def failed(self, refused: Refused) -> list[Document]:
        output = [self._message(self._text, "incomplete")] if self._text else []
        error = {"code": refused.code, "message": refused.message}
        response = {**self._response("failed", output, self._tokens), "error": error}
        return [self._event("response.failed", response=response)]

    @property
    def _item(self) -> str:
        return f"msg_{self.mark}"

    @property
    def _place(self) -> Document:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **more: Any) -> Document:
        self._events += 1
        return {"type": kind, "sequence_number": self._events - 1, **more}

    def _message(self, text: str | None, status: str) -> Document:
        content = [] if text is None else [_part(text)]
        return {
            "id": self._item,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _response(self, status: str, output: Sequence[Document], tokens: int | None = None) -> Document:
        body = self.body
        form = body.text.format if body.text else None
        is_cut = status == "incomplete"
        return {
            "id": f"resp_{self.mark}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": body.instructions,
            "max_output_tokens": self.most_tokens,
            "metadata": body.metadata or {},
            "model": self.model,
            "output": list(output),
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": self.sampling.temperature,
            "text": {"format": form.model_dump(by_alias=True) if form else {"type": "text"}},
            "tool_choice": body.tool_choice or "auto",
            "tools": [],
            "top_p": self.sampling.top_p,
            "truncation": "disabled",
            "usage": None if tokens is None else self._usage(tokens),
            "user": body.user,
        }

    def _usage(self, tokens: int) -> Document:
        return {
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.prompt_tokens + tokens,
        }


def _part(text: str) -> Document:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
