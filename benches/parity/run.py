"""Compares the loss of each step with TRL's SFTTrainer under equal conditions: the same base, initial
adapter, rows per step, and the optimizer, schedule and adapter of an expert that is shipped
(`tests/worker/defaults.py`); fp32, one document per row.

    python -m benches parity               prints the table step by step on stderr
    python benches/parity/run.py 12        so many steps

Ours packs documents end to end on the fast path; TRL pads them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_ROOT = HERE.parents[1]
for _place in (HERE.parent / "train", _ROOT / "tests" / "worker", _ROOT / "worker" / "python"):
    sys.path.insert(0, str(_place))

from defaults import Case, settings_of  # noqa: E402
from our_side import Clock, put_rows  # noqa: E402
from plans import example_plan  # noqa: E402
from rows import Pair  # noqa: E402
from scene import Scene, base, documents  # noqa: E402

import expert_worker.train  # noqa: E402, F401  (before torch: it sets how its libraries behave)

ALLOWED = 1e-4
# The base of this expert that is not quantized: both sides compute in fp32.
CASE = Case("expert-sql base 1", _ROOT / "experts" / "expert-sql" / "manifest.json", base=1)
SETTINGS, _ = settings_of(CASE)


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    scene = Scene(length=160, rows=4, steps=steps, mean_document=90)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = side_by_side(scene, Path(folder))
    apart = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    print(f"{'step':>4}  {'ours':>10}  {'TRL':>10}  {'apart':>8}", file=sys.stderr)
    for step, (a, b, gap) in enumerate(zip(ours, theirs, apart, strict=True), 1):
        print(f"{step:>4}  {a:10.6f}  {b:10.6f}  {gap:8.1e}", file=sys.stderr)
    within = max(apart) <= ALLOWED
    what = f"largest distance of {steps} losses: {max(apart):.1e} (at most {ALLOWED:g})"
    print(
        json.dumps({
            "steps": steps, "largest_distance": max(apart), "within": within, "losses": ours,
            "rows": [{"what": what, "against": "TRL SFTTrainer", "ratio": None}],
        })
    )  # fmt: skip
    return 0 if within else 1


def side_by_side(scene: Scene, folder: Path) -> tuple[list[float], list[float]]:
    """The losses of each step, ours and TRL's."""
    weights = base(scene, folder / "base")
    pairs = documents(scene, weights)
    plan = example_plan(folder, _changes(scene, weights))
    return _ours(plan, pairs), list(_theirs(plan, scene, pairs, folder))


def _changes(scene: Scene, weights: Path) -> dict[str, object]:
    return {
        "recipe.adapter.kind": SETTINGS["adapter_type"],
        "recipe.adapter.rank": SETTINGS["rank"], "recipe.adapter.alpha": float(SETTINGS["alpha"]),
        # Two programs draw their dropout from different generators.
        "recipe.adapter.dropout": 0.0,
        "recipe.adapter.target_modules": SETTINGS["target_modules"],
        "recipe.batch.rows_per_step": scene.rows, "recipe.batch.max_seq_length": scene.length,
        "recipe.optimizer.name": SETTINGS["optim"],
        "recipe.optimizer.learning_rate": SETTINGS["learning_rate"],
        "recipe.optimizer.weight_decay": SETTINGS["weight_decay"],
        "recipe.optimizer.max_grad_norm": SETTINGS["max_grad_norm"],
        "recipe.schedule.kind": SETTINGS["lr_scheduler"],
        "recipe.schedule.warmup": {"unit": "ratio", "value": SETTINGS["warmup_ratio"]},
        "recipe.schedule.duration": {"unit": "steps", "value": scene.steps}, "recipe.saving.strategy": "no",
        "machine.paths.base": str(weights), "machine.micro_batch": scene.rows, "machine.accumulation": 1,
        "machine.logging.trackers": [],
    }  # fmt: skip


def _ours(plan: Any, pairs: list[Pair]) -> list[float]:
    from expert_worker.events import Events
    from expert_worker.train import stage

    put_rows([[pair] for pair in pairs])
    events, clock = Events(), Clock()
    events.attach(clock)
    stage.run(plan, events)
    return clock.losses


def _theirs(plan: Any, scene: Scene, pairs: list[Pair], folder: Path) -> Iterator[float]:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    losses: list[float] = []

    class Listening(SFTTrainer):  # type: ignore[misc]
        """Rows come in the order of the data set, and losses are kept before they are rounded for the log."""

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            found = super().compute_loss(*args, **kwargs)
            losses.append(float((found[0] if isinstance(found, tuple) else found).detach()))
            return found

    rows = [pairs[index] for step in range(scene.steps) for index in _order(plan, len(pairs)).step(step)]
    adam = plan.recipe.optimizer
    arguments = SFTConfig(
        output_dir=str(folder / "trl"), max_steps=scene.steps, per_device_train_batch_size=scene.rows,
        max_length=scene.length, packing=False, gradient_checkpointing=False, bf16=False, fp16=False,
        learning_rate=SETTINGS["learning_rate"], lr_scheduler_type=SETTINGS["lr_scheduler"],
        warmup_steps=SETTINGS["warmup_ratio"], optim=SETTINGS["optim"], weight_decay=SETTINGS["weight_decay"],
        adam_beta1=adam.beta1, adam_beta2=adam.beta2, adam_epsilon=adam.epsilon,
        max_grad_norm=SETTINGS["max_grad_norm"],
        report_to="none", save_strategy="no", logging_strategy="no", use_cpu=True, disable_tqdm=True,
        completion_only_loss=True, train_sampling_strategy="sequential",
    )  # fmt: skip
    trainer = Listening(
        model=_started(plan, scene.steps),
        args=arguments,
        train_dataset=Dataset.from_list(
            [{"input_ids": p + c, "completion_mask": [0] * len(p) + [1] * len(c)} for p, c in rows]
        ),
        processing_class=AutoTokenizer.from_pretrained(plan.machine.paths.base),
    )
    trainer.train()
    yield from losses


def _order(plan: Any, rows: int) -> Any:
    from expert_worker.train.loader import StepSampler

    return StepSampler(rows, plan.recipe.batch.rows_per_step, plan.recipe.seed)


def _started(plan: Any, steps: int) -> Any:
    """peft's own model as ours has it before the first step: both adapters come from the seed."""
    from expert_worker.base import load_base, load_tokenizer
    from expert_worker.events import Events
    from expert_worker.train import adapter

    events = Events()
    recipe, machine = plan.recipe, plan.machine
    base = load_base(recipe.base, machine, events)
    tokenizer = load_tokenizer(recipe.base, machine.paths, events)
    return adapter.build(recipe, machine.modules, base, tokenizer, steps, events)


if __name__ == "__main__":
    sys.exit(main())
