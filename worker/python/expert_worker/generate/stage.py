"""`expert-cli generate`: base and adapter answer one prompt, or one per line of standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol

import torch
from pydantic import JsonValue
from transformers.generation.streamers import BaseStreamer

from expert_worker.base import token_vectors
from expert_worker.errors import BadInput
from expert_worker.evaluate.decode import cut, end_ids, within_positions, write
from expert_worker.evaluate.guidance import check_grammar
from expert_worker.evaluate.subject import Subject, open_subject
from expert_worker.events import Events
from expert_worker.plan import GenerateRequest, Plan, Recipe
from expert_worker.results import GeneratedAnswer, GenerateResult
from expert_worker.run_record.asked_with import system_message_for

# Characters of a system message that a notice has.
_SHOWN = 160


def run(plan: Plan, events: Events) -> JsonValue:
    if not isinstance(plan.request, GenerateRequest):
        raise BadInput("The plan does not ask for generate", code="bad-plan")
    check_grammar(plan.recipe.decoding.grammar)
    subject = open_subject(plan, plan.request.adapter, events)
    request, system = plan.request, _system_message(plan, plan.request, events)
    asked = [request.prompt] if request.prompt is not None else prompts(sys.stdin)
    answers = tuple(reply(plan.recipe, events, subject, prompt, system) for prompt in awaited(asked, events))
    return GenerateResult(answers=answers).as_json()


def _system_message(plan: Plan, request: GenerateRequest, events: Events) -> str | None:
    """As in training, unless the request has one, or an empty text for none."""
    if request.system is not None or request.adapter is None:
        return request.system
    found = system_message_for(Path(request.adapter), plan.recipe.data, plan.machine.paths.data)
    if found is not None:
        shown = shorten(found, _SHOWN, placeholder=" …")
        events.applied("system_message", found, f"System message of the training rows: {shown}")
    return found


def prompts(lines: Iterable[str]) -> Iterator[str]:
    """Each line is one JSON string, so that a prompt may hold line breaks; empty lines are skipped."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompt = json.loads(line)
        except ValueError as error:
            raise BadInput(
                f"Line {number} of standard input is not JSON: {error}", code="bad-prompt"
            ) from None
        if not isinstance(prompt, str):
            raise BadInput(f"Line {number} of standard input is not a JSON string", code="bad-prompt")
        yield prompt


def awaited(asked: Iterable[str], events: Events) -> Iterator[str]:
    """Each prompt after a stage event: the command edits the next line of a terminal when it arrives."""
    waiting = iter(asked)
    while True:
        events.stage("answering", quiet_budget=600.0)
        prompt = next(waiting, None)
        events.stop.raise_if_requested()
        if prompt is None:
            return
        yield prompt


def reply(
    recipe: Recipe, events: Events, subject: Subject, prompt: str, system: str | None = None
) -> GeneratedAnswer:
    """The base's answer, then the adapter's; each is streamed and returned whole."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    base, base_cut = _write(recipe, events, subject, messages, "base")
    adapter, adapter_cut = None, False
    if subject.has_adapter:
        adapter, adapter_cut = _write(recipe, events, subject, messages, "adapter")
    were_cut = tuple(name for name, found in (("base", base_cut), ("adapter", adapter_cut)) if found)
    return GeneratedAnswer(prompt=prompt, base=base, adapter=adapter, cut=were_cut)


def _write(
    recipe: Recipe, events: Events, subject: Subject, messages: list[dict[str, str]], source: str
) -> tuple[str, bool]:
    """The answer, and whether it was cut at max_new_tokens or at the base's last position."""
    asked = subject.maker().prompt({"messages": messages})
    token_vectors.check_ids(subject.model, subject.tokenizer, [asked.ids])
    ids = torch.tensor([list(asked.ids)])
    with subject.base_only() if source == "base" else nullcontext():
        decoding = within_positions(subject.model, recipe.decoding, len(asked.ids))
        ends = end_ids(subject.model, subject.tokenizer, decoding.stop_sequences)
        streamer = TextEvents(
            subject.tokenizer, decoding.stop_sequences, events, source, ends, decoding.max_new_tokens
        )
        (answer,) = write(
            subject.model,
            subject.tokenizer,
            ids,
            torch.ones_like(ids),
            decoding,
            seeds=[recipe.seed],
            stop_asked=lambda: events.stop_requested,
            streamer=streamer,
        )
    return answer.text, streamer.was_cut


class Listener(Protocol):
    def text(self, source: str, text: str, *, done: bool = False, cut: bool = False) -> None: ...


class TextEvents(BaseStreamer):
    """Says text once it is certain: a character may span tokens, a stop sequence may be under way."""

    def __init__(
        self,
        tokenizer: Any,
        stops: Sequence[str],
        events: Listener,
        source: str,
        ends: Collection[int] = (),
        most: int | None = None,
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
        self._most = most
        self._said = ""
        self._prompt_seen = False
        self.was_cut = False

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
        text = self._text()
        shown = cut(text, self.stops)
        self._say(shown)
        whole = self._ended or len(shown) < len(text)
        self.was_cut = not whole and len(self._ids) == self._most
        self.events.text(self.source, "", done=True, cut=self.was_cut)

    @property
    def tokens(self) -> int:
        return len(self._ids)

    def _text(self) -> str:
        return str(self.tokenizer.decode(self._ids, skip_special_tokens=True))

    def _say(self, text: str) -> None:
        if len(text) > len(self._said):
            self.events.text(self.source, text[len(self._said) :])
            self._said = text
