"""`python -m expert_worker.report RUN` writes a run's report again; with `--index PAGE` those of several
runs, and the page that lists them; with `--search` the page of a search. Prints where the page is."""

import argparse
import os
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.report.write import write_index, write_report, write_search
from expert_worker.routing.models import RouterRecord, Shelf
from expert_worker.terminal import report_failure, write_stderr, write_stdout


def main(arguments: list[str] | None = None) -> int:
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    parser = argparse.ArgumentParser(prog="python -m expert_worker.report", description=__doc__)
    parser.add_argument("--index", type=Path, metavar="PAGE", help="the page that lists the runs")
    parser.add_argument(
        "--router", type=Path, metavar="SHELF", help="the experts, whose router the page of --index describes"
    )
    parser.add_argument("--search", action="store_true", help="the folder is that of a search")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="the output folder of a run")
    asked = parser.parse_args(arguments)
    if asked.search and (asked.index is not None or len(asked.runs) > 1):
        parser.error("--search takes one folder")
    if asked.index is None and len(asked.runs) > 1:
        parser.error("several runs need --index")
    try:
        if asked.search:
            path = write_search(asked.runs[0])
        else:
            path = _index(asked) if asked.index else write_report(asked.runs[0])
    except ExpertError as error:
        return report_failure(error, to_cli=True)
    if sys.stdout.isatty():
        write_stdout(str(path))
    else:
        sys.stdout.buffer.write(os.fsencode(f"{path}\n"))
    return 0


def _index(asked: argparse.Namespace) -> Path:
    router = _router(asked.router) if asked.router else None
    return write_index(asked.index, asked.runs, _warn, router)


def _router(shelf: Path) -> RouterRecord | None:
    """The runs are worth a page without it."""
    from expert_worker.routing.shelf import open_router

    try:
        return open_router(Shelf.model_validate_json(shelf.read_bytes())).record
    except ExpertError as error:
        _warn(f"the router: {error.message}")
        return None


def _warn(sentence: str) -> None:
    write_stderr(f"warning: left out: {sentence}")


if __name__ == "__main__":
    sys.exit(main())
