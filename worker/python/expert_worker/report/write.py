"""From runs' folders to their reports, and to the page that lists them."""

from collections.abc import Sequence
from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput, ExpertError, storage_error
from expert_worker.events import Events
from expert_worker.report.index import index
from expert_worker.report.page import page
from expert_worker.report.read import Run, read_run

NAME = "report.html"
_RECORDS = ("events.jsonl", "run.json", "evaluation.json")


def refresh(folder: Path, events: Events) -> None:
    """At the end of a stage: a report that cannot be written is a pity, not a failure."""
    try:
        write_report(folder)
    except ExpertError as error:
        events.warning("report-not-written", error.message, error.hint)


def write_report(folder: Path) -> Path:
    return _put(folder / NAME, page(_read(folder)))


def write_index(path: Path, folders: Sequence[Path]) -> Path:
    """Each run's own report too, so that no link is dead and no page older than its run."""
    runs = [_read(folder) for folder in folders]
    for run in runs:
        _put(run.folder / NAME, page(run))
    return _put(path, index(runs, path.parent))


def _read(folder: Path) -> Run:
    if not any((folder / name).is_file() for name in _RECORDS):
        raise BadInput(
            f"{folder} holds no run: there is no {' or '.join(_RECORDS)}",
            hint="Name the output folder of a run; `expert-cli runs` lists them.",
            code="no-run",
        )
    return read_run(folder)


def _put(path: Path, text: str) -> Path:
    try:
        files.replace(path, text.encode())
    except OSError as error:
        raise storage_error(error, "write the report") from error
    return path
