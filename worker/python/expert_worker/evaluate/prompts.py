"""Prompts as the trained template renders them: the one place where evaluation meets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expert_worker.evaluate.decode import Prompt
from expert_worker.evaluate.rows import Message
from expert_worker.evaluate.verdict import Row


class PromptMaker:
    """Renders conversations up to where the answer begins. `examples` are shown before each question."""

    def __init__(self, tokenizer: Any, template: str | None = None, examples: Sequence[Row] = ()) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.examples = tuple(examples)

    def text(self, messages: Sequence[Message]) -> str:
        rendered = self.tokenizer.apply_chat_template(
            self._with_examples(messages),
            chat_template=self.template,
            add_generation_prompt=True,
            tokenize=False,
            enable_thinking=False,
        )
        return str(rendered)

    def prompt(self, row: Row) -> Prompt:
        return Prompt(self.tokenizer(self.text(row["messages"]), add_special_tokens=False)["input_ids"])

    def _with_examples(self, messages: Sequence[Message]) -> list[Message]:
        """After a system message, if there is one, and before the question."""
        head = [message for message in messages[:1] if message["role"] == "system"]
        shown: list[Message] = []
        for row in self.examples:
            shown += [turn for turn in row["messages"] if turn["role"] != "system"]
            shown.append({"role": "assistant", "content": str(row["completion"])})
        return [*head, *shown, *messages[len(head) :]]


def pick_examples(rows: Sequence[Row], count: int) -> list[Row]:
    """Short rows whose tags differ: the best that a prompt of bounded length can show."""
    chosen: list[Row] = []
    seen: set[str] = set()
    for row in sorted(rows[:400], key=lambda row: len(str(row["messages"])) + len(str(row["completion"]))):
        tags = {str(tag) for tag in row.get("tags", ())} or {str(len(chosen))}
        if not tags & seen:
            chosen.append(row)
            seen |= tags
        if len(chosen) == count:
            break
    return chosen
