"""`expert-cli evaluate`: scores base and adapter on the same rows with a real parser or engine."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from expert_worker import results
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import AGAIN, RESUME, refusals_in_words
from expert_worker.errors import Storage
from expert_worker.evaluate import scores
from expert_worker.evaluate.against import Compared, Opponent, adapter_name, against_of
from expert_worker.evaluate.against import check as check_against
from expert_worker.evaluate.classes import class_scores
from expert_worker.evaluate.decode import answer_all, scoring
from expert_worker.evaluate.examiner import ADAPTER, Examiner, Scored, counter
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.rows_at_once import RowsAtOnce
from expert_worker.evaluate.scored_rows import (
    ScoredRows,
    replaced_rows,
    samples_of,
    scored_rows,
)
from expert_worker.evaluate.scorers import CLASSIFICATION, ChosenScorer
from expert_worker.evaluate.subject import Subject, open_subject, template_of
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.events.models import ACCURACY
from expert_worker.plan import EvaluateRequest, OtherRows, Plan, Recipe
from expert_worker.pretokenize.parts import TEST
from expert_worker.report import refresh
from expert_worker.results import (
    Answer,
    Classes,
    EvaluationResult,
    PromptChoice,
    SampledScores,
    Score,
    TestScores,
)
from expert_worker.run_record import final
from expert_worker.run_record.card import add_scores
from expert_worker.run_record.digests import RUN
from expert_worker.run_record.expert import add_score, replace_grammar
from expert_worker.run_record.inference import generation_file, named, sha256
from expert_worker.run_record.record import changed_since, replace_decoding
from expert_worker.run_scores import ANSWERS, SCORES, has_adapters_scores

# Why an adapter keeps the scores that it has.
_OTHER: dict[OtherRows, str] = {
    "file": "of rows of another file",
    "settings": "with other settings (of the manifest, --set or --rows) than those of its scores",
    "few": "of fewer rows",
}


def run(plan: Plan, events: Events) -> JsonValue:
    adapter = plan.request.adapter if isinstance(plan.request, EvaluateRequest) else None
    return evaluate(plan, events, adapter).as_json()


def evaluate(plan: Plan, events: Events, adapter: str | None) -> EvaluationResult:
    """Scores the base, and the adapter if any; leaves `evaluation.json` beside a run's other files."""
    _refuse_unwritable(plan)
    rows = scored_rows(plan, events)
    check_against(plan, events)
    return examine(plan, events, rows, open_subject(plan, adapter, events), adapter)


@dataclass(frozen=True)
class _Examined:
    """Base and adapter on the rows of one test set."""

    rows: Sequence[Row]
    files: tuple[results.TestFile, ...]
    base: Scored | None
    adapter: Scored | None
    samples: SampledScores | None
    against: Compared | None = None

    @property
    def prompt(self) -> PromptChoice | None:
        """The base's."""
        return self.base.prompt if self.base is not None else None

    def sides(self) -> Iterator[tuple[str, Scored]]:
        if self.base is not None:
            yield "base", self.base
        if self.adapter is not None:
            yield "adapter", self.adapter
        if self.against is not None:
            yield "against", self.against.scored


def examine(
    plan: Plan, events: Events, rows: ScoredRows, subject: Subject, adapter: str | None
) -> EvaluationResult:
    started = time.monotonic()
    examiner = Examiner(plan, events, subject)
    # A model to compare with takes the place of this one.
    generation = generation_file(plan.recipe.decoding, subject.model, subject.tokenizer)
    main = _examined(examiner, rows.main, rows.files[""])
    further = {
        name: _examined(examiner, chosen, rows.files[name], name, main.prompt)
        for name, chosen in rows.further.items()
    }
    against, refused = against_of(plan), None
    if against is not None:
        subject.release()
        try:
            opponent = Opponent(plan, against, events)
            main, further = _with_opponent(opponent, main, further)
            examiner.confinement = examiner.confinement or opponent.confinement
        except Exception as error:  # Raised when the other scores are left.
            refused = error
    seconds = time.monotonic() - started
    _warn_of_unscored(examiner.scorer, [main, *further.values()], events)
    other = {
        "other_rows": _other_rows(plan, rows, adapter),
        "other_adapter": _other_adapter(plan, adapter),
    }
    report = _report(plan.recipe.expert, examiner, main, further, adapter, seconds, other)
    _send_events(events, report, seconds)
    if _is_own(plan, adapter) and not subject.is_of(_own_adapter(plan)):
        _warn_of_replaced(events)
    elif adapter is None and has_adapters_scores(Path(plan.machine.paths.output)):
        _warn_of_base_alone(Path(plan.machine.paths.output), events)
    else:
        try:
            _leave(plan, report, {TEST: main, **further}, rows, generation, events)
        except Storage as full:
            # The answers took minutes or hours: what they came to is not lost.
            raise Storage(f"{full.message} {_in_words(report)}", hint=full.hint) from full
    if refused is not None:
        _warn_of_no_comparison(report, events)
        raise refused
    return report


