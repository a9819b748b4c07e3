"""A dataset's row: a conversation of three turns, and what a scorer needs beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Messages = list[dict[str, str]]
Fits = Callable[[Messages], bool]
"""Whether a conversation is short enough for a row."""


def conversation(system: str, question: str, answer: str) -> Messages:
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]


def question_of(row: Mapping[str, Any]) -> str:
    return str(row["messages"][-2]["content"])


def answer_of(row: Mapping[str, Any]) -> str:
    return str(row["messages"][-1]["content"])


def answered(rows: Iterable[dict[str, Any]], is_wanted: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
    """Rows with a wanted answer, such as one that belongs to their split."""
    return (row for row in rows if is_wanted(answer_of(row)))


def questions_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Of every turn: a row to train on may have several questions."""
    return tuple(str(message["content"]) for message in row["messages"] if message["role"] == "user")


def answers_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(message["content"]) for message in row["messages"] if message["role"] == "assistant")


def within_characters(most: int) -> Fits:
    """For rows whose base model is not known yet."""
    return lambda messages: sum(len(message["content"]) for message in messages) <= most


def within_tokens(most: int) -> Fits:
    """Of the embedded base, with its chat template."""
    from expert_worker.base.embedded import embedded_tokenizer

    tokenizer = embedded_tokenizer()
    return lambda messages: len(tokenizer.apply_chat_template(messages, return_dict=False)) <= most
