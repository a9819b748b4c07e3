"""What the Hub refuses is named, whichever function asked for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from plans import example_plan

from expert_worker.base import locate, stage
from expert_worker.errors import Missing
from expert_worker.events import Events
from expert_worker.plan import Source
from expert_worker.pretokenize.locate import tokenizer_folder
from expert_worker.pretokenize.sources import _hub_dataset

_SAID = "401 Client Error. (Request ID: Root=1-a)\n\nInvalid credentials.\nPlease look."


def refusal(kind: type[HfHubHTTPError]) -> HfHubHTTPError:
    return kind(_SAID, response=cast(Any, SimpleNamespace(status_code=401, headers={}, request=None)))


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


OFFLINE = caused(LocalEntryNotFoundError("Cannot find an appropriate snapshot"), OfflineModeIsEnabled("off"))
CASES = [
    (refusal(GatedRepoError), "a/b is gated", "terms at https://huggingface.co/{}a/b "),
    (caused(LocalEntryNotFoundError("x"), refusal(GatedRepoError)), "a/b is gated", "or set HF_TOKEN"),
    (refusal(RepositoryNotFoundError), "there is no {} a/b on the Hub, or it is private", "Check the name"),
    (OFFLINE, "HF_HUB_OFFLINE is set", "Unset"),
    (refusal(HfHubHTTPError), ": Invalid credentials.", "check the network"),
    (OSError(), ": OSError", "check the network"),
]


@pytest.mark.parametrize(("error", "reason", "hint"), CASES)
@pytest.mark.parametrize("of", ["base", "tokenizer", "data"])
def test_the_reason_and_what_to_do(
    error: Exception, reason: str, hint: str, of: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    monkeypatch.setattr("datasets.load_dataset", refuse)
    plan = example_plan(tmp_path, {"machine.paths.base": None, "recipe.base.name": "a/b"})
    events = Events.in_memory()[0]
    with pytest.raises(Missing) as failure:
        if of == "base":
            locate(plan.recipe.base, plan.machine.paths, events)
        elif of == "tokenizer":
            tokenizer_folder(plan.recipe.base, plan.machine.paths, events)
        else:
            _hub_dataset(Source(name="a/b::train", format="huggingface", weight=1.0, task=None))
    kind, folder = ("data set", "datasets/") if of == "data" else ("model", "")
    assert failure.value.message.endswith(reason.format(kind))
    assert hint.format(folder).lower() in (failure.value.hint or "").lower()


def test_the_stage_that_fetches_the_base_fetches_data_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("expert_worker.pretokenize.sources._hub_dataset", lambda it: asked.append(it.name))
    monkeypatch.setattr("expert_worker.base.stage.locate", lambda *_: tmp_path)
    hub = {"format": "huggingface", "weight": 1.0, "task": None}
    parts = {f"recipe.data.{part}": [{"name": f"a/b::{part}", **hub}] for part in ("validation", "test")}
    plan = example_plan(tmp_path, parts)
    assert stage.run(plan, Events.in_memory()[0]) == {"ok": True, "folder": str(tmp_path)}
    assert asked == ["a/b::validation", "a/b::test"]
