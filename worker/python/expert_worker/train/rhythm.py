"""An interval in a run: every n steps, at the end of epochs, and always at the last
step."""

from __future__ import annotations

from dataclasses import dataclass

from expert_worker.plan import Evaluation, Saving


@dataclass(frozen=True)
class Rhythm:
    """`every` is None for never, and 0 for the last step only."""

    every: int | None
    total_steps: int

    @classmethod
    def of(cls, chosen: Evaluation | Saving, steps_per_epoch: int, total_steps: int) -> Rhythm:
        match chosen.strategy:
            case "no":
                return cls(None, total_steps)
            case "epoch":
                return cls(steps_per_epoch, total_steps)
            case _:
                return cls(int(chosen.steps or 0), total_steps)

    def due(self, step: int) -> bool:
        """Whether it is due after `step` steps."""
        if self.every is None:
            return False
        return step == self.total_steps or bool(self.every and step % self.every == 0)

    def left(self, step: int) -> int:
        """The number of remaining times after `step` steps."""
        if self.every is None or step >= self.total_steps:
            return 0
        if not self.every:
            return 1
        at_the_end = self.total_steps % self.every != 0
        return self.total_steps // self.every - step // self.every + int(at_the_end)
