"""A training of a few milliseconds that keeps every promise of the real one, for thousands of crashes.

The real stage is crashed too (test_real_training.py); this one proves the commit protocol by itself.
"""

from pathlib import Path
from typing import Any

import torch

from expert_worker.checkpoint import Loaded, Store, refuse_unless_same
from expert_worker.events import Events
from expert_worker.plan import Plan, ResumeCheckpoint, ResumeNewest
from expert_worker.results import CheckpointFacts
from expert_worker.run_record import write_final
from expert_worker.run_record.expert import expert_record

ROWS, MICRO, KEY = 10, 2, "c" * 64


class NoTokenizer:
    def save_pretrained(self, folder: str) -> None:
        (Path(folder) / "tokenizer_config.json").write_text("{}")


class Trainer:
    def __init__(self, plan: Plan) -> None:
        torch.manual_seed(plan.recipe.seed)
        self.plan = plan
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.step = 0
        self.tokens = 0

    def train_one(self, events: Events) -> float:
        self.optimizer.zero_grad()
        total = 0.0
        for micro in range(2):
            events.accumulating(self.step, micro + 1, 2)
            loss = (self.model(self._rows(micro)) ** 2).mean()
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        self.step += 1
        self.tokens += 2 * MICRO
        return total

    def _rows(self, micro: int) -> torch.Tensor:
        """The order is a function of (seed, step): each epoch has another permutation."""
        first = (self.step * 2 + micro) * MICRO
        places = range(first, first + MICRO)
        picked = []
        for place in places:
            generator = torch.Generator().manual_seed(self.plan.recipe.seed + place // ROWS)
            picked.append(int(torch.randperm(ROWS, generator=generator)[place % ROWS]))
        return torch.stack([torch.arange(8.0) / (row + 1) for row in picked])

    def parts(self) -> dict[str, Any]:
        moments = {
            f"{index}.{name}": value
            for index, state in self.optimizer.state_dict()["state"].items()
            for name, value in state.items()
        }
        return {
            "adapter_model.safetensors": self.model.state_dict(),
            "optimizer.safetensors": moments,
            "trainer.json": {"tokens": self.tokens},
        }

    def facts(self, total: int, metrics: dict[str, float]) -> CheckpointFacts:
        recipe = self.plan.recipe.model_dump(mode="json")
        return CheckpointFacts(
            recipe_digest=self.plan.recipe_digest,
            recipe=recipe,
            cache_key=KEY,
            total_steps=total,
            micro_batch=MICRO,
            totals={"tokens": self.tokens},
            metrics=metrics,
        )

    def restore(self, loaded: Loaded) -> None:
        self.model.load_state_dict(loaded.tensors("adapter_model.safetensors"))
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in loaded.tensors("optimizer.safetensors").items():
            index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.step = loaded.step
        self.tokens = loaded.json("trainer.json")["tokens"]


def run(plan: Plan, events: Events) -> dict[str, Any]:
    store = Store(Path(plan.machine.paths.output), events)
    store.open()
    trainer = Trainer(plan)
    loaded = _resume(plan, store)
    if loaded:
        refuse_unless_same(loaded.facts, plan.recipe.model_dump(mode="json"), KEY, extend=False)
        trainer.restore(loaded)
    events.begin(trainer.step)
    total = int(plan.recipe.schedule.duration.value)
    loss = 0.0
    while trainer.step < total:
        loss = trainer.train_one(events)
        _report(events, trainer, total, loss)
        if trainer.step % (plan.recipe.saving.steps or total) == 0 or trainer.step == total:
            events.evaluated(trainer.step, {"eval_loss": loss}, 0.0)
            store.commit(trainer.step, trainer.parts(), trainer.facts(total, {"eval_loss": loss}))
            store.retain(plan.machine.save_total_limit, best_step=3 if trainer.step > 3 else None)
    _finish(plan, trainer)
    return {"steps": trainer.step}


def _resume(plan: Plan, store: Store) -> Loaded | None:
    resume = plan.request.resume if plan.request.stage == "train" else None
    if isinstance(resume, ResumeNewest):
        return store.newest_valid()
    if isinstance(resume, ResumeCheckpoint):
        loaded = store.load(Path(resume.path))
        store.rewind(loaded.step)
        return loaded
    return None


def _report(events: Events, trainer: Trainer, total: int, loss: float) -> None:
    events.progress(
        step=trainer.step,
        total_steps=total,
        epoch=trainer.step * 2 * MICRO / ROWS,
        loss=loss,
        lr=1e-2,
        tokens=4,
        supervised_tokens=4,
        tokens_per_second=1.0,
        seconds=0.1,
        data_wait=0.0,
    )


def _finish(plan: Plan, trainer: Trainer) -> None:
    write_final(
        Path(plan.machine.paths.output),
        config={"base_model_name_or_path": "standin"},
        weights=trainer.model.state_dict(),
        tokenizer=NoTokenizer(),
        inference={},
        record=expert_record(plan.recipe, plan.recipe_digest, None, data={}, base={}),
        card="# stand-in\n",
    )
