"""`expert-cli export`: to a new folder, published only after it has been loaded again and compared."""

from pathlib import Path
from typing import Any

from expert_worker.adapter import missing_file
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.errors import BadInput, Failed
from expert_worker.events import Events
from expert_worker.export.merge import fill_with_merged
from expert_worker.export.plain import fill_with_adapter
from expert_worker.plan import ExportRequest, Plan


def run(plan: Plan, events: Events) -> dict[str, Any]:
    request = plan.request
    if not isinstance(request, ExportRequest):
        raise Failed(f"The export stage was asked to {request.stage}")
    adapter, target = Path(request.adapter), Path(request.target)
    _check_adapter(adapter)
    _check_target(target)
    with refusals_in_words(target.parent, f"write {target.name}", int, lambda: []):
        target.parent.mkdir(parents=True, exist_ok=True)
        difference = _build(plan, events, adapter, target)
    return {
        "target": str(target),
        "merged": request.merge,
        "bytes": files.folder_bytes(target),
        "logits_difference": difference,
    }


def _build(plan: Plan, events: Events, adapter: Path, target: Path) -> float:
    merge = isinstance(plan.request, ExportRequest) and plan.request.merge
    found: list[float] = []

    def fill(folder: Path) -> None:
        filler = fill_with_merged if merge else fill_with_adapter
        found.append(filler(plan, events, adapter, folder))
        files.sync_tree(folder)

    if target.is_dir():
        target.rmdir()
    files.build_folder(target, fill)
    return found[0]


def _check_adapter(adapter: Path) -> None:
    name = missing_file(adapter)
    if name is not None:
        raise BadInput(
            f"{adapter} is not an adapter: it has no {name}",
            hint="Train first, or name the run's final/ or one of its checkpoints with --adapter.",
            code="no-adapter",
        )


def _check_target(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(
            f"{target} exists and is not an empty folder",
            hint="Name another folder; export never overwrites.",
            code="target-in-use",
        )
