"""Documents of OpenAI's answers, whole and in pieces."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from expert_worker.endpoint.engine import Finish


@dataclass
class Answer:
    """One answer's identity; `chat` chooses between the two shapes."""

    model: str
    chat: bool
    prompt_tokens: int
    created: int = field(default_factory=lambda: int(time.time()))
    mark: str = field(default_factory=lambda: secrets.token_hex(12))

    def whole(self, text: str, tokens: int, finish: Finish) -> dict[str, Any]:
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._head(kind), "choices": [self._choice(content, finish)], "usage": self.usage(tokens)}

    def first(self) -> dict[str, Any] | None:
        if not self.chat:
            return None
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None)

    def piece(self, text: str) -> dict[str, Any]:
        return self._chunk({"delta": {"content": text}} if self.chat else {"text": text}, None)

    def last(self, finish: Finish) -> dict[str, Any]:
        return self._chunk({"delta": {}} if self.chat else {"text": ""}, finish)

    def usage_chunk(self, tokens: int) -> dict[str, Any]:
        return {**self._head(self._chunk_kind), "choices": [], "usage": self.usage(tokens)}

    def usage(self, tokens: int) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _chunk(self, content: dict[str, Any], finish: Finish | None) -> dict[str, Any]:
        return {**self._head(self._chunk_kind), "choices": [self._choice(content, finish)]}

    def _head(self, kind: str) -> dict[str, Any]:
        mark = f"chatcmpl-{self.mark}" if self.chat else f"cmpl-{self.mark}"
        return {"id": mark, "object": kind, "created": self.created, "model": self.model}

    def _choice(self, content: dict[str, Any], finish: Finish | None) -> dict[str, Any]:
        return {"index": 0, **content, "logprobs": None, "finish_reason": finish}
