"""Loss per supervised token on the validation rows, and scores of answers, with the model in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from expert_worker import memory_errors
from expert_worker.base import locate
from expert_worker.errors import BadInput
from expert_worker.evaluate.cached_scores import fingerprint
from expert_worker.evaluate.guidance import check_grammar
from expert_worker.evaluate.rows import drawn, places_of, rows_of, skipped_rows
from expert_worker.evaluate.rows_at_once import RowsAtOnce
from expert_worker.evaluate.scored_rows import ScoredRows, check_on_references, scored_rows
from expert_worker.evaluate.scorers import check_scorer, chosen_scorer
from expert_worker.evaluate.stage import examine, score_checkpoint, without_examples
from expert_worker.evaluate.subject import Subject, template_of
from expert_worker.events import Events
from expert_worker.plan import Paths, Plan, Recipe, TrainRequest
from expert_worker.results import EvaluationResult
from expert_worker.train import memory
from expert_worker.train.dataset import Rows, longest
from expert_worker.train.distributed import DistContext
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import nothing
from expert_worker.train.objective import Objective
from expert_worker.train.trainer import EvaluationStopped

_WITHOUT_GRADIENTS = "Lower max_seq_length, or quantize the base."


class AgreedStop:
    """Where an evaluation can be left: its checkpoint is saved, and a resumed run evaluates it again."""

    def __init__(self, events: Events, dist: DistContext) -> None:
        self._events, self._dist = events, dist

    def asked(self) -> bool:
        """Ends a batch of answers early. Several ranks agree after the batch."""
        return self._dist.size == 1 and self._events.stop_requested

    def check(self) -> None:
        """Between batches, which all ranks pass the same number of times."""
        if self._dist.agrees_to_stop(self._events.stop):
            self._leave()

    def check_alone(self) -> None:
        """Where ranks may pass a different number of times."""
        if self.asked():
            self._leave()

    def _leave(self) -> None:
        raise EvaluationStopped(
            "Stopped during an evaluation; its checkpoint is saved, and --resume evaluates it first",
            terminated=self._events.stop.terminated,
        )


class Validation:
    """`micro_batch` is how many rows fit at once without gradients: halved in place, as training's is.
    `wanted` is how many of the data set's rows are looked at; None for all."""

    def __init__(
        self,
        engine: Engine,
        objective: Objective,
        rows: Rows,
        micro_batch: int,
        events: Events,
        dist: DistContext,
        wanted: int | None = None,
    ) -> None:
        self.rows = rows
        self.chosen: Sequence[int] = range(len(rows)) if wanted is None else _looked_at(rows, wanted)
        self._engine, self._objective = engine, objective
        self._events, self._dist = events, dist
        self.micro_batch = min(micro_batch, len(self.chosen))

    def run(self, step: int, stop: AgreedStop) -> dict[str, float]:
        """Each process measures its share of the rows, up to the batch after which it is asked to stop."""
        if self._dist.sharded:
            return self._run_in_lockstep(step, stop)
        mine = self._dist.share(self.chosen)
        measured: list[tuple[float, int]] = []
        start = 0
        while start < len(mine) and not self._events.stop_requested:
            batch = mine[start : start + self.micro_batch]
            found = self._measured(step, batch)
            if found is not None:
                measured.append(found)
                start += len(batch)
                self._events.advance("evaluate", start, len(mine))
        if self._dist.any(start < len(mine)):
            stop.check()
        total, weight = self._dist.sum(
            sum(loss for loss, _ in measured), sum(weight for _, weight in measured)
        )
        return self._objective.metrics(total / max(1, weight))

    def _run_in_lockstep(self, step: int, stop: AgreedStop) -> dict[str, float]:
        """Each pass needs all processes; where one runs out of memory, all repeat with fewer rows at once."""
        mine = self._dist.share(self.chosen)
        while True:
            batches = [
                mine[start : start + self.micro_batch] for start in range(0, len(mine), self.micro_batch)
            ]
            rounds = self._dist.rounds(len(self.chosen), self.micro_batch)
            held = min(self.micro_batch, self._dist.largest_share(self.chosen))
            measured = self._measured_in_lockstep(step, batches, rounds, held, stop)
            if measured is not None:
                total, weight = self._dist.sum(*measured)
                return self._objective.metrics(total / max(1, weight))

    def _measured_in_lockstep(
        self,
        step: int,
        batches: Sequence[Sequence[int]],
        rounds: int,
        held: int,
        stop: AgreedStop | None = None,
    ) -> tuple[float, float] | None:
        """Summed loss and weight of this process; None where the rows of any did not fit. `held` is the
        number of rows in the largest batch of all."""
        total, weight, ran_out = 0.0, 0, False
        for number in range(rounds):
            if stop is not None:
                stop.check()
            try:
                if number < len(batches) and not ran_out:
                    batch = self._objective.batch(self.rows, batches[number])
                    total += float(self._engine.loss(batch))
                    weight += self._objective.weight(batch)
                    self._events.advance("evaluate", number + 1, rounds)
                else:
                    self._engine.loss(nothing())
            except (RuntimeError, MemoryError) as error:
                if not memory_errors.ran_out(error):
                    raise
                ran_out = True
        if not self._dist.any(ran_out):
            return total, weight
        self.micro_batch = memory.halve_after_oom(
            held,
            step,
            "the evaluation",
            self._events,
            reports=self._dist.is_main_process,
            hint=_WITHOUT_GRADIENTS,
        )
        return None

    def try_largest(self) -> None:
        """The longest rows together, fewer and fewer until they fit."""
        lengths = self.lengths()
        while not self._fits([self.chosen[i] for i in longest(lengths, self.micro_batch)]):
            pass

    def _fits(self, indices: Sequence[int]) -> bool:
        if self._dist.sharded:
            return self._measured_in_lockstep(0, [indices], 1, len(indices)) is not None
        return self._measured(0, indices) is not None

    def lengths(self) -> list[int]:
        """Tokens of each row that is looked at."""
        every = self.rows.row_lengths()
        return [every[row] for row in self.chosen]

    def _measured(self, step: int, indices: Sequence[int]) -> tuple[float, int] | None:
        """Summed loss and weight; None where the rows did not fit: fewer are to be tried."""
        batch = self._objective.batch(self.rows, indices)
        try:
            return float(self._engine.loss(batch)), self._objective.weight(batch)
        except (RuntimeError, MemoryError) as error:
            if not memory_errors.ran_out(error):
                raise
        self.micro_batch = memory.halve_after_oom(
            len(indices), step, "the evaluation", self._events, hint=_WITHOUT_GRADIENTS
        )
        return None


