"""Weights & Biases, where its extra is installed. The key is in the environment or from `wandb login`."""

import hashlib
from typing import Any

from expert_worker.plan import Plan
from expert_worker.tracking.scalars import Point


class WeightsAndBiases:
    def __init__(self, plan: Plan) -> None:
        try:
            import wandb
        except ImportError as error:
            raise RuntimeError(
                "the package wandb is not installed: pip install 'expert-worker[wandb]'"
            ) from error
        self._run: Any = wandb.init(
            project="expert-cli",
            name=plan.recipe.expert,
            id=_run_id(plan),
            resume="allow",
            dir=plan.machine.paths.output,
            config=plan.recipe.model_dump(mode="json"),
            settings=wandb.Settings(console="off"),
        )

    def log(self, point: Point) -> None:
        self._run.log(dict(point.values), step=point.step)

    def close(self) -> None:
        self._run.finish()


def _run_id(plan: Plan) -> str:
    """A resumed run continues the same curves."""
    return hashlib.sha256(f"{plan.recipe_digest} {plan.machine.paths.output}".encode()).hexdigest()[:16]
