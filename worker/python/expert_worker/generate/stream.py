"""Text events while a model writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from transformers.generation.streamers import BaseStreamer

from expert_worker.evaluate.decode import cut
from expert_worker.events import Events


class TextEvents(BaseStreamer):
    """Says text once it is certain: a character may span tokens, a stop sequence may be under way."""

    def __init__(
        self, tokenizer: Any, stops: Sequence[str], events: Events, source: str, ends: Collection[int] = ()
    ) -> None:
        self.tokenizer, self.stops, self.events, self.source = (
            tokenizer,
            [s for s in stops if s],
            events,
            source,
        )
        self._held_back = max((len(stop) - 1 for stop in self.stops), default=0)
        self._ends, self._ended = frozenset(ends), False
        self._ids: list[int] = []
        self._said = ""
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        for token in value.reshape(-1).tolist():
            self._ended = self._ended or token in self._ends
            if not self._ended:
                self._ids.append(token)
        text = self._text()
        ended = len(cut(text, self.stops)) < len(text)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            return
        certain = cut(text, self.stops)
        self._say(certain if ended else certain[: max(0, len(certain) - self._held_back)])

    def end(self) -> None:
        self._say(cut(self._text(), self.stops))
        self.events.text(self.source, "", done=True)

    def _text(self) -> str:
        return str(self.tokenizer.decode(self._ids, skip_special_tokens=True))

    def _say(self, text: str) -> None:
        if len(text) > len(self._said):
            self.events.text(self.source, text[len(self._said) :])
            self._said = text
