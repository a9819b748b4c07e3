"""Generates a subject's answers and scores them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from expert_worker.evaluate import scores
from expert_worker.evaluate.cached_scores import CachedScores, digest
from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.decode import Prompt, Written, answer_all, sample_all, scoring
from expert_worker.evaluate.guidance import rules_for
from expert_worker.evaluate.headroom import Distinct, sampled_scores
from expert_worker.evaluate.loss import LossAlong, answer_loss
from expert_worker.evaluate.prompts import (
    EXAMPLE_POOL,
    SHOTS,
    PromptMaker,
    choose_prompt,
    pick_examples,
    rows_to_choose_by,
)
from expert_worker.evaluate.rows_at_once import RowsAtOnce
from expert_worker.evaluate.scored_rows import rows_beside
from expert_worker.evaluate.scorers import scorer_of
from expert_worker.evaluate.subject import Subject
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.events.models import StageName
from expert_worker.plan import Plan, Samples
from expert_worker.results import Answer, PromptChoice, SampledScores, Share

QUIET_SECONDS = 600.0


@dataclass(frozen=True)
class Scored:
    """One subject's answers to all rows. The prompt is None for an adapter."""

    judged: tuple[Answer, ...]
    loss: float | None
    prompt: PromptChoice | None


@dataclass(frozen=True)
class _Generated:
    """What a subject wrote, and its loss on the reference answers where that was asked for."""

    written: tuple[Written, ...]
    loss: float | None


@dataclass(frozen=True)
class Stages:
    """What the examination of one subject reports as its stages."""

    answers: StageName
    judged: StageName
    loss: StageName


BASE = Stages("base answers", "base judged", "base loss")
ADAPTER = Stages("adapter answers", "adapter judged", "adapter loss")
MODEL = Stages("compared model answers", "compared model judged", "compared model loss")