def _examined(
    examiner: Examiner,
    rows: Sequence[Row],
    test_files: tuple[results.TestFile, ...],
    name: str | None = None,
    prompt: PromptChoice | None = None,
) -> _Examined:
    has_adapter = examiner.subject.has_adapter
    alone = has_adapter and examiner.plan.recipe.evaluation.without_base
    base = None if alone else examiner.base(rows, name, prompt)
    adapter = examiner.adapter(rows, name) if has_adapter else None
    found = _Examined(rows, test_files, base, adapter, samples=None)
    asked = samples_of(examiner.plan)
    return replace(found, samples=examiner.samples(asked, rows, found.prompt, name)) if asked else found


def _with_opponent(
    opponent: Opponent, main: _Examined, further: Mapping[str, _Examined]
) -> tuple[_Examined, dict[str, _Examined]]:
    first = opponent.examine(main.rows)
    prompt = first.scored.prompt
    others = {
        name: replace(found, against=opponent.examine(found.rows, name, prompt))
        for name, found in further.items()
    }
    return replace(main, against=first), others


class StopChecks(Protocol):
    """How training leaves an evaluation when it is asked to stop."""

    def asked(self) -> bool:
        """Ends the batch of answers that is being generated."""

    def check(self) -> None:
        """Raises between batches, which all ranks pass the same number of times."""

    def check_alone(self) -> None:
        """Raises where ranks may pass a different number of times."""


def score_checkpoint(
    model: Any,
    tokenizer: Any,
    recipe: Recipe,
    scorer: ChosenScorer,
    rows: Sequence[Row],
    events: Events,
    stop: StopChecks | None = None,
    rows_at_once: RowsAtOnce | None = None,
) -> dict[str, float]:
    """What a checkpoint scores by generation, for `metric_for_best_model`. `rows` come from `rows_of`."""
    maker = PromptMaker(tokenizer, template_of(recipe.template, tokenizer), events=events)
    count_answers = counter(events, ADAPTER.answers, len(rows))

    def answered(more: int) -> None:
        if stop is not None:
            stop.check()
        count_answers(more)

    written = answer_all(
        model,
        tokenizer,
        maker.prompts(rows),
        scoring(recipe),
        seed=recipe.seed,
        each_batch=answered,
        stop_asked=stop.asked if stop is not None else lambda: False,
        rows=rows_at_once,
    )
    count_judged = counter(events, ADAPTER.judged, len(rows))

    def judged() -> None:
        if stop is not None:
            stop.check_alone()
        count_judged(1)

    found = scores.overall(scores.judge_answers(scorer, rows, written, each=judged))
    return {ACCURACY: found.accuracy, "accuracy_low": found.low, "accuracy_high": found.high}


def _report(
    expert: str,
    examiner: Examiner,
    main: _Examined,
    further: Mapping[str, _Examined],
    adapter: str | None,
    seconds: float,
    other: Mapping[str, str | None],
) -> EvaluationResult:
    confinement = examiner.confinement
    return EvaluationResult(
        expert=expert,
        scorer=examiner.scorer.title,
        scorer_sha256=examiner.scorer.sha256,
        grammar_sha256=sha256(examiner.plan.recipe.decoding.grammar),
        evaluation_digest=examiner.plan.evaluation_digest,
        **_scores_of(examiner.scorer, main, adapter),
        **_present(
            **other,
            test_sets={
                name: TestScores(**_scores_of(examiner.scorer, found, adapter))
                for name, found in further.items()
            },
        ),
        confinement=results.Confinement(**asdict(confinement)) if confinement else None,
        seconds=seconds,
    )


def _other_rows(plan: Plan, rows: ScoredRows, adapter: str | None) -> OtherRows | None:
    """What else is scored than the run as it was trained: its manifest may have changed since."""
    other = replaced_rows(plan, rows)
    if other is None and _is_own(plan, adapter) and changed_since(_own_adapter(plan).parent, plan.recipe):
        return "settings"
    return other


def _other_adapter(plan: Plan, adapter: str | None) -> str | None:
    """The name of an adapter that is not the run's own."""
    if adapter is None or _is_own(plan, adapter):
        return None
    return adapter_name(Path(adapter), plan.recipe.expert)


def _own_adapter(plan: Plan) -> Path:
    return Path(plan.machine.paths.output) / final.NAME


