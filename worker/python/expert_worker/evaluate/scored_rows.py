"""The rows of every test set, read and checked before a model is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from expert_worker import results
from expert_worker.adapter import EXPERT
from expert_worker.errors import BadInput, Missing
from expert_worker.evaluate.decode import scoring
from expert_worker.evaluate.guidance import check_grammar
from expert_worker.evaluate.llm_judge import LlmJudge
from expert_worker.evaluate.prompts import rows_to_choose_by
from expert_worker.evaluate.rows import drawn, places_of, rows_of, skipped_rows, spread
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers import BUILT_IN, CLASSIFICATION, ChosenScorer, check_scorer, scorer_of
from expert_worker.evaluate.scorers.classification import Labels
from expert_worker.evaluate.scorers.sort_order import BY_STORAGE
from expert_worker.evaluate.verdict import Row, Verdict
from expert_worker.events import Events
from expert_worker.plan import EvaluateRequest, OtherRows, Plan, Samples, Source
from expert_worker.pretokenize.broken_rows import BrokenRows, left_out
from expert_worker.pretokenize.plan_digest import plan_digest
from expert_worker.pretokenize.sources import cached_revision
from expert_worker.pretokenize.system_message import common_system_message
from expert_worker.run_record.asked_with import system_message_for
from expert_worker.run_record.record import scores_as_the_run

T = TypeVar("T")

_TEST_CASE = "test-case"
# Reference answers that an own scorer is tried on before a model is loaded.
TRIED = 8
# The check of references is shown as a stage where it takes longer.
_UNSEEN_SECONDS = 2.0
_SHOWN_ROWS = 5
_RIGHT_AS_WRONG = (
    "Right answers to these rows may count as wrong: order what they return, or what a limit chooses from."
)


@dataclass(frozen=True)
class ScoredRows:
    main: list[Row]
    """The test set, and after it the manifest's own cases."""
    further: dict[str, list[Row]]
    """By the names of further test sets."""
    whole: dict[str, int] = field(default_factory=dict)
    """How many rows each set has, scored or not; the main one has no name."""
    files: dict[str, tuple[results.TestFile, ...]] = field(default_factory=dict)
    """Those of each set as they were when its rows were read: they may be edited before these have scores."""

    @property
    def is_part(self) -> bool:
        return any(len(rows) < self.whole.get(name, 0) for name, rows in self.sets())

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
    threads = plan.machine.threads.pretokenize
    read_from = {
        "": files_of(plan.recipe.data.test, plan.machine.paths.data, threads),
        **{name: files_of(chosen.sources, chosen.files, threads) for name, chosen in plan.test_sets.items()},
    }
    main, whole = _main(plan, events)
    further = {name: _further(plan, name, events) for name in sorted(plan.test_sets)}
    found = ScoredRows(
        main,
        {name: rows for name, (rows, _) in further.items()},
        {"": whole, **{name: count for name, (_, count) in further.items()}},
        read_from,
    )
    scorer = scorer_of(plan)
    for name, rows in found.sets():
        check_on_references(scorer, rows, events, name, partial(_places, plan, name))
    if scorer.judge is not None and events is not None:
        _announce_cost(scorer.judge, plan, found, events)
    return found


def _main(plan: Plan, events: Events | None) -> tuple[list[Row], int]:
    """The rows of the test set and the manifest's own cases, with how many there are."""
    sources = plan.recipe.data.test
    rows, whole = _read(plan, sources, plan.machine.paths.data, events)
    if sources and not rows:
        raise BadInput(
            f"The test set has no rows: {', '.join(source.name for source in sources)}",
            hint="Write rows into it, or remove training.dataset.test_path.",
            code="no-test-set",
        )
    cases = _cases(plan)
    if not rows and not cases:
        raise BadInput(
            "There is nothing to evaluate on: the manifest names no test set and no test cases",
            hint="Set training.dataset.test_path, or evaluation.test_cases.",
            code="no-test-set",
        )
    return [*rows, *cases], whole + len(cases)


