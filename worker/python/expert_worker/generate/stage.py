"""`expert-cli generate`: base and adapter answer one prompt, or one per line of standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import torch
from pydantic import JsonValue

from expert_worker.base import token_vectors
from expert_worker.errors import BadInput
from expert_worker.evaluate.decode import end_ids, write
from expert_worker.evaluate.subject import Subject, open_subject
from expert_worker.events import Events
from expert_worker.generate.stream import TextEvents
from expert_worker.plan import GenerateRequest, Plan


def run(plan: Plan, events: Events) -> JsonValue:
    if not isinstance(plan.request, GenerateRequest):
        raise BadInput("The plan does not ask for generate", code="bad-plan")
    subject = open_subject(plan, plan.request.adapter, events)
    events.stage("answering", quiet_budget=600.0)
    asked = [plan.request.prompt] if plan.request.prompt is not None else prompts(sys.stdin)
    answers: list[JsonValue] = [
        reply(plan, events, subject, prompt) for prompt in until_stopped(asked, events)
    ]
    return {"answers": answers}


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


def until_stopped(asked: Iterable[str], events: Events) -> Iterator[str]:
    for prompt in asked:
        events.stop.raise_if_requested()
        yield prompt
    events.stop.raise_if_requested()


def reply(plan: Plan, events: Events, subject: Subject, prompt: str) -> dict[str, JsonValue]:
    """The base's answer, then the adapter's; each is streamed and returned whole."""
    answer: dict[str, JsonValue] = {"prompt": prompt}
    answer["base"] = _write(plan, events, subject, prompt, "base")
    if subject.has_adapter:
        answer["adapter"] = _write(plan, events, subject, prompt, "adapter")
    return answer


def _write(plan: Plan, events: Events, subject: Subject, prompt: str, source: str) -> str:
    maker, decoding = subject.maker(), plan.recipe.decoding
    asked = maker.prompt({"messages": [{"role": "user", "content": prompt}]})
    token_vectors.check_ids(subject.model, subject.tokenizer, [asked.ids])
    ids = torch.tensor([list(asked.ids)])
    ends = end_ids(subject.model, subject.tokenizer)
    streamer = TextEvents(subject.tokenizer, decoding.stop_sequences, events, source, ends)
    with subject.base_only() if source == "base" else nullcontext():
        (text,) = write(
            subject.model,
            subject.tokenizer,
            ids,
            torch.ones_like(ids),
            decoding,
            seed=plan.recipe.seed,
            stop_asked=lambda: events.stop_requested,
            streamer=streamer,
        )
    return text
