"""`expert-cli evaluate`: scores base and adapter on the same rows with a real parser or engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from expert_worker import results
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.errors import BadInput
from expert_worker.evaluate import scores
from expert_worker.evaluate.classes import class_scores
from expert_worker.evaluate.decode import answer_all
from expert_worker.evaluate.examiner import Examiner, Scored
from expert_worker.evaluate.llm_judge import LlmJudge
from expert_worker.evaluate.prompts import PromptMaker, rows_to_choose_by
from expert_worker.evaluate.rows import rows_of, spread
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers import (
    CLASSIFICATION,
    ChosenScorer,
    check_scorer,
    scorer_of,
)
from expert_worker.evaluate.scorers.classification import Labels
from expert_worker.evaluate.subject import Subject, open_subject, template_of
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.events.models import ACCURACY
from expert_worker.plan import EvaluateRequest, Plan, Recipe
from expert_worker.pretokenize.sources import source_digest
from expert_worker.report import refresh
from expert_worker.results import Answer, Classes, EvaluationResult, Score
from expert_worker.run_record import final
from expert_worker.run_record.card import add_scores
from expert_worker.run_record.expert import add_score

_TEST_CASE = "test-case"
# Reference answers that an own scorer is tried on before a model is loaded.
TRIED = 8


def run(plan: Plan, events: Events) -> JsonValue:
    adapter = plan.request.adapter if isinstance(plan.request, EvaluateRequest) else None
    return evaluate(plan, events, adapter).as_json()


def evaluate(plan: Plan, events: Events, adapter: str | None) -> EvaluationResult:
    """Scores the base, and the adapter if any; leaves `evaluation.json` beside a run's other files."""
    rows = scored_rows(plan, events)
    return examine(plan, events, rows, open_subject(plan, adapter, events), adapter)


def examine(
    plan: Plan, events: Events, rows: Sequence[Row], subject: Subject, adapter: str | None
) -> EvaluationResult:
    started = time.monotonic()
    examiner = Examiner(plan, events, subject)
    base = examiner.base(rows)
    tuned = examiner.adapter(rows) if subject.has_adapter else None
    seconds = time.monotonic() - started
    _warn_of_unscored(base, tuned, events)
    files = files_of(plan, rows)
    report = _report(plan.recipe.expert, examiner, rows, files, base, tuned, adapter, seconds)
    _send_events(events, report, seconds)
    _leave(Path(plan.machine.paths.output), report, events)
    return report


def scored_rows(plan: Plan, events: Events | None = None) -> list[Row]:
    """The test set, or the manifest's own cases; refuses before a model is loaded what cannot be scored."""
    chosen, data = plan.recipe.evaluation, plan.recipe.data
    if chosen.scorer is not None:
        check_scorer(chosen.scorer)
    rows = rows_of(data.test, data.field_mapping, plan.machine.paths.data, chosen.test_set_size)
    cases: list[Row] = [
        {
            "messages": [{"role": "user", "content": case.prompt}],
            "completion": case.expected,
            "tags": [_TEST_CASE],
        }
        for case in chosen.test_cases
    ]
    if not rows and not cases:
        raise BadInput(
            "There is nothing to evaluate on: the manifest names no test set and no test cases",
            hint="Set training.dataset.test_path, or evaluation.test_cases.",
            code="no-test-set",
        )
    scorer = scorer_of(plan)
    check_on_references(scorer, rows or cases, events)
    if scorer.judge is not None and events is not None:
        _announce_cost(scorer.judge, plan, rows or cases, events)
    return rows or cases


def files_of(plan: Plan, rows: Sequence[Row]) -> tuple[results.TestFile, ...]:
    """Where the rows come from; nothing where they are the manifest's own cases."""
    if all(row.get("tags") == [_TEST_CASE] for row in rows):
        return ()
    places, threads = plan.machine.paths.data, plan.machine.threads.pretokenize
    return tuple(
        results.TestFile(name=source.name, sha256=source_digest(source, places, threads))
        for source in plan.recipe.data.test
    )


def _announce_cost(judge: LlmJudge, plan: Plan, rows: Sequence[Row], events: Events) -> None:
    """What the calls to the judge will cost, before anything is computed."""
    data = plan.recipe.data
    validation = rows_of(data.validation, data.field_mapping, plan.machine.paths.data)
    # The base's two prompts are compared on validation rows.
    asked = [*rows, *rows, *rows_to_choose_by(validation, len(rows)) * 2]
    sent, received = judge.cost(asked, plan.recipe.decoding.max_new_tokens)
    events.warning(
        "judge-cost",
        f"{judge.model} at {judge.endpoint.url} will be asked at most {len(asked):,} times, for base and "
        f"adapter: up to about {sent:,} tokens sent and {received:,} received",
        "evaluation.test_set_size limits the rows. The base is not scored again while nothing changes.",
    )


def check_on_references(scorer: ChosenScorer, rows: Sequence[Row], events: Events | None) -> None:
    """Before a model is loaded: tries the expert's own function on a few reference answers, and looks for
    reference answers that are none of the labels.
    """
    if scorer.name == CLASSIFICATION:
        _check_labels(scorer, rows)
    if not scorer.is_own:
        return
    tried = spread(rows, TRIED)
    verdicts = judge_all(scorer, tried, [str(row["completion"]) for row in tried])
    broken = next((verdict for verdict in verdicts if verdict.failed), None)
    if broken is not None:
        raise BadInput(
            f"The scorer fails on a reference answer: {broken.reason}",
            hint="Correct the function: it gets (answer, expected, row).",
            code="scorer-failed",
        )
    if events is not None and all(verdict.score == 0 for verdict in verdicts):
        events.warning(
            "references-score-zero",
            f"The scorer gives 0 to each of the {len(verdicts)} reference answers that it was tried on: "
            f"{verdicts[0].reason}",
            "A right answer should score 1. The function gets (answer, expected, row), in this order.",
        )


