"""Training from Python, such as a notebook: `from expert_worker.notebook import train`.

It runs `expert-cli train`: checks, plan, folders and results are those of the command line. The result is the
command's JSON document, typed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from expert_worker.errors import ExpertError, Missing
from expert_worker.record_reader import read_record
from expert_worker.recorded import TrainResult

PROGRAM = "expert-cli"
_BUILT = Path(__file__).parents[3] / "target" / "release" / PROGRAM


class TrainingFailed(ExpertError):
    """`expert-cli train` ended without a result; `exit_status` is its exit code."""

    def __init__(self, message: str, *, hint: str | None, code: str | None, exit_status: int) -> None:
        super().__init__(message, hint=hint, code=code)
        self.exit_status = exit_status

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def train(
    manifest: str | os.PathLike[str],
    *,
    settings: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    evaluate: bool = False,
    options: Sequence[str] = (),
    program: str | None = None,
) -> TrainResult:
    """Trains the expert of a manifest or folder and returns its result.

    `settings` are changes by dotted path (`{"training.config.epochs": 1}`), `options` further words of the
    command line (`["--resume"]`). Progress goes to standard error. Interrupting saves a checkpoint, then
    raises KeyboardInterrupt.
    """
    command = [program or _program(), "train", os.fspath(manifest), "--json", "--python", sys.executable]
    for path, value in (settings or {}).items():
        command += ["--set", f"{path}={json.dumps(value, default=os.fspath)}"]
    command += ["--output", os.fspath(output)] if output is not None else []
    command += ["--evaluate"] if evaluate else []
    status, text = _run([*command, *options])
    document = _document(text)
    if status != 0:
        error = document.get("error") or {}
        raise TrainingFailed(
            error.get("message") or f"{PROGRAM} ended with exit code {status}",
            hint=error.get("hint"),
            code=error.get("code"),
            exit_status=status,
        )
    result, _ = read_record(TrainResult, document)
    if result.adapter is None:
        raise TrainingFailed(
            f"{PROGRAM} train gave no adapter",
            hint="Leave out options with which it does not train, such as --dry-run.",
            code="no-adapter",
            exit_status=status,
        )
    return result


def _program() -> str:
    beside = Path(sys.executable).parent / PROGRAM
    found = shutil.which(PROGRAM) or next((str(it) for it in (beside, _BUILT) if it.is_file()), None)
    if found is None:
        raise Missing(f"{PROGRAM} is not on the path", hint="Install it, or name it with program=.")
    return found


def _run(command: Sequence[str]) -> tuple[int, str]:
    """The exit code and standard output. Standard error is copied: a notebook shows what Python writes."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as result,
        subprocess.Popen(
            command, stdout=result, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True
        ) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                sys.stderr.write(line)
            status = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGINT)
            process.communicate()
            raise
        result.seek(0)
        return status, result.read()


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
