"""The rows of every test set, read and checked before a model is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from expert_worker import results
from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.evaluate.guidance import check_grammar
from expert_worker.evaluate.llm_judge import LlmJudge
from expert_worker.evaluate.prompts import rows_to_choose_by
from expert_worker.evaluate.rows import rows_of, spread
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers import CLASSIFICATION, ChosenScorer, check_scorer, scorer_of
from expert_worker.evaluate.scorers.classification import Labels
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.plan import EvaluateRequest, Plan, Samples, Source, TestSet
from expert_worker.pretokenize.sources import source_digest

_TEST_CASE = "test-case"
# Reference answers that an own scorer is tried on before a model is loaded.
TRIED = 8


@dataclass(frozen=True)
class ScoredRows:
    main: list[Row]
    """The test set, or the manifest's own cases."""
    further: dict[str, list[Row]]
    """By the names of further test sets."""

    def sets(self) -> Iterator[tuple[str, list[Row]]]:
        """Every set by its name; the main one has none."""
        yield "", self.main
        yield from self.further.items()


def scored_rows(plan: Plan, events: Events | None = None) -> ScoredRows:
    """Refuses before a model is loaded what cannot be scored."""
    chosen = plan.recipe.evaluation
    if chosen.scorer is not None:
        check_scorer(chosen.scorer)
    check_grammar(plan.recipe.decoding.grammar)
    found = ScoredRows(_main(plan), {name: _further(plan, name) for name in sorted(plan.test_sets)})
    scorer = scorer_of(plan)
    for name, rows in found.sets():
        check_on_references(scorer, rows, events, name)
    if scorer.judge is not None and events is not None:
        _announce_cost(scorer.judge, plan, found, events)
    return found


def _main(plan: Plan) -> list[Row]:
    chosen, data = plan.recipe.evaluation, plan.recipe.data
    rows = _read(plan, data.test, plan.machine.paths.data)
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
    return rows or cases


def _further(plan: Plan, name: str) -> list[Row]:
    chosen = plan.test_sets[name]
    rows = _read(plan, chosen.sources, chosen.files)
    if not rows:
        raise BadInput(
            f"The test set {name} has no rows: {', '.join(source.name for source in chosen.sources)}",
            hint=f"Write rows into it, or remove evaluation.test_sets.{name}.",
            code="no-test-set",
        )
    return rows


def _read(plan: Plan, sources: Sequence[Source], places: Mapping[str, str]) -> list[Row]:
    """At most `test_set_size` rows, drawn evenly."""
    rows = rows_of(sources, plan.recipe.data.field_mapping, places)
    size = plan.recipe.evaluation.test_set_size
    return rows if size is None else spread(rows, size)


def files_of(plan: Plan, rows: Sequence[Row]) -> tuple[results.TestFile, ...]:
    """Where the main rows come from; nothing where they are the manifest's own cases."""
    if all(row.get("tags") == [_TEST_CASE] for row in rows):
        return ()
    places, threads = plan.machine.paths.data, plan.machine.threads.pretokenize
    return tuple(
        results.TestFile(name=source.name, sha256=source_digest(source, places, threads))
        for source in plan.recipe.data.test
    )


def files_of_set(chosen: TestSet, threads: int | None) -> tuple[results.TestFile, ...]:
    """With the digests that `expert-cli` compares to learn whether an evaluation is outdated."""
    return tuple(
        results.TestFile(name=source.name, sha256=_plain_digest(source, chosen.files, threads))
        for source in chosen.sources
    )


def _plain_digest(source: Source, places: Mapping[str, str], threads: int | None) -> str:
    if source.name not in places:
        return source_digest(source, places, threads)
    path = Path(places[source.name])
    if path.is_file():
        return files.sha256(path)
    inside = [file for file in path.rglob("*") if file.is_file() and not file.name.startswith(".")]
    lines = (f"{files.sha256(file)}  {file.name}\n" for file in sorted(inside))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def samples_of(plan: Plan) -> Samples | None:
    return plan.request.samples if isinstance(plan.request, EvaluateRequest) else None


def _announce_cost(judge: LlmJudge, plan: Plan, rows: ScoredRows, events: Events) -> None:
    """What the calls to the judge will cost, before anything is computed."""
    data = plan.recipe.data
    validation = rows_of(data.validation, data.field_mapping, plan.machine.paths.data, skip_bad=True)
    scored = [row for _, each in rows.sets() for row in each]
    samples = samples_of(plan)
    sampled = scored * (samples.per_row if samples else 0)
    # The base's two prompts are compared on validation rows.
    choosing = rows_to_choose_by(validation, len(rows.main)) * 2
    against = plan.request.against if isinstance(plan.request, EvaluateRequest) else None
    third = [*scored, *choosing] if against is not None else []
    asked = [*scored, *scored, *choosing, *third, *sampled]
    sent, received = judge.cost(asked, plan.recipe.decoding.max_new_tokens)
    parts = ["base", "adapter", *(["the compared model"] if third else []), *(["samples"] if samples else [])]
    who = f"{', '.join(parts[:-1])} and {parts[-1]}"
    events.warning(
        "judge-cost",
        f"{judge.model} at {judge.endpoint.url} will be asked at most {len(asked):,} times, for {who}: "
        f"up to about {sent:,} tokens sent and {received:,} received",
        "evaluation.test_set_size limits the rows. The base is not scored again while nothing changes.",
    )


def check_on_references(
    scorer: ChosenScorer, rows: Sequence[Row], events: Events | None, test_set: str = ""
) -> None:
    """Before a model is loaded: tries the expert's own function on a few reference answers, and looks for
    reference answers that are none of the labels. `test_set` is the name of a further one.
    """
    where = f" of the test set {test_set}" if test_set else ""
    if scorer.name == CLASSIFICATION:
        _check_labels(scorer, rows, where)
    if not scorer.is_own:
        return
    tried = spread(rows, TRIED)
    verdicts = judge_all(scorer, tried, [str(row["completion"]) for row in tried])
    broken = next((verdict for verdict in verdicts if verdict.failed), None)
    if broken is not None:
        raise BadInput(
            f"The scorer fails on a reference answer{where}: {broken.reason}",
            hint="Correct the function: it gets (answer, expected, row).",
            code="scorer-failed",
        )
    if events is not None and all(verdict.score == 0 for verdict in verdicts):
        events.warning(
            "references-score-zero",
            f"The scorer gives 0 to each of the {len(verdicts)} reference answers{where} that it was tried "
            f"on: {verdicts[0].reason}",
            "A right answer should score 1. The function gets (answer, expected, row), in this order.",
        )


def _check_labels(scorer: ChosenScorer, rows: Sequence[Row], where: str) -> None:
    labels = Labels(scorer.settings["labels"])
    for place, row in enumerate(rows, 1):
        answer = str(row["completion"])
        if labels.exactly(answer) is None:
            raise BadInput(
                f"The reference answer of scored row {place}{where}, {answer[:80]!r}, is none of "
                f"the labels {', '.join(labels.labels[:10])}",
                hint="Name every label in evaluation.scorer.classification.labels, or leave labels out.",
                code="scorer-labels",
            )
