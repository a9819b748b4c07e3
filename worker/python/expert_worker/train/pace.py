"""Throughput: tokens per second, and the remaining time, without evaluations and saves."""

from dataclasses import dataclass


@dataclass
class Pace:
    """The first step includes warm-up, so the figures count from its end."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first_seen: bool = False

    def took(self, tokens: int, seconds: float) -> None:
        if not self.first_seen:
            self.first_seen = True
            return
        self.steps += 1
        self.tokens += tokens
        self.seconds += seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Unknown until a step has followed the first."""
        return self.tokens / self.seconds if self.seconds > 0 else None

    def eta(self, steps_left: int) -> float | None:
        return self.seconds / self.steps * steps_left if self.steps else None
