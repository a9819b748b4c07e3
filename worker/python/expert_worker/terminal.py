"""Output to a terminal. Names of files, runs and programs may hold any character; those that could steer the
terminal or hide text are replaced, as expert-cli does it."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from typing import TextIO

from expert_worker.errors import ExpertError, Missing
from expert_worker.hidden_characters import HIDDEN, JOINERS

_KEPT = "\n\t" + "".join(map(chr, JOINERS))
_HIDDEN = "".join(f"{chr(first)}-{chr(last)}" for first, last in HIDDEN)
# A name that is not UTF-8 holds surrogates, which no terminal accepts.
INVISIBLE = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_HIDDEN}](?<![{_KEPT}])")


def visible(text: str) -> str:
    return INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def write_stdout(text: str) -> None:
    _write(sys.stdout, text)


def write_prose(text: str) -> None:
    """To standard output, broken between words where that is a terminal."""
    _write(sys.stdout, wrapped(text, _columns(sys.stdout)))


def write_stderr(text: str) -> None:
    _write(sys.stderr, wrapped(text, _columns(sys.stderr)))


def wrapped(text: str, columns: int | None) -> str:
    """As expert-cli breaks lines: what follows a line is indented as that is, by two columns or more."""
    if columns is None:
        return text
    return "\n".join(line if len(line) <= columns else _broken(line, columns) for line in text.splitlines())


def _broken(line: str, columns: int) -> str:
    indent = " " * max(2, len(line) - len(line.lstrip(" ")))
    return textwrap.fill(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def stdout_columns() -> int | None:
    """None where standard output is not a terminal."""
    return _columns(sys.stdout)


def _columns(stream: TextIO) -> int | None:
    """None where it is not a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def report_failure(error: ExpertError, *, as_json: bool = False, to_cli: bool = False) -> int:
    """Its exit code. With `as_json` standard output gets the document that expert-cli's `--json` shows. With
    `to_cli` the error's code is a line too: expert-cli reads the lines and shows them as its own."""
    write_stderr(f"error: {error.message}")
    if error.hint:
        write_stderr(f"{'' if to_cli else '  '}hint: {error.hint}")
    if to_cli:
        write_stderr(f"code: {error.code}")
    if as_json:
        problem = {"code": error.code, "message": error.message, "hint": error.hint}
        write_stdout(json.dumps({"ok": False, "exit": int(error.exit_code), "error": problem}))
    return int(error.exit_code)


def missing_package(error: ModuleNotFoundError) -> Missing:
    """For what is also started by a Python without the worker's packages."""
    return Missing(
        f"{sys.executable} has no package {error.name}",
        hint="Run `make setup`, then .venv/bin/python instead of it.",
    )


def _write(stream: TextIO, text: str) -> None:
    shown = visible(text if text.endswith("\n") else text + "\n")
    # A locale other than UTF-8 lacks characters, such as those of drawings.
    encoding = stream.encoding or "utf-8"
    stream.write(shown.encode(encoding, "replace").decode(encoding))
    stream.flush()
