"""The base's best prompt: with or without three examples, whichever scores higher on validation
rows.
Beating a badly prompted base would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from expert_worker.evaluate.prompts import PromptMaker, pick_examples
from expert_worker.evaluate.rows import spread
from expert_worker.evaluate.stats import Share
from expert_worker.evaluate.verdict import Row

SHOTS = 3
MOST = 64
FEWEST = 16

Measure = Callable[[PromptMaker, Sequence[Row]], Share]


def rows_to_choose_by(validation: Sequence[Row], test_rows: int) -> list[Row]:
    """Spread over the validation set, about a quarter of what is tested, so that a quick look stays quick."""
    return spread(validation, min(MOST, max(FEWEST, test_rows // 4)))


def choose(
    maker: PromptMaker, train: Sequence[Row], validation: Sequence[Row], measure: Measure
) -> tuple[PromptMaker, dict[str, Any]]:
    """The better prompt, and what was measured. Without validation rows there is nothing to choose by."""
    examples = pick_examples(train, SHOTS)
    if not examples or not validation:
        return maker, {"shots": 0, "tried": {}}
    shown = maker.showing(examples)
    plain, few = measure(maker, validation), measure(shown, validation)
    better = few["accuracy"] > plain["accuracy"]
    tried = {"0": plain, str(SHOTS): few}
    return (shown if better else maker), {"shots": SHOTS if better else 0, "tried": tried}
