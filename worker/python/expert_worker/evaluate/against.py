"""`evaluate --against`: another model, or another adapter of the same base, answers the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from expert_worker.adapter import EXPERT, check_adapter
from expert_worker.base import base_config, load_tokenizer, locate
from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.examiner import MODEL, Examiner, Scored
from expert_worker.evaluate.subject import Subject, check_trained_on, open_subject
from expert_worker.evaluate.verdict import Row
from expert_worker.events import Events
from expert_worker.plan import AgainstAdapter, AgainstModel, EvaluateRequest, Plan, Template
from expert_worker.pretokenize.template import warn_of_none
from expert_worker.record_reader import read_json
from expert_worker.results import PromptChoice
from expert_worker.run_record import final

# As the CLI says of an adapter whose base has another name (cli/src/plan/against.rs).
_MERGE = (
    "Merge it into its own base with `expert-cli export --merge`, and name the merged folder with --against."
)


@dataclass(frozen=True)
class Compared:
    """What `--against` names, on the rows of one test set."""

    name: str
    path: str | None
    scored: Scored


class Opponent:
    """Loaded after base and adapter are released."""

    def __init__(self, plan: Plan, against: AgainstModel | AgainstAdapter, events: Events) -> None:
        self.against = against
        self.name = (
            against.base.name
            if isinstance(against, AgainstModel)
            else adapter_name(Path(against.path), plan.recipe.expert)
        )
        self._path = None if isinstance(against, AgainstModel) else against.path
        self._examiner = Examiner(_plan_of(plan, against), events, _subject(plan, against, events), MODEL)

    def examine(
        self, rows: Sequence[Row], test_set: str | None = None, prompt: PromptChoice | None = None
    ) -> Compared:
        """A model is asked with the better of its two prompts, as the base is. `prompt` is the one that was
        chosen already, for a further test set."""
        if self._path is None:
            scored = self._examiner.base(rows, test_set, prompt)
        else:
            scored = self._examiner.adapter(rows, test_set)
        return Compared(self.name, self._path, scored)

    @property
    def confinement(self) -> Confinement | None:
        return self._examiner.confinement


def check(plan: Plan, events: Events) -> None:
    """Before anything is scored: a model that is not here is downloaded now, or refused, and so is one whose
    files transformers cannot read."""
    against = against_of(plan)
    if isinstance(against, AgainstModel):
        paths = _plan_of(plan, against).machine.paths
        base_config(locate(against.base, paths, events), against.base.rope_scaling)
        tokenizer = load_tokenizer(against.base, paths, events)
        if not tokenizer.chat_template:
            hint = "Its score says little if it has not learned to answer in ChatML."
            warn_of_none(against.base.name, hint, events)
    elif against is not None:
        check_adapter(Path(against.path))
        check_trained_on(plan, Path(against.path), events, _MERGE)


def against_of(plan: Plan) -> AgainstModel | AgainstAdapter | None:
    return plan.request.against if isinstance(plan.request, EvaluateRequest) else None


def adapter_name(adapter: Path, expert: str) -> str:
    """That of its expert, and of another run of this one the folder too: a run's is called as its base unless
    it is named. An adapter from elsewhere and a checkpoint have only their folder."""
    # A run's folder stands for its `final/`.
    folder = adapter.parent.name if adapter.name == final.NAME else adapter.name
    name = (read_json(adapter / EXPERT) or {}).get("name")
    if not isinstance(name, str) or not name:
        return folder
    return f"{name} ({folder})" if name == expert else name


def _subject(plan: Plan, against: AgainstModel | AgainstAdapter, events: Events) -> Subject:
    if isinstance(against, AgainstAdapter):
        return open_subject(plan, against.path, events)
    return open_subject(_plan_of(plan, against), None, events)


def _plan_of(plan: Plan, against: AgainstModel | AgainstAdapter) -> Plan:
    """The rows, scorer and decoding of the expert; of a model the base, and its tokenizer's own template."""
    if isinstance(against, AgainstAdapter):
        return plan
    template = Template(kind="tokenizer", source=None)
    recipe = plan.recipe.model_copy(update={"base": against.base, "template": template})
    paths = plan.machine.paths.model_copy(update={"base": against.folder})
    return plan.model_copy(
        update={"recipe": recipe, "machine": plan.machine.model_copy(update={"paths": paths})}
    )
