"""`python -m expert_worker.bench COMMAND`: what `expert-cli bench` and `scripts/` start."""

from __future__ import annotations

import argparse
import importlib
import sys

from expert_worker.errors import ExpertError
from expert_worker.exit import Exit
from expert_worker.terminal import missing_package, report_failure

# Name -> help. Each is a module of this package, imported when it is run.
COMMANDS = {
    "watch": "sample device and process beside a running train, and say what it waits for",
    "timeline": "draw where the time of a run went, or of two",
    "holders": "show who holds GPU memory, and free what dead runs hold",
    "ablation": "draw what `bench ablate` measured",
}


def main(arguments: list[str] | None = None, *, program: str = "python -m expert_worker.bench") -> int:
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, words in COMMANDS.items():
        commands.add_parser(name, help=words, add_help=False)
    name = parser.parse_args(given[:1]).command
    return single(name, given[1:], program=f"{program} {name}")


def single(name: str, arguments: list[str], *, program: str) -> int:
    """Runs one command. The scripts call it, also from a Python without the packages."""
    try:
        return _command(name, arguments, program)
    except ModuleNotFoundError as error:
        return report_failure(missing_package(error))
    except BrokenPipeError:
        return Exit.DONE


def _command(name: str, arguments: list[str], program: str) -> int:
    command = importlib.import_module(f"expert_worker.bench.{name}")
    parser = argparse.ArgumentParser(prog=program, description=command.__doc__)
    command.add_options(parser)
    given = parser.parse_args(arguments)
    try:
        code: int = command.run_command(given)
    except ExpertError as error:
        return report_failure(error, as_json=bool(getattr(given, "json", False)))
    return code


if __name__ == "__main__":
    sys.exit(main())
