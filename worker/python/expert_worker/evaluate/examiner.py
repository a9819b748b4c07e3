"""Generates a subject's answers and scores them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from expert_worker.document import Document
from expert_worker.evaluate import scores
from expert_worker.evaluate.cached_scores import CachedScores, digest
from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.decode import answer_all, sample_all
from expert_worker.evaluate.guidance import rules_for
from expert_worker.evaluate.headroom import Distinct, sampled_scores
from expert_worker.evaluate.loss import LossAlong, answer_loss
from expert_worker.evaluate.prompts import SHOTS, PromptMaker, choose_prompt, pick_examples, rows_to_choose_by
from expert_worker.evaluate.rows import rows_of
from expert_worker.evaluate.scorers import scorer_of
from expert_worker.evaluate.subject import Subject
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.events.models import StageName
from expert_worker.plan import Plan, Samples
from expert_worker.results import Answer, PromptChoice, SampledScores, Share

QUIET_SECONDS = 600.0
EXAMPLE_POOL = 400


class Scored(Document):
    """One subject's answers to all rows. The base's are kept in a file: the prompt is null for an adapter."""

    judged: tuple[Answer, ...]
    loss: float | None
    prompt: PromptChoice | None


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
        self.confinement: Confinement | None = None
        """What held the process that scored, where anything was scored."""

    def base(
        self, rows: Sequence[Row], test_set: str | None = None, prompt: PromptChoice | None = None
    ) -> Scored:
        """The base with its best prompt; cached, because it costs as much as the adapter and never
        changes. `prompt` is the one that was chosen already, for a further test set.
        """
        cache = CachedScores(Path(self.plan.machine.paths.home))
        key = self._base_key(rows, prompt)
        known = _valid(cache.load(key))
        if known is not None:
            side, title = ("base", "Base") if self._base_stages is BASE else ("against", "Compared model's")
            self.events.applied(f"evaluation.{side}", "kept", f"{title} scores from the cache")
            return known
        with self.subject.base_only():
            maker, choice = self._best_prompt(len(rows)) if prompt is None else self._chosen_prompt(prompt)
            judged, loss = self._judged_with_loss(self._base_stages, maker, rows, test_set)
        found = Scored(judged=tuple(judged), loss=loss, prompt=choice)
        cache.save(key, found.model_dump(mode="json"))
        return found

    def adapter(self, rows: Sequence[Row], test_set: str | None = None) -> Scored:
        judged, loss = self._judged_with_loss(self._adapter_stages, self.subject.maker(), rows, test_set)
        return Scored(judged=tuple(judged), loss=loss, prompt=None)

    def _judged_with_loss(
        self, stages: Stages, maker: PromptMaker, rows: Sequence[Row], detail: str | None
    ) -> tuple[list[Answer], float]:
        """The loss is always of prompts without examples."""
        along = None if maker.examples else LossAlong.of(self.subject.model, maker, rows)
        judged = self.ask(stages, maker, rows, detail, along)
        return judged, self.loss(stages, rows, detail) if along is None else along.mean()

    def ask(
        self,
        stages: Stages,
        maker: PromptMaker,
        rows: Sequence[Row],
        detail: str | None = None,
        along: LossAlong | None = None,
    ) -> list[Answer]:
        prompts = maker.prompts(rows)
        counted = counter(self.events, stages.answers, len(rows), detail)
        written = answer_all(
            self.subject.model,
            self.subject.tokenizer,
            prompts,
            self.plan.recipe.decoding,
            seed=self.plan.recipe.seed,
            each_batch=counted,
            stop_asked=lambda: self.events.stop_requested,
            prompts_read=along.read if along is not None else None,
        )
        self.events.stop.raise_if_requested()
        judged = counter(self.events, stages.judged, len(rows), detail)
        return scores.judge_answers(
            self.scorer, rows, written, each=lambda: judged(1), confined=self._note_confinement
        )

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
            self.plan.recipe.decoding.model_copy(update={"temperature": asked.temperature}),
            asked.per_row,
            seed=self.plan.recipe.seed,
            each_batch=written,
            stop_asked=lambda: self.events.stop_requested,
        )
        self.events.stop.raise_if_requested()
        distinct = Distinct.of(rows, answers)
        judged = counter(self.events, "samples judged", len(distinct.texts), detail)
        verdicts = scores.verdicts_of(
            self.scorer,
            distinct.rows,
            distinct.texts,
            each=lambda: judged(1),
            confined=self._note_confinement,
            with_result_keys=True,
        )
        return sampled_scores(rows, distinct.sampled(verdicts), asked)

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

    def loss(self, stages: Stages, rows: Sequence[Row], detail: str | None = None) -> float:
        measured = counter(self.events, stages.loss, len(rows), detail)
        return answer_loss(self.subject.model, self.subject.maker(), rows, measured)

    def _best_prompt(self, test_rows: int) -> tuple[PromptMaker, PromptChoice]:
        validation = rows_to_choose_by(self._validation, test_rows)

        def measure(maker: PromptMaker, rows: Sequence[Row]) -> Share:
            return scores.overall(self.ask(self._base_stages, maker, rows, f"{len(maker.examples)} examples"))

        return choose_prompt(self.subject.maker(), self._pool, validation, measure)

    def _chosen_prompt(self, choice: PromptChoice) -> tuple[PromptMaker, PromptChoice]:
        maker = self.subject.maker()
        if choice.shots:
            maker = maker.showing(pick_examples(self._pool, SHOTS))
        return maker, PromptChoice(shots=choice.shots, tried={})

    @cached_property
    def _validation(self) -> list[Row]:
        data, places = self.plan.recipe.data, self.plan.machine.paths.data
        return rows_of(data.validation, data.field_mapping, places, skip_bad=True)

    @cached_property
    def _pool(self) -> list[Row]:
        """What the examples of a prompt are picked from."""
        data, places = self.plan.recipe.data, self.plan.machine.paths.data
        return rows_of(data.train, data.field_mapping, places, EXAMPLE_POOL, skip_bad=True)

    def _base_key(self, rows: Sequence[Row], prompt: PromptChoice | None) -> str:
        recipe, machine = self.plan.recipe, self.plan.machine
        text = self.subject.maker().text(rows[0]["messages"])
        return digest(
            {
                "base": recipe.base.model_dump(),
                "weights": self.subject.base_mark,
                "dtype": machine.dtype,
                "template": text,
                "decoding": recipe.decoding.model_dump(),
                "rules": rules_for(recipe.decoding.grammar, text),
                "scorer": self.scorer.document(),
                "rows": rows,
                "validation": self._validation if prompt is None else prompt.shots,
                "examples": self._pool,
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


def _valid(kept: dict[str, Any] | None) -> Scored | None:
    """Scores kept by another version are computed again."""
    try:
        return None if kept is None else Scored.model_validate_json(json.dumps(kept))
    except (ValidationError, ValueError):
        return None