def _is_own(plan: Plan, adapter: str | None) -> bool:
    return adapter is not None and Path(adapter).resolve() == _own_adapter(plan).resolve()


def _present(**fields: Any) -> dict[str, Any]:
    """Without what is empty: a document does not have a key for it."""
    return {name: value for name, value in fields.items() if value}


def _scores_of(scorer: ChosenScorer, found: _Examined, adapter: str | None) -> dict[str, Any]:
    """The fields of `TestScores`."""
    rows, base, tuned = found.rows, found.base, found.adapter
    base_answers = base.judged if base else None
    tuned_answers = tuned.judged if tuned else None
    others = found.against.scored.judged if found.against else None
    return {
        "measure": scores.measure(scorer, base_answers, tuned_answers, others),
        "rows": len(rows),
        "test_set": found.files,
        "base": _score(scorer, base, prompt=base.prompt) if base else None,
        "adapter": _score(scorer, tuned, path=adapter) if tuned else None,
        "comparison": scores.compared(base_answers, tuned_answers),
        "classes": _classes(scorer, rows, base_answers, tuned_answers),
        "by_level": tuple(scores.table(rows, scores.by_level, base_answers, tuned_answers, others)),
        "by_tag": tuple(scores.table(rows, scores.by_tag, base_answers, tuned_answers, others)),
        "gains": tuple(scores.gains(rows, base_answers, tuned_answers)),
        "failures": tuple(scores.failures(rows, base_answers, tuned_answers)),
        **_present(
            samples=found.samples,
            against=_against(scorer, found.against, tuned_answers) if found.against else None,
        ),
    }


def _classes(
    scorer: ChosenScorer,
    rows: Sequence[Row],
    base: Sequence[Answer] | None,
    adapter: Sequence[Answer] | None,
) -> Classes | None:
    if scorer.name != CLASSIFICATION:
        return None
    return class_scores(scorer.settings["labels"], rows, base, adapter)


def _against(
    scorer: ChosenScorer, found: Compared, adapter: Sequence[Answer] | None
) -> results.AgainstScores:
    given: dict[str, Any] = {"prompt": found.scored.prompt} if found.path is None else {"path": found.path}
    return results.AgainstScores(
        name=found.name,
        score=_score(scorer, found.scored, **given),
        comparison=scores.compared(found.scored.judged, adapter),
    )


def _score(scorer: ChosenScorer, scored: Scored, **given: Any) -> Score:
    judged = scored.judged
    return Score(
        **dict(scores.overall(judged)),
        loss=scored.loss,
        unscored=scores.unscored(judged),
        unparsed=scores.unparsed(scorer, judged),
        **given,
    )


def without_examples(report: EvaluationResult) -> EvaluationResult:
    """For results and events: only `evaluation.json` quotes answers."""
    further = {name: TestScores(**_without_examples(found)) for name, found in report.test_sets.items()}
    return EvaluationResult(**_without_examples(report), **_present(test_sets=further))


def _without_examples(found: EvaluationResult | TestScores) -> dict[str, Any]:
    given = found.model_fields_set - {"gains", "failures", "test_sets"}
    return {name: value for name, value in found if name in given}


def _warn_of_unscored(scorer: ChosenScorer, examined: Sequence[_Examined], events: Events) -> None:
    answers = [answer for found in examined for _, side in found.sides() for answer in side.judged]
    failed = [answer for answer in answers if answer.unscored]
    if failed:
        events.warning(
            "answers-not-scored",
            f"The scorer failed on {len(failed)} of {len(answers)} answers, which count as 0; the first: "
            f"{failed[0].reason}",
            _hint_of_unscored(scorer),
        )


def _hint_of_unscored(scorer: ChosenScorer) -> str:
    if scorer.judge is not None:
        return (
            f"{scorer.judge.model} must reply with one JSON object with a score from 0 to 1: name another "
            "evaluation.scorer.judge.model, or remove from evaluation.scorer.judge.instructions what asks "
            "for another form."
        )
    if scorer.is_own:
        return "Make the function return a score for every answer, however odd."
    return "See the row, or the scorer's own documentation."


def _warn_of_replaced(events: Events) -> None:
    """`evaluate` takes no lock, so that a run can be evaluated while it trains."""
    events.warning(
        "adapter-replaced",
        f"{final.NAME}/ was replaced while its former adapter was evaluated: these scores are only printed, "
        "and not left in the run's folder",
        "Evaluate again once the training has ended.",
    )


def _warn_of_base_alone(output: Path, events: Events) -> None:
    """In the place of the adapter's scores, those of the base would make the run one without scores."""
    events.warning(
        "base-alone",
        f"{output / SCORES} has the scores of an adapter and keeps them: these scores of the base alone are "
        "only printed",
        "Evaluate without --base-only to score both again.",
    )


