"""What a run is trained on, taken when training starts: files may be edited before it ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from expert_worker.base import locate
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Machine, Plan
from expert_worker.pretokenize.foreign import is_foreign
from expert_worker.pretokenize.inputs import DIGEST_BUDGET
from expert_worker.pretokenize.plan_digest import folder_digest
from expert_worker.pretokenize.system_message import common_system_message
from expert_worker.results import FileDigest
from expert_worker.run_record.digests import BaseFiles, data_digests


@dataclass(frozen=True)
class TrainedData:
    digests: dict[str, FileDigest | None]
    # That the training rows have in common.
    system_message: str | None
    base: BaseFiles
    tokenized: str | None = None
    """The folder of the rows where another tool tokenized them."""


def trained_data(plan: Plan, cache_key: str, events: Events) -> TrainedData:
    """Refuses data that is not as `expert-cli` found it: the adapter would be recorded with other digests."""
    events.stage("digest data", DIGEST_BUDGET)
    places = plan.machine.paths.data
    digests = data_digests(places)
    for name, planned in (plan.inputs.data if plan.inputs is not None else {}).items():
        # A dataset of the Hub is known by its commit.
        if name in places and planned != _digest(digests[name], Path(places[name])):
            raise BadInput(
                f"{name} has changed since this training was planned",
                hint="Repeat the command: it trains on the data as it is now.",
                code="data-changed",
            )
    base = BaseFiles(locate(plan.recipe.base, plan.machine.paths, events))
    if not is_foreign(cache_key):
        return TrainedData(digests, common_system_message(plan.recipe.data, places), base)
    # No row was learned of the manifest's data.
    of_test = {source.name for source in plan.recipe.data.test}
    folder = _tokenized_rows(plan.machine)
    kept = {name: digest for name, digest in digests.items() if name in of_test}
    return TrainedData({folder: None, **kept}, None, base, folder)


def _tokenized_rows(machine: Machine) -> str:
    """As `expert-cli` names them among the inputs."""
    folder, expert = Path(machine.paths.cache), Path(machine.paths.expert_dir)
    return folder.relative_to(expert).as_posix() if folder.is_relative_to(expert) else folder.name


def _digest(file: FileDigest | None, place: Path) -> str:
    return file.sha256 if file is not None else folder_digest(place)
