"""An attempt, an area of attempts, and what counts as surviving one."""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

# What expert-cli --help documents.
DOCUMENTED = frozenset({0, 1, 2, 3, 4, 5, 130, 143})
REFUSED = DOCUMENTED - {0}


@dataclass
class Tally:
    """Many attempts of one kind, such as fuzzed ones."""

    attempts: int
    fell: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Attempt:
    """`run` gets its own empty folder; it fails by raising, as a test does."""

    name: str
    run: Callable[[Path], Tally | None]


@dataclass(frozen=True)
class Area:
    name: str
    title: str
    attempts: Callable[[bool], Iterable[Attempt]]
    """Given whether only a quick sample is wanted."""


@dataclass
class Outcome:
    area: Area
    attempts: int = 0
    fell: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def survived(self) -> int:
        return self.attempts - len(self.fell)


def carry_out(
    area: Area, folder: Path, *, quick: bool, progress: Callable[[str], None], only: str | None = None
) -> Outcome:
    outcome = Outcome(area)
    began = time.monotonic()
    for number, attempt in enumerate(area.attempts(quick)):
        if only is not None and only not in attempt.name:
            continue
        place = folder / f"{area.name}-{number}"
        place.mkdir(parents=True)
        at = time.monotonic()
        try:
            tally = attempt.run(place)
            fell = [(attempt.name, fault) for fault in tally.fell] if tally else []
            outcome.attempts += tally.attempts if tally else 1
        except Exception as error:
            outcome.attempts += 1
            fell = [(attempt.name, reason(error))]
        outcome.fell += fell
        for name, fault in fell:
            progress(f"{area.name}: {name}: {fault}")
        if (spent := time.monotonic() - at) > 30:
            progress(f"{area.name}: {attempt.name} took {spent:.0f} s")
        remove(place)
    outcome.seconds = time.monotonic() - began
    return outcome


def reason(error: Exception) -> str:
    if isinstance(error, AssertionError) and str(error):
        return " ".join(str(error).split())[:400]
    return " ".join(traceback.format_exception_only(error)).strip()[:400] + _where(error)


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    return f" ({Path(last.filename).name}:{last.lineno}: {last.line})"


def remove(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink() and not os.access(path, os.W_OK | os.X_OK):
            path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)