def score_checkpoint(
    model: Any,
    tokenizer: Any,
    recipe: Recipe,
    scorer: ChosenScorer,
    rows: Sequence[Row],
    events: Events,
) -> dict[str, float]:
    """What a checkpoint scores by generation, for `metric_for_best_model`. `rows` come from `rows_of`."""
    maker = PromptMaker(tokenizer, template_of(recipe.template, tokenizer), events=events)
    texts = answer_all(model, tokenizer, maker.prompts(rows), recipe.decoding, seed=recipe.seed)
    found = scores.overall(scores.judge_texts(scorer, rows, texts))
    return {ACCURACY: found.accuracy, "accuracy_low": found.low, "accuracy_high": found.high}


def _report(
    expert: str,
    examiner: Examiner,
    rows: Sequence[Row],
    test_files: tuple[results.TestFile, ...],
    base: Scored,
    tuned: Scored | None,
    adapter: str | None,
    seconds: float,
) -> EvaluationResult:
    tuned_answers = tuned.judged if tuned else None
    confinement = examiner.confinement
    return EvaluationResult(
        expert=expert,
        scorer=examiner.scorer.title,
        scorer_sha256=examiner.scorer.sha256,
        measure=scores.measure(examiner.scorer, base.judged, tuned_answers),
        rows=len(rows),
        test_set=test_files,
        base=_score(base, prompt=base.prompt),
        adapter=_score(tuned, path=adapter) if tuned else None,
        comparison=scores.compared(base.judged, tuned_answers),
        classes=_classes(examiner.scorer, rows, base.judged, tuned_answers),
        by_level=tuple(scores.table(rows, scores.by_level, base.judged, tuned_answers)),
        by_tag=tuple(scores.table(rows, scores.by_tag, base.judged, tuned_answers)),
        gains=tuple(scores.gains(rows, base.judged, tuned_answers)),
        failures=tuple(scores.failures(rows, base.judged, tuned_answers)),
        confinement=results.Confinement(**asdict(confinement)) if confinement else None,
        seconds=seconds,
    )


def _classes(
    scorer: ChosenScorer, rows: Sequence[Row], base: Sequence[Answer], adapter: Sequence[Answer] | None
) -> Classes | None:
    if scorer.name != CLASSIFICATION:
        return None
    return class_scores(scorer.settings["labels"], rows, base, adapter)


def _check_labels(scorer: ChosenScorer, rows: Sequence[Row]) -> None:
    labels = Labels(scorer.settings["labels"])
    for place, row in enumerate(rows, 1):
        if labels.exactly(str(row["completion"])) is None:
            raise BadInput(
                f"The reference answer of scored row {place}, {str(row['completion'])[:80]!r}, is none of "
                f"the labels {', '.join(labels.labels[:10])}",
                hint="Name every label in evaluation.scorer.classification.labels, or leave labels out.",
                code="scorer-labels",
            )


def _score(scored: Scored, **given: Any) -> Score:
    share = dict(scores.overall(scored.judged))
    return Score(**share, loss=scored.loss, unscored=scores.unscored(scored.judged), **given)


def without_examples(report: EvaluationResult) -> EvaluationResult:
    """For results and events: only `evaluation.json` quotes answers."""
    return EvaluationResult(**{name: value for name, value in report if name not in ("gains", "failures")})


def _warn_of_unscored(base: Scored, tuned: Scored | None, events: Events) -> None:
    answers = [*base.judged, *(tuned.judged if tuned else ())]
    failed = [answer for answer in answers if answer.unscored]
    if failed:
        events.warning(
            "answers-not-scored",
            f"The scorer failed on {len(failed)} of {len(answers)} answers, which count as 0; the first: "
            f"{failed[0].reason}",
            "Make the function return a score for every answer, however odd.",
        )


def _send_events(events: Events, report: EvaluationResult, seconds: float) -> None:
    metrics: dict[str, float] = {}
    for who, score in (("base", report.base), ("adapter", report.adapter)):
        if score is not None:
            measured = {"accuracy": score.accuracy, "low": score.low, "high": score.high, "loss": score.loss}
            metrics |= {f"{who}_{name}": value for name, value in measured.items() if value is not None}
    events.evaluated(0, metrics, seconds)


def _leave(output: Path, report: EvaluationResult, events: Events) -> None:
    """Only where a run is: evaluating must not make a folder look used."""
    adapter = report.adapter.path if report.adapter else None
    if not (output / "plan.json").is_file() and not (output / "run.json").is_file():
        return
    with refusals_in_words(output, "write evaluation.json", int, lambda: []):
        files.replace_json(output / "evaluation.json", report.as_json())
        if adapter is not None and Path(adapter).resolve() == (output / final.NAME).resolve():
            add_scores(output / final.NAME, report)
            add_score(output / final.NAME, report)
    if (output / "events.jsonl").is_file():
        refresh(output, events)