def _looked_at(rows: Rows, wanted: int) -> Sequence[int]:
    """Packed rows that hold about `wanted` of the data set's rows, one of each of as many equal parts."""
    every = range(len(rows))
    held = sum(documents(rows, row) for row in every)
    return drawn(every, max(1, round(len(rows) * wanted / max(1, held))))


def documents(rows: Rows, row: int) -> int:
    """How many rows of the data set are packed into this one."""
    boundaries = rows.batch([row])[2]
    return len(boundaries) - 1


def checkpoint_scores(
    recipe: Recipe,
    paths: Paths,
    model: Any,
    tokenizer: Any,
    events: Events,
    stop: AgreedStop,
    dist: DistContext,
) -> Callable[[int], dict[str, float]]:
    """The model's scores on validation rows after a step, the same rows for each call."""
    chosen, data = recipe.evaluation, recipe.data
    if chosen.scorer is not None:
        check_scorer(chosen.scorer)
    check_grammar(recipe.decoding.grammar)
    sources = data.validation
    read = sources, data.field_mapping, paths.data
    rows = rows_of(*read, broken=skipped_rows(data))
    if not rows:
        raise BadInput(
            "The best checkpoint is to be chosen by accuracy, and no file holds validation rows to score",
            hint="Set training.dataset.validation_path, or metric_for_best_model to eval_loss.",
            code="no-validation",
        )
    count = chosen.rows or len(rows)
    rows = drawn(rows, count)

    def places() -> list[str]:
        return drawn(places_of(*read, broken=skipped_rows(data)), count)

    scorer = chosen_scorer(chosen, data, paths)
    check_on_references(scorer, rows, events, places=places)

    rows_at_once = RowsAtOnce.of(model, None if dist.sharded else events)

    def score(step: int) -> dict[str, float]:
        rows_at_once.step = step
        model.eval()
        try:
            return score_checkpoint(model, tokenizer, recipe, scorer, rows, events, stop, rows_at_once)
        finally:
            model.train()

    return score


def rows_to_score(plan: Plan, events: Events) -> ScoredRows | None:
    """Read before training, so that a test set that cannot be scored is refused early; None without
    --evaluate."""
    asked = isinstance(plan.request, TrainRequest) and plan.request.evaluate
    return scored_rows(plan, events) if asked else None


def score_trained(
    plan: Plan, events: Events, model: Any, tokenizer: Any, rows: ScoredRows, adapter: str
) -> EvaluationResult:
    """Scores base and adapter on every test set; the base is the model with its adapter disabled, `adapter`
    the path of the adapter. The answers are in the run's evaluation.json."""
    paths = plan.machine.paths
    mark = fingerprint(locate(plan.recipe.base, paths, events), Path(paths.home))
    template = template_of(plan.recipe.template, tokenizer)
    subject = Subject(model.eval(), tokenizer, template, has_adapter=True, base_mark=mark, events=events)
    return without_examples(examine(plan, events, rows, subject, adapter))
