"""Documents of OpenAI's answers, whole and in pieces."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from expert_worker.endpoint.engine import Finish
from expert_worker.endpoint.refusals import Refused

Document = dict[str, Any]


class Answer(Protocol):
    """The shape of one answer. A stream is `first`, a `piece` for each text, and `last` or `failed`."""

    # The last bytes of a stream.
    closing: bytes

    def whole(self, text: str, tokens: int, finish: Finish) -> Document: ...

    def first(self) -> list[Document]: ...

    def piece(self, text: str, tokens: int) -> list[Document]:
        """`tokens` are those of the answer so far."""
        ...

    def last(self, tokens: int, finish: Finish) -> list[Document]: ...

    def failed(self, refused: Refused) -> list[Document]: ...


@dataclass
class Choices:
    """An answer with `choices`: of a conversation (`chat`), or of a text."""

    model: str
    chat: bool
    prompt_tokens: int
    includes_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))
    mark: str = field(default_factory=lambda: secrets.token_hex(12))
    closing = b"data: [DONE]\n\n"

    def whole(self, text: str, tokens: int, finish: Finish) -> Document:
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._head(kind), "choices": [self._choice(content, finish)], "usage": self._usage(tokens)}

    def first(self) -> list[Document]:
        return [self._chunk({"delta": {"role": "assistant", "content": ""}}, None)] if self.chat else []

    def piece(self, text: str, tokens: int) -> list[Document]:  # noqa: ARG002
        return [self._chunk({"delta": {"content": text}} if self.chat else {"text": text}, None)]

    def last(self, tokens: int, finish: Finish) -> list[Document]:
        ended = [self._chunk({"delta": {}} if self.chat else {"text": ""}, finish)]
        usage = {**self._head(self._chunk_kind), "choices": [], "usage": self._usage(tokens)}
        return [*ended, usage] if self.includes_usage else ended

    def failed(self, refused: Refused) -> list[Document]:
        return [refused.document()]

    def _usage(self, tokens: int) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _chunk(self, content: Document, finish: Finish | None) -> Document:
        return {**self._head(self._chunk_kind), "choices": [self._choice(content, finish)]}

    def _head(self, kind: str) -> Document:
        mark = f"chatcmpl-{self.mark}" if self.chat else f"cmpl-{self.mark}"
        return {"id": mark, "object": kind, "created": self.created, "model": self.model}

    def _choice(self, content: Document, finish: Finish | None) -> Document:
        return {"index": 0, **content, "logprobs": None, "finish_reason": finish}