class Examiner:
    """`stages` are those of what is compared with base and adapter."""

    def __init__(self, plan: Plan, events: Events, subject: Subject, stages: Stages | None = None) -> None:
        self.plan, self.events, self.subject = plan, events, subject
        self._base_stages, self._adapter_stages = stages or BASE, stages or ADAPTER
        self.scorer = scorer_of(plan)
        self._cache = CachedScores(Path(plan.machine.paths.home))
        self.confinement: Confinement | None = None
        """What held the process that scored, where anything was scored."""

    def base(
        self, rows: Sequence[Row], test_set: str | None = None, prompt: PromptChoice | None = None
    ) -> Scored:
        """The base with its best prompt. What it writes is cached, because it costs as much as the adapter's
        answers and never changes. It is judged each time: scorers and their engines change. `prompt` is the
        one that was chosen already, for a further test set.
        """
        with self.subject.base_only():
            maker, choice = self._best_prompt(len(rows)) if prompt is None else self._chosen_prompt(prompt)
            found = self._base_answers(maker, rows, test_set, with_loss=True)
        judged = self._judged(self._base_stages, rows, found.written, test_set)
        return Scored(judged=tuple(judged), loss=found.loss, prompt=choice)

    def adapter(self, rows: Sequence[Row], test_set: str | None = None) -> Scored:
        stages, maker = self._adapter_stages, self.subject.maker()
        found = self._generated(stages, maker, maker.prompts(rows), rows, test_set, with_loss=True)
        judged = self._judged(stages, rows, found.written, test_set)
        return Scored(judged=tuple(judged), loss=found.loss, prompt=None)

    def _base_answers(
        self, maker: PromptMaker, rows: Sequence[Row], detail: str | None, *, with_loss: bool
    ) -> _Generated:
        prompts = maker.prompts(rows)
        key = self._key(prompts, rows, with_loss=with_loss)
        known = _valid(self._cache.load(key))
        if known is None:
            known = self._generated(self._base_stages, maker, prompts, rows, detail, with_loss=with_loss)
            self._cache.save(key, _document(known))
        elif with_loss:
            side, title = ("base", "Base") if self._base_stages is BASE else ("against", "Compared model's")
            self.events.applied(f"evaluation.{side}", "kept", f"{title} answers from the cache")
        return known

    def _generated(
        self,
        stages: Stages,
        maker: PromptMaker,
        prompts: Sequence[Prompt],
        rows: Sequence[Row],
        detail: str | None,
        *,
        with_loss: bool,
    ) -> _Generated:
        """The loss is always of prompts without examples."""
        is_along = with_loss and not maker.examples
        along = LossAlong.of(self.subject.model, maker, rows) if is_along else None
        count_answers = counter(self.events, stages.answers, len(rows), detail)

        def answered(more: int) -> None:
            # Not only after the last batch: to read the prompts that are left may take minutes.
            self.events.stop.raise_if_requested()
            count_answers(more)

        written = answer_all(
            self.subject.model,
            self.subject.tokenizer,
            prompts,
            scoring(self.plan.recipe),
            seed=self.plan.recipe.seed,
            each_batch=answered,
            stop_asked=lambda: self.events.stop_requested,
            prompts_read=along.read if along is not None else None,
            rows=self._rows_at_once,
        )
        loss = along.mean() if along is not None else None
        if with_loss and loss is None:
            loss = self._loss(stages, rows, detail)
        return _Generated(written=tuple(written), loss=loss)

    def _judged(
        self, stages: Stages, rows: Sequence[Row], written: Sequence[Written], detail: str | None
    ) -> list[Answer]:
        judged = self._count_judged(stages.judged, len(rows), detail)
        return scores.judge_answers(self.scorer, rows, written, judged, self._note_confinement, self._cache)

    def samples(
        self, asked: Samples, rows: Sequence[Row], prompt: PromptChoice | None, detail: str | None
    ) -> SampledScores:
        """Of the adapter, or else of the base with the prompt that was chosen for it."""
        maker = self.subject.maker()
        if prompt is not None and not self.subject.has_adapter:
            maker, _ = self._chosen_prompt(prompt)
        written = counter(self.events, "sampled answers", len(rows), detail)
        answers = sample_all(
            self.subject.model,
            self.subject.tokenizer,
            maker.prompts(rows),
            scoring(self.plan.recipe).model_copy(update={"temperature": asked.temperature}),
            asked.per_row,
            seed=self.plan.recipe.seed,
            each_batch=written,
            stop_asked=lambda: self.events.stop_requested,
            rows=self._rows_at_once,
        )
        self.events.stop.raise_if_requested()
        distinct = Distinct.of(rows, answers)
        judged = self._count_judged("samples judged", len(distinct.texts), detail)
        verdicts = scores.verdicts_of(
            self.scorer,
            distinct.rows,
            distinct.texts,
            each=judged,
            confined=self._note_confinement,
            cache=self._cache,
            with_result_keys=True,
        )
        return sampled_scores(rows, distinct.sampled(verdicts), asked)

    def _count_judged(self, stage: StageName, total: int, detail: str | None) -> Callable[[], None]:
        count = counter(self.events, stage, total, detail)

        def judged() -> None:
            # A model may take seconds for each answer.
            self.events.stop.raise_if_requested()
            count(1)

        return judged

    def _note_confinement(self, confinement: Confinement) -> None:
        if self.confinement is None:
            self.events.applied("evaluation.confinement", confinement.document())
            if confinement.missing:
                self.events.warning(
                    "scoring-not-confined",
                    f"The scoring process is not fully confined: {'; '.join(confinement.missing)}",
                    "Its limits of time and memory and the guards of the engines hold. Score untrusted data "
                    "or scorers on Linux 5.13 or newer with Landlock, or in a container without network.",
                )
        self.confinement = confinement

    def _loss(self, stages: Stages, rows: Sequence[Row], detail: str | None) -> float | None:
        measured = counter(self.events, stages.loss, len(rows), detail)
        return answer_loss(self.subject.model, self.subject.maker(), rows, measured, self.events)

    def _best_prompt(self, test_rows: int) -> tuple[PromptMaker, PromptChoice]:
        if self.subject.is_merged_expert:
            # It is asked as its users ask it. Examples may cost it most of what it has learnt.
            self.events.applied(
                "evaluation.prompt", "0 examples", "Asked without examples: the base is a merged expert"
            )
            return self.subject.maker(), PromptChoice(shots=0, tried={})
        validation = rows_to_choose_by(self._validation, test_rows)

        def measure(maker: PromptMaker, rows: Sequence[Row]) -> Share:
            detail = f"{len(maker.examples)} examples"
            found = self._base_answers(maker, rows, detail, with_loss=False)
            return scores.overall(self._judged(self._base_stages, rows, found.written, detail))

        maker, choice = choose_prompt(self.subject.maker(), self._pool, validation, measure)
        if not choice.tried:
            lacking = "training rows to show" if validation else "validation rows to choose a prompt by"
            note = f"Asked without examples: there are no {lacking}"
            self.events.applied("evaluation.prompt", "0 examples", note)
        return maker, choice

    def _chosen_prompt(self, choice: PromptChoice) -> tuple[PromptMaker, PromptChoice]:
        maker = self.subject.maker()
        if choice.shots:
            maker = maker.showing(pick_examples(self._pool, SHOTS))
        return maker, PromptChoice(shots=choice.shots, tried={})

    @cached_property
    def _rows_at_once(self) -> RowsAtOnce:
        return RowsAtOnce.of(self.subject.model, self.events)

    @cached_property
    def _validation(self) -> list[Row]:
        return rows_beside(self.plan, self.plan.recipe.data.validation)

    @cached_property
    def _pool(self) -> list[Row]:
        """What the examples of a prompt are picked from."""
        return rows_beside(self.plan, self.plan.recipe.data.train, EXAMPLE_POOL)

    def _key(self, prompts: Sequence[Prompt], rows: Sequence[Row], *, with_loss: bool) -> str:
        """Of all that the base's answers depend on. Template, examples and tools are in the prompts."""
        decoding, plain = scoring(self.plan.recipe), self.subject.maker()
        ids = [list(prompt.ids) for prompt in prompts]
        rules = loss = None
        if decoding.grammar is not None:
            texts = self.subject.tokenizer.batch_decode(ids, skip_special_tokens=True)
            rules = [rules_for(decoding.grammar, str(text)) for text in texts]
        if with_loss:
            loss = [[list(prompt.ids) for prompt in plain.prompts(rows)], plain.answers(rows)]
        return digest(
            {
                "base": self.plan.recipe.base.model_dump(),
                "weights": self.subject.base_mark,
                "dtype": self.plan.machine.dtype,
                "decoding": decoding.model_dump(),
                "seed": self.plan.recipe.seed if decoding.temperature > 0 else None,
                "rules": rules,
                "prompts": ids,
                "loss": loss,
            }
        )


def counter(events: Events, name: StageName, total: int, detail: str | None = None) -> Callable[[int], None]:
    """Begins a stage in which an answer may take minutes; what it returns is called with further answers."""
    events.stage(name, quiet_budget=QUIET_SECONDS, detail=detail)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        events.advance(name, done, total, unit="answers")

    return count


def _document(found: _Generated) -> dict[str, Any]:
    document: dict[str, Any] = TypeAdapter(_Generated).dump_python(found, mode="json")
    return document


def _valid(kept: dict[str, Any] | None) -> _Generated | None:
    """What another version kept is computed again."""
    try:
        return None if kept is None else TypeAdapter(_Generated).validate_json(json.dumps(kept))
    except (ValidationError, ValueError):
        return None
