"""The end of a run: the best or the last adapter becomes `final/`, and the run is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expert_worker.checkpoint import Store
from expert_worker.events import Events
from expert_worker.events.models import Applied, Event
from expert_worker.plan import Inputs, Plan
from expert_worker.pretokenize.inputs import DIGEST_BUDGET
from expert_worker.report import refresh
from expert_worker.results import BestChoice, FileDigest, TrainResult
from expert_worker.run_record import (
    Outcome,
    adapter_config,
    adapter_tensors,
    write_final,
    write_run_record,
)
from expert_worker.run_record.card import model_card
from expert_worker.run_record.digests import KnownDigests
from expert_worker.run_record.expert import expert_record
from expert_worker.run_record.inference import inference_files
from expert_worker.train import adapter
from expert_worker.train.checkpoints import take_adapter
from expert_worker.train.dataset import Dataset
from expert_worker.train.trained_data import TrainedData
from expert_worker.train.trainer import Trainer


class Finish:
    def __init__(
        self,
        plan: Plan,
        inputs: Inputs | None,
        events: Events,
        store: Store,
        trainer: Trainer,
        tokenizer: Any,
        dataset: Dataset,
        data: TrainedData,
        applied: Settings,
    ) -> None:
        self._plan, self._inputs, self._events = plan, inputs, events
        self._store, self._trainer = store, trainer
        self._tokenizer, self._dataset, self._data, self._applied = tokenizer, dataset, data, applied

    def write(self, resumed_from: int | None, peak: int) -> TrainResult:
        """`peak` is the most memory that any process held."""
        self._events.stage("final", DIGEST_BUDGET)
        choice = self._choose()
        # What is scored after this is `final/`.
        adapter.drop_ranks(self._trainer.model)
        model, state = self._trainer.model, self._trainer.state
        recipe, plan = self._plan.recipe, self._plan
        data, system_message = self._data.digests, self._data.system_message
        base = self._base()
        final = write_final(
            self._store.output,
            config=adapter_config(model.peft_config[model.active_adapter], recipe.base.name),
            weights=adapter_tensors(model),
            tokenizer=self._tokenizer,
            inference=inference_files(recipe.template, recipe.decoding, model, self._tokenizer),
            record=expert_record(
                recipe,
                plan.recipe_digest,
                plan.license,
                data=data,
                base=base,
                system_message=system_message,
            ),
            card=model_card(recipe, self._outcome(choice), plan.recipe_digest, plan.license, system_message),
        )
        best = self._store.path(choice.step) if choice.metric is not None else None
        result = TrainResult(
            ok=True,
            steps=state.step,
            tokens=state.tokens,
            train_loss=state.train_loss,
            eval_loss=self._eval_loss(choice),
            best_checkpoint=str(best) if best is not None else None,
            adapter=str(final),
            seconds=self._trainer.seconds,
            tokens_per_second=self._trainer.tokens_per_second,
            peak_memory_bytes=peak,
            resumed_from=resumed_from,
            slow_encoder=self._dataset.slow_encoder,
            duplicates=self._dataset.duplicates,
        )
        write_run_record(
            self._plan,
            inputs=self._inputs,
            cache_key=self._dataset.key,
            data=data,
            base=base,
            best=choice,
            result=result,
            applied=self._applied.values,
        )
        refresh(self._store.output, self._events)
        return result

    def _choose(self) -> BestChoice:
        """The checkpoint with the best metric where one is asked for; its adapter is put back into the
        model."""
        state, wanted = self._trainer.state, self._plan.recipe.evaluation.best
        if wanted is None:
            return _last(state.step, "the last step: the manifest asks for no best model")
        if state.best_step is None or state.best_value is None:
            if state.evaluated:
                return _last(state.step, f"the last step: no {wanted.metric} was a finite number")
            return _last(state.step, "the last step: nothing was evaluated")
        if state.best_step != state.step:
            take_adapter(self._store.load(self._store.path(state.best_step)), self._trainer.model)
            self._trainer.engine.parameters_changed()
        direction = "highest" if wanted.greater_is_better else "lowest"
        count = len(state.evaluated)
        reason = f"the {direction} {wanted.metric} of {count} evaluation{'s' if count > 1 else ''}"
        return BestChoice(
            step=state.best_step,
            reason=reason,
            metric=wanted.metric,
            value=state.best_value,
            evaluations={str(step): value for step, value in state.evaluated},
        )

    def _eval_loss(self, choice: BestChoice) -> float | None:
        """Of the adapter that becomes final."""
        state = self._trainer.state
        return state.eval_loss if choice.metric is None else state.best_eval_loss

    def _outcome(self, choice: BestChoice) -> Outcome:
        state = self._trainer.state
        return Outcome(
            steps=state.step,
            tokens=state.tokens,
            supervised_tokens=state.supervised_tokens,
            train_loss=state.train_loss,
            eval_loss=self._eval_loss(choice),
            best_step=choice.step if choice.metric is not None else None,
            rows=self._dataset.ledger,
            held_out=self._dataset.held_out,
            modules=self._modules(),
            tokenized=self._data.tokenized,
        )

    def _modules(self) -> tuple[str, ...]:
        model = self._trainer.model
        config = model.peft_config[model.active_adapter]
        return tuple(sorted(getattr(config, "target_modules", None) or ()))

    def _base(self) -> dict[str, FileDigest | None]:
        """Those of the files that were there when training started."""
        if changed := self._data.base.changed():
            base = self._plan.recipe.base.name
            self._events.warning(
                "base-changed",
                f"{', '.join(changed)} of the base {base} changed in training: no digest of it is recorded",
                "Keep the files that this run began with: with others the adapter answers differently.",
            )
        return self._data.base.digests(changed, KnownDigests(Path(self._plan.machine.paths.home)))


def _last(step: int, reason: str) -> BestChoice:
    return BestChoice(step=step, reason=reason, metric=None, value=None, evaluations={})


class Settings:
    """A listener of the event stream."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def write(self, event: Event, line: bytes) -> None:
        del line
        if isinstance(event.body, Applied):
            self.values[event.body.key] = event.body.value

    def close(self) -> None:
        """Nothing to close."""
