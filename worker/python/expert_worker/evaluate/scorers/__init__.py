"""Scorers by name: built-in ones, those that an installed package offers, and the expert's own function."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from expert_worker.errors import BadInput, Missing
from expert_worker.evaluate.verdict import Row, Scorer

if TYPE_CHECKING:
    # The scoring process starts without pydantic.
    from expert_worker.evaluate.llm_judge import LlmJudge
    from expert_worker.plan import Data, Evaluation, JudgeEndpoint, Paths, Plan

ENTRY_POINTS = "expert_worker.scorers"
DEFAULT = "exact"
BUILT_IN = {
    "sql": "expert_worker.evaluate.scorers.sql:SqlScorer",
    "json": "expert_worker.evaluate.scorers.json:JsonScorer",
    "cypher": "expert_worker.evaluate.scorers.cypher:CypherScorer",
    "typescript": "expert_worker.evaluate.scorers.typescript:TypescriptScorer",
    "exact": "expert_worker.evaluate.scorers.exact:ExactScorer",
    "contains": "expert_worker.evaluate.scorers.contains:ContainsScorer",
    "regex": "expert_worker.evaluate.scorers.regex:RegexScorer",
    "classification": "expert_worker.evaluate.scorers.classification:ClassificationScorer",
    "rouge": "expert_worker.evaluate.scorers.overlap:RougeScorer",
    "chrf": "expert_worker.evaluate.scorers.overlap:ChrfScorer",
}
# Packages that not everybody needs, by scorer: the module and what to install.
PACKAGES = {"rouge": ("rouge_score", "rouge-score"), "chrf": ("sacrebleu", "sacrebleu")}
# Those that parse an answer before they judge what it says.
PARSING = frozenset({"sql", "json", "cypher", "typescript"})
CLASSIFICATION = "classification"
PYTHON = "python"
JUDGE = "judge"
MOST_LABELS = 200
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class ChosenScorer:
    """A scorer with what it is made from. The scoring process gets it as JSON."""

    name: str = DEFAULT
    settings: Mapping[str, Any] = field(default_factory=dict)
    # The text of the expert's own file.
    source: str | None = None
    # Of `judge`, which is asked outside the sandbox.
    judge: LlmJudge | None = None

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
        return find_scorer(self.name, **{key: it for key, it in self.settings.items() if key != "kind"})

    @property
    def has_parser(self) -> bool:
        return self.name in PARSING

    @property
    def metric(self) -> str | None:
        """The name of its mean, if it has one besides "mean score"."""
        variant = str(self.settings.get("variant", "rougeL"))
        return {"rouge": f"ROUGE-{variant[5:]} F1", "chrf": "chrF"}.get(self.name)


def chosen_scorer(
    chosen: Evaluation, data: Data, paths: Paths, validation: Sequence[Row] | None = None
) -> ChosenScorer:
    """The scorer, with the text of the expert's own file. `validation` are the validation rows where they
    were read already."""
    settings = chosen.scorer_settings.model_dump(mode="json") if chosen.scorer_settings else {}
    source = None
    if chosen.scorer == PYTHON:
        source = _text(Path(paths.scorer or settings.get("file", "")))
    if chosen.scorer == CLASSIFICATION and not settings:
        settings = {"labels": _labels_of_rows(chosen, data, paths, validation)}
    return ChosenScorer(chosen.scorer or DEFAULT, settings, source)


def scorer_title(chosen: Evaluation) -> str:
    """The title of the scorer, without reading its file or rows."""
    settings = chosen.scorer_settings.model_dump(mode="json") if chosen.scorer_settings else {}
    return ChosenScorer(chosen.scorer or DEFAULT, settings).title


def scorer_of(plan: Plan) -> ChosenScorer:
    """What scores the answers of test rows."""
    from expert_worker.evaluate.scored_rows import may_lack_data, rows_beside

    chosen, data = plan.recipe.evaluation, plan.recipe.data
    if (judge := chosen_judge(chosen, plan.machine.judge)) is not None:
        return judge
    needed = chosen.scorer == CLASSIFICATION and may_lack_data(plan)
    return chosen_scorer(
        chosen, data, plan.machine.paths, rows_beside(plan, data.validation) if needed else None
    )


def chosen_judge(chosen: Evaluation, endpoint: JudgeEndpoint | None) -> ChosenScorer | None:
    """The model that scores answers, where one does."""
    settings = chosen.scorer_settings
    from expert_worker.evaluate.llm_judge import LlmJudge
    from expert_worker.plan.models import ScorerSettingsJudge

    if endpoint is None or not isinstance(settings, ScorerSettingsJudge):
        return None
    judge = LlmJudge(endpoint, settings.model, settings.instructions)
    return ChosenScorer(JUDGE, settings.model_dump(mode="json"), judge=judge)


def _labels_of_rows(
    chosen: Evaluation, data: Data, paths: Paths, validation: Sequence[Row] | None
) -> list[str]:
    """The reference answers of test and validation rows."""
    from expert_worker.evaluate.answer import unfenced
    from expert_worker.evaluate.rows import rows_of, skipped_rows

    sources = [*data.test, *(data.validation if validation is None else ())]
    rows = rows_of(sources, data.field_mapping, paths.data, broken=skipped_rows(data))
    rows += validation or ()
    found = {unfenced(str(row["completion"])) for row in rows}
    found |= {unfenced(case.expected) for case in chosen.test_cases}
    if not 2 <= len(found) <= MOST_LABELS:
        raise BadInput(
            f"A classification needs from 2 to {MOST_LABELS} labels, and the reference answers of the test "
            f"and validation rows are {len(found)} different texts",
            hint='Name them: "scorer": {"classification": {"labels": ["yes", "no"]}}; or use another scorer.',
            code="scorer-labels",
        )
    return sorted(found)


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


def find_scorer(name: str, **settings: Any) -> Scorer:
    """A fresh scorer of that name."""
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        return cast(Scorer, getattr(importlib.import_module(module), kind)(**settings))
    for point in offered(name):
        return cast(Scorer, point.load()())
    raise unknown(name)


def check_scorer(name: str) -> None:
    """Refuses a name that nothing answers to, before any model is loaded."""
    if name not in BUILT_IN and name not in (PYTHON, JUDGE) and not offered(name):
        raise unknown(name)
    module, package = PACKAGES.get(name, ("", ""))
    if module and importlib.util.find_spec(module) is None:
        raise Missing(
            f"The scorer {name} needs the package {package}",
            hint="Install it: pip install 'expert-worker[text-metrics]'",
            code="missing-package",
        )


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
