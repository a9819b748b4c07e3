"""A dataset's row: a conversation of three turns, and what a scorer needs beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def conversation(system: str, question: str, answer: str) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]


def question_of(row: Mapping[str, Any]) -> str:
    return str(row["messages"][-2]["content"])


def answer_of(row: Mapping[str, Any]) -> str:
    return str(row["messages"][-1]["content"])


def questions_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Of every turn: a row to train on may have several questions."""
    return tuple(str(message["content"]) for message in row["messages"] if message["role"] == "user")


def answers_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(message["content"]) for message in row["messages"] if message["role"] == "assistant")
