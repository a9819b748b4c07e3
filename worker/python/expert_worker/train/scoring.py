"""Scores answers during and after training with the model in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pydantic import JsonValue

from expert_worker.base import locate
from expert_worker.errors import BadInput
from expert_worker.evaluate import scores
from expert_worker.evaluate.kept import fingerprint
from expert_worker.evaluate.rows import rows_of, spread
from expert_worker.evaluate.scorers import check_scorer
from expert_worker.evaluate.stage import examine, score_checkpoint, scored_rows
from expert_worker.evaluate.subject import Subject, template_of
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.plan import Plan, TrainRequest


def checkpoint_scores(plan: Plan, model: Any, tokenizer: Any) -> Callable[[], dict[str, float]]:
    """The model's scores on validation rows, the same rows for each call."""
    chosen = plan.recipe.evaluation
    if chosen.scorer is not None:
        check_scorer(chosen.scorer)
    rows = rows_of(plan, plan.recipe.data.validation)
    if not rows:
        raise BadInput(
            "The best checkpoint is to be chosen by accuracy, and no file holds validation rows to score",
            hint="Set training.dataset.validation_path, or metric_for_best_model to eval_loss.",
            code="no-validation",
        )
    rows = spread(rows, chosen.rows or len(rows))

    def score() -> dict[str, float]:
        model.eval()
        try:
            return score_checkpoint(model, tokenizer, plan, rows)
        finally:
            model.train()

    return score


def rows_to_score(plan: Plan) -> list[Row] | None:
    """Read before training, so that a test set that cannot be scored is refused early; None without
    --evaluate."""
    asked = isinstance(plan.request, TrainRequest) and plan.request.evaluate
    return scored_rows(plan) if asked else None


def score_trained(
    plan: Plan, events: Events, model: Any, tokenizer: Any, rows: list[Row], adapter: str
) -> JsonValue:
    """Scores base and adapter on the test set; the base is the model with its adapter disabled, `adapter` the
    path of the adapter. The answers are in the run's evaluation.json."""
    mark = fingerprint(locate(plan, events))
    subject = Subject(model.eval(), tokenizer, template_of(plan, tokenizer), has_adapter=True, base_mark=mark)
    report = cast(dict[str, Any], examine(plan, events, rows, subject, adapter))
    return {name: value for name, value in report.items() if name not in scores.EXAMPLES}
