"""What a run has come to so far. It travels in every checkpoint, so that a resumed run ends with the same
sums."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Totals:
    step: int = 0
    tokens: int = 0
    supervised_tokens: int = 0
    loss_sum: float = 0.0
    loss_tokens: int = 0
    skipped_in_a_row: int = 0
    best_value: float | None = None
    best_step: int | None = None
    evaluations_without_gain: int = 0
    eval_loss: float | None = None
    evaluated: list[list[float]] = field(default_factory=list)
    """Each evaluation's step and value, so that a run can say what its best was the best of."""

    @property
    def train_loss(self) -> float:
        return self.loss_sum / self.loss_tokens if self.loss_tokens else 0.0

    def add(self, loss_sum: float, tokens: int, supervised: int) -> None:
        self.tokens += tokens
        self.supervised_tokens += supervised
        self.loss_sum += loss_sum
        self.loss_tokens += supervised
        self.skipped_in_a_row = 0

    def consider(self, value: float, greater_is_better: bool) -> bool:
        """Whether an evaluation at the current step is the best so far.

        Of equals the later one wins: it has trained longer, and accuracies over few rows are often equal. An
        equal value is not an improvement.
        """
        self.evaluated.append([self.step, value])
        ahead = self.best_value is None or (
            value > self.best_value if greater_is_better else value < self.best_value
        )
        self.evaluations_without_gain = 0 if ahead else self.evaluations_without_gain + 1
        best = ahead or value == self.best_value
        if best:
            self.best_value, self.best_step = value, self.step
        return best

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Totals":
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})
