"""From runs' folders to their reports, and to the page that lists them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput, ExpertError, storage_error
from expert_worker.events import Events
from expert_worker.report.index import Listed, index
from expert_worker.report.page import page
from expert_worker.report.read import Run, read_run
from expert_worker.report.search import search_page
from expert_worker.routing.models import RouterRecord
from expert_worker.run_scores import SCORES

NAME = "report.html"
_RECORDS = ("events.jsonl", "run.json", SCORES)


def refresh(folder: Path, events: Events) -> None:
    """At the end of a stage. Whatever is wrong with a report, the stage's own work is done."""
    try:
        write_report(folder)
    except Exception as error:
        message, hint = _words(folder, error)
        events.warning("report-not-written", message, hint)


def write_report(folder: Path) -> Path:
    return _put(folder / NAME, page(_read(folder)))


def write_search(folder: Path) -> Path:
    return _put(folder / NAME, search_page(folder))


def write_index(
    path: Path,
    folders: Sequence[Path],
    warn: Callable[[str], None] = lambda _: None,
    router: RouterRecord | None = None,
) -> Path:
    """Each run's own report too, so that no link is dead and no page older than its run. A folder that cannot
    be read is left out: `warn` hears why, and the page says so."""
    listed: list[Listed] = []
    left_out: list[str] = []
    refused: OSError | None = None
    for folder in folders:
        try:
            run = _read(folder)
            _put(folder / NAME, page(run))
            listed.append(Listed.of(run))
        except Exception as error:
            left_out.append(_words(folder, error)[0])
            warn(left_out[-1])
            if isinstance(error, OSError):
                refused = refused or error
    if not listed and refused is not None:
        raise storage_error(refused, "write the report")
    if not listed:
        raise BadInput(
            f"None of these folders can be shown. {' '.join(left_out[:1])}",
            hint="Name a folder that holds runs; `expert-cli runs` lists them.",
            code="no-run",
        )
    return _put(path, index(listed, path.parent, left_out, router))


def _words(folder: Path, error: Exception) -> tuple[str, str | None]:
    if isinstance(error, ExpertError):
        return error.message, error.hint
    reason = (str(error).strip().splitlines() or ["no message"])[0]
    return (
        f"{folder / NAME} cannot be written: {type(error).__name__}: {reason}",
        f"The run itself is unharmed. Keep {folder / 'events.jsonl'} and report this as a bug of expert-cli.",
    )


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