def _cases(plan: Plan) -> list[Row]:
    """The manifest's own questions; not beside another file, which is scored alone."""
    if other_rows(plan) == "file":
        return []
    cases = plan.recipe.evaluation.test_cases
    system = _system_message(plan) if cases else None
    before = [] if system is None else [{"role": "system", "content": system}]
    return [
        {
            "messages": [*before, {"role": "user", "content": case.prompt}],
            "completion": case.expected,
            "tags": [_TEST_CASE],
        }
        for case in cases
    ]


def _system_message(plan: Plan) -> str | None:
    """That of the adapter, for questions to the base too; in training that of the rows."""
    data, places = plan.recipe.data, plan.machine.paths.data
    if isinstance(plan.request, EvaluateRequest) and plan.request.adapter is not None:
        return system_message_for(Path(plan.request.adapter), data, places)
    return common_system_message(data, places)


def _further(plan: Plan, name: str, events: Events | None) -> tuple[list[Row], int]:
    chosen = plan.test_sets[name]
    rows, whole = _read(plan, chosen.sources, chosen.files, events, name)
    if not rows:
        raise BadInput(
            f"The test set {name} has no rows: {', '.join(source.name for source in chosen.sources)}",
            hint=f"Write rows into it, or remove evaluation.test_sets.{name}.",
            code="no-test-set",
        )
    return rows, whole


def _places(plan: Plan, test_set: str) -> list[str]:
    """The file and line of each row of a set. Its files are read again."""
    if test_set:
        chosen = plan.test_sets[test_set]
        sources, files = chosen.sources, chosen.files
    else:
        sources, files = plan.recipe.data.test, plan.machine.paths.data
    data = plan.recipe.data
    found = places_of(sources, data.field_mapping, files, broken=skipped_rows(data))
    found = _limited(plan, found)
    cases = [] if test_set else _cases(plan)
    return [*found, *(f"evaluation.test_cases[{place}]" for place in range(len(cases)))]


def _read(
    plan: Plan,
    sources: Sequence[Source],
    places: Mapping[str, str],
    events: Events | None,
    test_set: str = "",
) -> tuple[list[Row], int]:
    """At most `test_set_size` rows, and of how many."""
    data = plan.recipe.data
    broken = skipped_rows(data)
    rows = rows_of(sources, data.field_mapping, places, broken=broken)
    if events is not None:
        of = f" of the test set {test_set}" if test_set else " of the test set"
        if broken is not None and broken.total:
            events.warning("bad-rows-skipped", left_out(broken.problems(), broken.total, of))
        _say_if_fewer(plan, len(rows), of, events)
    return _limited(plan, rows), len(rows)


def _say_if_fewer(plan: Plan, whole: int, of: str, events: Events) -> None:
    """A command, such as one with `--rows`, may ask for more rows than there are."""
    size = plan.recipe.evaluation.test_set_size
    if other_rows(plan) is not None and size is not None and 0 < whole < size:
        message = f"{size:,} rows{of} are asked for and it has {whole:,}: all of them are scored"
        events.warning("fewer-rows", message)


def _limited(plan: Plan, items: list[T]) -> list[T]:
    size = plan.recipe.evaluation.test_set_size
    return items if size is None else drawn(items, size)


def files_of(
    sources: Sequence[Source], places: Mapping[str, str], threads: int | None
) -> tuple[results.TestFile, ...]:
    """With the digests that `expert-cli` compares to learn whether an evaluation is outdated."""
    return tuple(
        results.TestFile(
            name=source.name, sha256=plan_digest(source, places, threads), **_revision_of(source)
        )
        for source in sources
    )


def _revision_of(source: Source) -> dict[str, str]:
    commit = cached_revision(source) if source.format == "huggingface" else None
    return {} if commit is None else {"revision": commit}


def other_rows(plan: Plan) -> OtherRows | None:
    """What a command put in place of the manifest's test rows."""
    return plan.request.other_rows if isinstance(plan.request, EvaluateRequest) else None


