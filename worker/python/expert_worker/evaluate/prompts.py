"""Prompts as the trained template renders them, and the choice of the base's best prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

from expert_worker._native import Recipe
from expert_worker.errors import BadInput
from expert_worker.evaluate.decode import Prompt
from expert_worker.evaluate.rows import Message, spread, tags_of
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.pretokenize.template import renderer, special_texts
from expert_worker.pretokenize.watch import watched
from expert_worker.results import PromptChoice, Share

# Stands for an answer: letters, which a template has no reason to change.
_MARK = "qzAnswerKwzq"
SHOTS = 3
# Training rows that examples are picked from.
EXAMPLE_POOL = 400
MOST = 64
FEWEST = 16


class PromptMaker:
    """Renders conversations up to where the answer begins, with the token cache's renderer and its limits.
    `examples` are shown before each question; `events` report a template that runs away."""

    def __init__(
        self,
        tokenizer: Any,
        template: str | None = None,
        examples: Sequence[Row] = (),
        events: Events | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.examples = tuple(examples)
        self.events = events
        # What the template prints behind the last answer.
        self._behind: str | None = None

    def showing(self, examples: Sequence[Row]) -> PromptMaker:
        return PromptMaker(self.tokenizer, self.template, examples, self.events)

    def text(self, messages: Sequence[Message]) -> str:
        with self._watched():
            return self._text(messages)

    def prompt(self, row: Row) -> Prompt:
        return self.prompts([row])[0]

    def prompts(self, rows: Sequence[Row]) -> list[Prompt]:
        with self._watched():
            found = [Prompt(self._ids(self._text(row["messages"], row.get("tools")))) for row in rows]
        if not all(prompt.ids for prompt in found):
            raise BadInput(
                "The chat template makes an empty prompt: there is nothing to answer",
                hint="Correct the template, or set prompt_template to a built-in one.",
                code="empty-prompt",
            )
        return found

    def answers(self, rows: Sequence[Row]) -> list[list[int]]:
        """Token ids of the reference answers as training learns their text: what the template prints behind
        the prompt, up to the token that ends the turn, where generation stops as well."""
        with self._watched():
            return [self._answer(row) for row in rows]

    def _answer(self, row: Row) -> list[int]:
        completion, tools = str(row["completion"]), row.get("tools")
        prompt = self._text(row["messages"], tools)
        whole = self._answered(row, completion)
        if self._behind is None:
            self._behind = self._answered(row, _MARK).rpartition(_MARK)[2]
        behind = self._behind if whole.endswith(self._behind) else ""
        ends = self._added.search(behind)
        tail = behind if ends is None else behind[: ends.end()]
        text = whole[: len(whole) - len(behind)] + tail
        # Not so with a thought in the answer, where the prompt has an empty one.
        is_prompted = text.startswith(prompt)
        ids = self._ids_behind(prompt, text) if is_prompted else self._ids(completion + tail)
        return ids if ends is not None else [*ids, *self._eos()]

    def _answered(self, row: Row, completion: str) -> str:
        messages = [*row["messages"], {"role": "assistant", "content": completion}]
        return self._text(messages, row.get("tools"), answered=True)

    def _ids_behind(self, prompt: str, text: str) -> list[int]:
        """A tokenizer that puts a space before every text puts it before the whole row in training. Elsewhere
        a token may join both sides, and they are encoded apart, as in training."""
        before, together = self._ids(prompt), self._ids(text)
        if together[: len(before)] == before:
            return together[len(before) :]
        return self._ids(text[len(prompt) :])

    def _eos(self) -> list[int]:
        """Where the template prints no end, training adds the tokenizer's."""
        eos = self.tokenizer.eos_token_id
        return [] if eos is None else [eos]

    @cached_property
    def _added(self) -> re.Pattern[str]:
        """Tokens that a template prints as they are: the first behind an answer ends it."""
        known = sorted(filter(str.strip, self.tokenizer.get_added_vocab()), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, known)) or "(?!)")

    def _watched(self) -> AbstractContextManager[None]:
        if self.events is None:
            return nullcontext()
        return watched(self.events, "Making prompts with the base's chat template and tokenizer")

    def _text(self, messages: Sequence[Message], tools: Any = None, *, answered: bool = False) -> str:
        """Up to where the answer begins, or `answered` with it as the last message."""
        conversation = json.dumps(self._with_examples(messages))
        offered = json.dumps(tools) if tools else None
        try:
            text, _ = self._renderer.render(conversation, not answered, enable_thinking=False, tools=offered)
        except ValueError as error:
            raise BadInput(
                f"A prompt cannot be made: {error}",
                hint="Correct the chat template, or set prompt_template to a built-in one.",
                code="template-failed",
            ) from None
        return text

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def _renderer(self) -> Recipe:
        template = self.template if self.template is not None else self.tokenizer.get_chat_template()
        return renderer(template, special_texts(self.tokenizer))

    def _with_examples(self, messages: Sequence[Message]) -> list[Message]:
        """After a system message, if there is one, and before the question."""
        head = [message for message in messages[:1] if message["role"] == "system"]
        shown: list[Message] = []
        for row in self.examples:
            shown += [turn for turn in row["messages"] if turn["role"] != "system"]
            shown.append({"role": "assistant", "content": str(row["completion"])})
        return [*head, *shown, *messages[len(head) :]]


def pick_examples(rows: Sequence[Row], count: int) -> list[Row]:
    """Short rows whose tags differ: the best that a prompt of bounded length can show. Where too few differ,
    the shortest others."""
    pool = rows[:EXAMPLE_POOL]
    shortest = sorted(pool, key=lambda row: len(str(row["messages"])) + len(str(row["completion"])))
    chosen: list[Row] = []
    seen: set[str] = set()
    for row in shortest:
        tags = set(tags_of(row)) or {str(len(chosen))}
        if not tags & seen:
            chosen.append(row)
            seen |= tags
        if len(chosen) == count:
            return chosen
    for row in shortest:
        if len(chosen) == count:
            break
        if all(row["messages"] != other["messages"] for other in chosen):
            chosen.append(row)
    return chosen


Measure = Callable[[PromptMaker, Sequence[Row]], Share]


def rows_to_choose_by(validation: Sequence[Row], test_rows: int) -> list[Row]:
    """Spread over the validation set, about a quarter of what is tested, so that a quick look stays quick."""
    return spread(validation, min(MOST, max(FEWEST, test_rows // 4)))


def choose_prompt(
    maker: PromptMaker, train: Sequence[Row], validation: Sequence[Row], measure: Measure
) -> tuple[PromptMaker, PromptChoice]:
    """The better prompt, and what was measured. Without validation rows there is nothing to choose by."""
    examples = pick_examples(train, SHOTS)
    if not examples or not validation:
        return maker, PromptChoice(shots=0, tried={})
    shown = maker.showing(examples)
    plain, few = measure(maker, validation), measure(shown, validation)
    better = few.accuracy > plain.accuracy
    tried = {"0": plain, str(len(examples)): few}
    return (shown if better else maker), PromptChoice(shots=len(examples) if better else 0, tried=tried)
