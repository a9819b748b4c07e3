"""From a run's folder to its report."""

from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput, ExpertError, storage_error
from expert_worker.events import Events
from expert_worker.report.page import page
from expert_worker.report.read import read_run

NAME = "report.html"
_RECORDS = ("events.jsonl", "run.json", "evaluation.json")


def refresh(folder: Path, events: Events) -> None:
    """At the end of a stage: a report that cannot be written is a pity, not a failure."""
    try:
        write_report(folder)
    except ExpertError as error:
        events.warning("report-not-written", error.message, error.hint)


def write_report(folder: Path) -> Path:
    if not any((folder / name).is_file() for name in _RECORDS):
        raise BadInput(
            f"{folder} holds no run: there is no {' or '.join(_RECORDS)}",
            hint="Name the output folder of a run; `expert-cli runs` lists them.",
            code="no-run",
        )
    path = folder / NAME
    try:
        files.replace(path, page(read_run(folder)).encode())
    except OSError as error:
        raise storage_error(error, "write the report") from error
    return path
