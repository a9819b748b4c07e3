"""`expert-cli evaluate`: scores base and adapter on the same rows with a real parser or engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.errors import BadInput
from expert_worker.evaluate import scores
from expert_worker.evaluate.decode import answer_all
from expert_worker.evaluate.examiner import Examiner
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.rows import rows_of
from expert_worker.evaluate.scorers import check_scorer
from expert_worker.evaluate.scores import Judged
from expert_worker.evaluate.subject import Subject, open_subject, template_of
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.plan import EvaluateRequest, Plan
from expert_worker.report import refresh


def run(plan: Plan, events: Events) -> JsonValue:
    adapter = plan.request.adapter if isinstance(plan.request, EvaluateRequest) else None
    return evaluate(plan, events, adapter)


def evaluate(plan: Plan, events: Events, adapter: str | None) -> JsonValue:
    """Scores the base, and the adapter if any; leaves `evaluation.json` beside a run's other files."""
    rows = scored_rows(plan)
    return examine(plan, events, rows, open_subject(plan, adapter, events), adapter)


def examine(
    plan: Plan, events: Events, rows: Sequence[Row], subject: Subject, adapter: str | None
) -> JsonValue:
    started = time.monotonic()
    examiner = Examiner(plan, events, subject)
    base = examiner.base(rows)
    tuned = examiner.adapter(rows) if subject.has_adapter else None
    report = _report(plan, rows, base, tuned, adapter)
    report["confinement"] = examiner.confinement.document() if examiner.confinement else None
    report["seconds"] = time.monotonic() - started
    _send_events(events, report, report["seconds"])
    _leave(plan, report, events)
    return cast(JsonValue, report)


def scored_rows(plan: Plan) -> list[Row]:
    """The test set, or the manifest's own cases; refuses before a model is loaded what cannot be scored."""
    chosen = plan.recipe.evaluation
    if chosen.scorer is not None:
        check_scorer(chosen.scorer)
    rows = rows_of(plan, plan.recipe.data.test, chosen.test_set_size)
    cases: list[Row] = [
        {
            "messages": [{"role": "user", "content": case.prompt}],
            "completion": case.expected,
            "tags": ["test-case"],
        }
        for case in chosen.test_cases
    ]
    if not rows and not cases:
        raise BadInput(
            "There is nothing to evaluate on: the manifest names no test set and no test cases",
            hint="Set training.dataset.test_path, or evaluation.test_cases.",
            code="no-test-set",
        )
    return rows or cases


def score_checkpoint(
    model: Any, tokenizer: Any, plan: Plan, rows: Sequence[Row], events: Events
) -> dict[str, float]:
    """What a checkpoint scores by generation, for `metric_for_best_model`. `rows` come from `rows_of`."""
    maker = PromptMaker(tokenizer, template_of(plan, tokenizer), events=events)
    texts = answer_all(model, tokenizer, maker.prompts(rows), plan.recipe.decoding, seed=plan.recipe.seed)
    found = scores.overall(scores.judge_texts(plan.recipe.evaluation.scorer or "exact", rows, texts))
    return {"accuracy": found["accuracy"], "accuracy_low": found["low"], "accuracy_high": found["high"]}


def _report(
    plan: Plan, rows: Sequence[Row], base: dict[str, Any], tuned: dict[str, Any] | None, adapter: str | None
) -> dict[str, Any]:
    answers: list[Judged] = base["judged"]
    tuned_answers: list[Judged] | None = tuned["judged"] if tuned else None
    return {
        "expert": plan.recipe.expert,
        "scorer": plan.recipe.evaluation.scorer or "exact",
        "rows": len(rows),
        "base": {**scores.overall(answers), "loss": base["loss"], "prompt": base["prompt"]},
        "adapter": {**scores.overall(tuned_answers), "loss": tuned["loss"], "path": adapter}
        if tuned and tuned_answers is not None
        else None,
        "by_level": scores.table(rows, scores.by_level, answers, tuned_answers),
        "by_tag": scores.table(rows, scores.by_tag, answers, tuned_answers),
        "gains": scores.gains(rows, answers, tuned_answers),
        "failures": scores.failures(rows, answers, tuned_answers),
    }


def _send_events(events: Events, report: dict[str, Any], seconds: float) -> None:
    metrics = {f"base_{key}": report["base"][key] for key in ("accuracy", "low", "high", "loss")}
    if report["adapter"]:
        metrics |= {f"adapter_{key}": report["adapter"][key] for key in ("accuracy", "low", "high", "loss")}
    events.evaluated(0, metrics, seconds)


def _leave(plan: Plan, report: dict[str, Any], events: Events) -> None:
    """Only where a run is: evaluating must not make a folder look used."""
    output = Path(plan.machine.paths.output)
    if not (output / "plan.json").is_file() and not (output / "run.json").is_file():
        return
    with refusals_in_words(output, "write evaluation.json", int, lambda: []):
        files.replace_json(output / "evaluation.json", files.finite(report))
    if (output / "events.jsonl").is_file():
        refresh(output, events)
