"""Scorers by name: built-in ones, those that an installed package offers, and the expert's own function."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from expert_worker.errors import BadInput
from expert_worker.evaluate.verdict import Scorer

if TYPE_CHECKING:
    # The scoring process starts without pydantic.
    from expert_worker.plan import Evaluation, Paths

ENTRY_POINTS = "expert_worker.scorers"
DEFAULT = "exact"
BUILT_IN = {
    "sql": "expert_worker.evaluate.scorers.sql:SqlScorer",
    "json": "expert_worker.evaluate.scorers.json:JsonScorer",
    "cypher": "expert_worker.evaluate.scorers.cypher:CypherScorer",
    "typescript": "expert_worker.evaluate.scorers.typescript:TypescriptScorer",
    "exact": "expert_worker.evaluate.scorers.exact:ExactScorer",
    "regex": "expert_worker.evaluate.scorers.regex:RegexScorer",
}
PYTHON = "python"
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class ChosenScorer:
    """A scorer with what it is made from. The scoring process gets it as JSON."""

    name: str = DEFAULT
    settings: Mapping[str, Any] = field(default_factory=dict)
    # The text of the expert's own file.
    source: str | None = None

    @property
    def sha256(self) -> str | None:
        """Of the expert's own file, as it was when it was read."""
        return None if self.source is None else hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def title(self) -> str:
        """As people name it."""
        return f"{self.settings['file']}:{self.settings['function']}" if self.is_own else self.name

    @property
    def is_own(self) -> bool:
        return self.name == PYTHON

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "settings": dict(self.settings), "source": self.source}

    def make(self) -> Scorer:
        """A fresh scorer; in the scoring process."""
        if self.is_own:
            from expert_worker.evaluate.scorers.python import PythonScorer

            return PythonScorer(self.settings["file"], self.settings["function"], self.source or "")
        return find_scorer(self.name)


def chosen_scorer(chosen: Evaluation, paths: Paths) -> ChosenScorer:
    """The scorer, with the text of the expert's own file."""
    settings = chosen.scorer_settings.model_dump(mode="json") if chosen.scorer_settings else {}
    source = None
    if chosen.scorer == PYTHON:
        source = _text(Path(paths.scorer or settings.get("file", "")))
    return ChosenScorer(chosen.scorer or DEFAULT, settings, source)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise BadInput(f"{path} is larger than 1 MiB, too much for a scorer", code="scorer-failed")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"The scorer {path} cannot be read: {error}",
            hint="evaluation.scorer.python names a Python file in UTF-8.",
            code="scorer-failed",
        ) from None


def find_scorer(name: str) -> Scorer:
    """A fresh scorer of that name."""
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        return cast(Scorer, getattr(importlib.import_module(module), kind)())
    for point in offered(name):
        return cast(Scorer, point.load()())
    raise unknown(name)


def check_scorer(name: str) -> None:
    """Refuses a name that nothing answers to, before any model is loaded."""
    if name not in BUILT_IN and name != PYTHON and not offered(name):
        raise unknown(name)


def offered(name: str) -> list[EntryPoint]:
    """The entry points of `name` or of `package:name`."""
    package, _, entry = name.rpartition(":")
    points = list(entry_points(group=ENTRY_POINTS, name=entry))
    return [point for point in points if not package or _of(point) == _normalized(package)]


def _of(point: EntryPoint) -> str | None:
    return _normalized(point.dist.name) if point.dist else None


def _normalized(package: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", package).lower()


def unknown(name: str) -> BadInput:
    installed = [f"{_of(point)}:{point.name}" for point in entry_points(group=ENTRY_POINTS)]
    offered = [*sorted(BUILT_IN), *sorted(installed)]
    return BadInput(
        f"There is no scorer named {name!r}",
        hint=f"evaluation.scorer may be {', '.join(offered)}. A package can offer more as {ENTRY_POINTS}.",
        code="unknown-scorer",
    )
