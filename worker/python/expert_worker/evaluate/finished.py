"""Whether a folder is that of a finished training."""

from pathlib import Path

from expert_worker.adapter import CONFIG
from expert_worker.errors import BadInput


def refuse_unfinished(run: Path) -> None:
    if not (run / "plan.json").is_file() or not (run / "final" / CONFIG).is_file():
        raise BadInput(
            f"{run} is not a finished run: it needs a plan.json and a final/",
            hint="Name the output folder of `expert-cli train`.",
            code="no-run",
        )