def _warn_of_no_comparison(report: EvaluationResult, events: Events) -> None:
    """Before the error that ends the command: its summary, with the scores, is not printed."""
    events.warning(
        "not-compared",
        f"What --against names has no scores; those of the others are kept. {_in_words(report)}",
        "Repeat the command for them: the answers of the base are kept too.",
    )


def _send_events(events: Events, report: EvaluationResult, seconds: float) -> None:
    metrics: dict[str, float] = {}
    sets: list[tuple[str, EvaluationResult | TestScores]] = [("", report)]
    sets += [(f"{name}/", found) for name, found in report.test_sets.items()]
    for name, found in sets:
        against = found.against.score if found.against else None
        for who, score in (("base", found.base), ("adapter", found.adapter), ("compared", against)):
            if score is not None:
                keys = ("accuracy", "low", "high", "loss")
                measured = {f"{name}{who}_{key}": getattr(score, key) for key in keys}
                metrics |= {key: value for key, value in measured.items() if value is not None}
    events.evaluated(0, metrics, seconds)


def _answers(examined: Mapping[str, _Examined]) -> Iterator[dict[str, JsonValue]]:
    """Every row with every answer to it, whole: `evaluation.json` quotes some of them."""
    for name, found in examined.items():
        sides = [(side, scored.judged) for side, scored in found.sides()]
        for place, row in enumerate(found.rows):
            known = {key: row[key] for key in ("level", "tags") if key in row}
            answers = {side: judged[place].as_json() for side, judged in sides}
            yield {
                "test_set": name,
                "messages": row["messages"],
                "expected": row["completion"],
                **known,
                **answers,
            }


def _refuse_unwritable(plan: Plan) -> None:
    """Before the first answer: scores that cannot be written would be lost."""
    if not _holds_run(plan):
        return
    output = Path(plan.machine.paths.output)
    with (
        refusals_in_words(output, "write evaluation.json", int, lambda: [], AGAIN),
        tempfile.TemporaryFile(dir=output) as file,
    ):
        file.write(b"scores")


def _holds_run(plan: Plan) -> bool:
    """Evaluating must not make a folder look used."""
    output = Path(plan.machine.paths.output)
    return (output / "plan.json").is_file() or (output / RUN).is_file()


def _in_words(report: EvaluationResult) -> str:
    found = [("base", report.base), ("adapter", report.adapter)]
    for name, of_set in report.test_sets.items():
        found += [(f"{name}: base", of_set.base), (f"{name}: adapter", of_set.adapter)]
    scores = [f"{whose} {score.accuracy:.1%} of {score.total:,} rows" for whose, score in found if score]
    return f"The scores were: {', '.join(scores)}."


def _leave(
    plan: Plan,
    report: EvaluationResult,
    examined: Mapping[str, _Examined],
    rows: ScoredRows,
    generation: bytes,
    events: Events,
) -> None:
    output, adapter = Path(plan.machine.paths.output), report.adapter.path if report.adapter else None
    if not _holds_run(plan):
        return
    # Training with --evaluate has its adapter by now.
    then = AGAIN if isinstance(plan.request, EvaluateRequest) else RESUME
    with refusals_in_words(output, "write evaluation.json", int, lambda: [], then):
        lines = (json.dumps(answer, ensure_ascii=False) + "\n" for answer in _answers(examined))
        files.replace(output / ANSWERS, "".join(lines).encode())
        files.replace_json(output / SCORES, report.as_json())
        if _is_own(plan, adapter):
            _leave_in_adapter(_own_adapter(plan), plan, report, rows, generation, events)
    if (output / "events.jsonl").is_file():
        refresh(output, events)


def _leave_in_adapter(
    folder: Path, plan: Plan, report: EvaluationResult, rows: ScoredRows, generation: bytes, events: Events
) -> None:
    """What others read of an adapter is its score on the manifest's test set, as the manifest limits it, with
    the template and the settings that are beside it."""
    other, changed = replaced_rows(plan, rows), changed_since(folder.parent, plan.recipe)
    reason = None
    if other is not None:
        reason = f"these are {_OTHER[other]}"
    elif changed:
        reason = f"these are with other settings than the run's: {', '.join(changed)}"
    if reason is not None:
        events.applied("evaluation.final", "kept", f"{final.NAME}/ keeps its scores: {reason}")
        return
    length = scoring(plan.recipe).max_new_tokens
    other_length = None if length == plan.recipe.decoding.max_new_tokens else length
    add_scores(folder, report, rows.whole, named(plan.recipe.decoding.grammar), other_length)
    replace_grammar(folder, plan.recipe.decoding.grammar)
    replace_decoding(folder, plan.recipe, generation)
    add_score(folder, report)