def replaced_rows(plan: Plan, rows: ScoredRows) -> OtherRows | None:
    """The same, except where a limit is as large as the test set, or `--set` gives what the run was given."""
    other = other_rows(plan)
    is_same = (other == "few" and not rows.is_part) or (other == "settings" and scores_as_the_run(plan))
    return None if is_same else other


def rows_beside(plan: Plan, sources: Sequence[Source], limit: int | None = None) -> list[Row]:
    """Of the training and validation data, by which a base's prompt is chosen and labels are found. A package
    holds no data: of an installed expert, and beside rows of --data, files may be absent and count as no
    rows."""
    mapping, places, found = plan.recipe.data.field_mapping, plan.machine.paths.data, list[Row]()
    for source in sources:
        more = None if limit is None else limit - len(found)
        try:
            found += rows_of([source], mapping, places, more, broken=BrokenRows())
        except (BadInput, Missing) as error:
            if error.code != "data-missing" or not may_lack_data(plan):
                raise
    return found


def may_lack_data(plan: Plan) -> bool:
    return other_rows(plan) == "file" or (Path(plan.machine.paths.expert_dir) / EXPERT).is_file()


def samples_of(plan: Plan) -> Samples | None:
    return plan.request.samples if isinstance(plan.request, EvaluateRequest) else None


def _announce_cost(judge: LlmJudge, plan: Plan, rows: ScoredRows, events: Events) -> None:
    """What the calls to the judge will cost, before anything is computed."""
    validation = rows_beside(plan, plan.recipe.data.validation)
    scored = [row for _, each in rows.sets() for row in each]
    samples = samples_of(plan)
    sampled = scored * (samples.per_row if samples else 0)
    # The base's two prompts are compared on validation rows.
    choosing = rows_to_choose_by(validation, len(rows.main)) * 2
    against = plan.request.against if isinstance(plan.request, EvaluateRequest) else None
    third = [*scored, *choosing] if against is not None else []
    asked = [*scored, *scored, *choosing, *third, *sampled]
    sent, received = judge.cost(asked, scoring(plan.recipe).max_new_tokens)
    parts = ["base", "adapter", *(["the compared model"] if third else []), *(["samples"] if samples else [])]
    who = f"{', '.join(parts[:-1])} and {parts[-1]}"
    events.warning(
        "judge-cost",
        f"{judge.model} at {judge.endpoint.url}{_with_key(judge)} will be asked at most "
        f"{len(asked):,} times, for {who}: "
        f"up to about {sent:,} tokens sent and {received:,} received",
        "evaluation.test_set_size limits the rows. The base is not scored again while nothing changes.",
    )


def _with_key(judge: LlmJudge) -> str:
    variable = judge.endpoint.key_variable
    return f" (with the key in {variable})" if variable else ""


def check_on_references(
    scorer: ChosenScorer,
    rows: Sequence[Row],
    events: Events | None,
    test_set: str = "",
    places: Callable[[], Sequence[str]] | None = None,
) -> None:
    """Before a model is loaded: refuses rows whose reference answer a built-in scorer does not take as right,
    and tries the expert's own function on a few of them. `test_set` is the name of a further one, `places`
    gives the file and line of each row.
    """
    where = f" of the test set {test_set}" if test_set else ""
    if scorer.name == CLASSIFICATION:
        _check_labels(scorer, rows, where, places)
    if scorer.name in BUILT_IN:
        _check_references(scorer, rows, events, where, places)
    if scorer.is_own:
        _try_own(scorer, rows, events, where)


