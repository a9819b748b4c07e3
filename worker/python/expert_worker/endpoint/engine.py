"""What the server asks of the program that writes the answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from expert_worker.plan import Grammar

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Sampling:
    """A temperature of 0 is greedy. A top_k of 0, a top_p of 1 and a min_p of 0 leave every token."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None


@dataclass(frozen=True)
class Question:
    # Place in the engine's list of adapters; None is the base alone.
    adapter: int | None
    prompt: Sequence[int]
    most_tokens: int
    sampling: Sampling
    # Token ids and texts that end an answer; none of them is part of it.
    ends: Sequence[int]
    stops: Sequence[str]
    # What the answer conforms to.
    grammar: Grammar | None = None


@dataclass(frozen=True)
class Piece:
    text: str
    # Tokens written so far.
    tokens: int
    finish: Finish | None = None


class EngineFailed(Exception):
    """The engine refused a question or ended; its message is for the log and the client."""


class GrammarRefused(EngineFailed):
    """The engine cannot use the grammar that a request asks for."""


class PromptRefused(EngineFailed):
    """The prompt holds a token that the base has no vector for."""


class Engine(Protocol):
    name: str
    # Tokens of prompt and answer together.
    context: int
    # Answers that it writes at a time.
    parallel: int
    # Answers of different adapters are not computed together: one would wait for all of the other.
    one_adapter_at_a_time: bool

    async def start(self) -> None: ...

    def answer(self, question: Question) -> AsyncGenerator[Piece, None]:
        """The last piece has `finish`. Closing the iterator ends the answer."""
        ...

    @property
    def ready(self) -> bool: ...

    async def stop(self) -> None: ...
