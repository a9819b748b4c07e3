"""How often something is done in a run: every so many steps, at the end of epochs, and always at the last
step."""

from __future__ import annotations

from dataclasses import dataclass

from expert_worker.plan import Evaluation, Saving


@dataclass(frozen=True)
class Rhythm:
    """`every` is None where it is never done, and 0 where it is done at the last step alone."""

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
        """Whether it is time once `step` steps are done."""
        if self.every is None:
            return False
        return step == self.total_steps or bool(self.every and step % self.every == 0)

    def left(self, step: int) -> int:
        """How often it will still be done after `step` steps."""
        if self.every is None or step >= self.total_steps:
            return 0
        if not self.every:
            return 1
        at_the_end = self.total_steps % self.every != 0
        return self.total_steps // self.every - step // self.every + int(at_the_end)