def _check_references(
    scorer: ChosenScorer,
    rows: Sequence[Row],
    events: Events | None,
    where: str,
    places: Callable[[], Sequence[str]] | None,
) -> None:
    """Takes 5 to 12 ms for a row of `cypher` and 2 to 5 ms for one of `sql`, and less for the others."""
    began, done, is_shown = time.monotonic(), 0, False

    def judged() -> None:
        nonlocal done, is_shown
        done += 1
        if events is None or time.monotonic() - began < _UNSEEN_SECONDS:
            return
        if not is_shown:
            events.stage("evaluate", detail=f"reference answers{where}")
            is_shown = True
        events.advance("evaluate", done, len(rows), unit="answers")

    verdicts = judge_all(scorer, rows, [None] * len(rows), each=judged)
    unusable = [place for place, verdict in enumerate(verdicts) if not verdict.correct]
    weak = [place for place, verdict in enumerate(verdicts) if verdict.correct and verdict.reason]
    if not unusable and not (weak and events is not None):
        return
    names = _names(rows, places)
    if not unusable:
        _warn_of_weak(verdicts, weak, names, events, where)
        return
    reasons = [(names[place], verdicts[place].reason) for place in unusable]
    raise BadInput(
        f"{len(unusable)} of {len(rows)} reference answers{where} cannot be right by the scorer "
        f"{scorer.name}: {_listed(reasons)}",
        hint="Correct these rows, or choose another evaluation.scorer: every model would score 0 on them.",
        code="bad-reference",
    )


def _warn_of_weak(
    verdicts: Sequence[Verdict], weak: Sequence[int], names: Sequence[str], events: Events | None, where: str
) -> None:
    """A reason beside a right reference says why its verdicts on answers may be wrong."""
    if events is None:
        return
    for reason in dict.fromkeys(verdicts[place].reason for place in weak):
        found = [place for place in weak if verdicts[place].reason == reason]
        listed = ", ".join(names[place] for place in found[:_SHOWN_ROWS])
        more = len(found) - _SHOWN_ROWS
        events.warning(
            "weak-references",
            f"{len(found)} of {len(verdicts)} reference answers{where} {reason}: "
            f"{listed}{f' and {more} more' if more > 0 else ''}",
            _RIGHT_AS_WRONG if reason == BY_STORAGE else "Wrong answers to these rows may count as right.",
        )


def _try_own(scorer: ChosenScorer, rows: Sequence[Row], events: Events | None, where: str) -> None:
    tried = spread(rows, TRIED)
    verdicts = judge_all(scorer, tried, [str(row["completion"]) for row in tried])
    broken = next((verdict for verdict in verdicts if verdict.failed), None)
    if broken is not None:
        raise BadInput(
            f"The scorer fails on a reference answer{where}: {broken.reason}",
            hint="Correct the function: it gets (answer, expected, row).",
            code="scorer-failed",
        )
    zero = [verdict for verdict in verdicts if verdict.score == 0]
    if events is not None and zero:
        events.warning(
            "references-score-zero",
            f"The scorer gives 0 to {len(zero)} of the {len(verdicts)} reference answers{where} that it was "
            f"tried on: {zero[0].reason}",
            "A right answer should score 1. The function gets (answer, expected, row), in this order.",
        )


def _check_labels(
    scorer: ChosenScorer, rows: Sequence[Row], where: str, places: Callable[[], Sequence[str]] | None
) -> None:
    labels = Labels(scorer.settings["labels"])
    answers = [str(row["completion"]) for row in rows]
    unknown = [place for place, row in enumerate(rows) if labels.wanted(row) is None]
    if not unknown:
        return
    names = _names(rows, places)
    wrong = _listed([(names[place], repr(answers[place][:80])) for place in unknown])
    raise BadInput(
        f"{len(unknown)} of {len(rows)} reference answers{where} are none of the labels "
        f"{', '.join(labels.labels[:10])}: {wrong}",
        hint="Name every label in evaluation.scorer.classification.labels, or leave labels out.",
        code="scorer-labels",
    )


def _names(rows: Sequence[Row], places: Callable[[], Sequence[str]] | None) -> Sequence[str]:
    return places() if places is not None else [f"scored row {place + 1}" for place in range(len(rows))]


def _listed(found: Sequence[tuple[str, str]]) -> str:
    """The first rows by their names, each with what is wrong with it, and how many more there are."""
    more = len(found) - _SHOWN_ROWS
    shown = "; ".join(f"{name}: {reason}" for name, reason in found[:_SHOWN_ROWS])
    return f"{shown}; and {more} more" if more > 0 else shown
