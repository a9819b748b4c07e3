"""Before the ranks of a launcher train: all have the same recipe, inputs and version, and see the folders
that rank 0 writes. What rank 0 decided holds for all; device, paths and threads remain each rank's."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import JsonValue

from expert_worker.base import locate
from expert_worker.errors import storage_error
from expert_worker.events import Events
from expert_worker.plan import Machine, Plan, TrainRequest, recipe_document
from expert_worker.train.dataset import Dataset, for_this_run, open_dataset, open_shared
from expert_worker.train.distributed import DistContext

# A network file system shows another machine's new file after some seconds.
_VISIBLE = 15.0
_ROUND = 0.2

_Found = TypeVar("_Found")


def agreed(plan: Plan, dist: DistContext) -> Plan:
    """The plan of this rank with rank 0's decisions; processes of ours share one plan."""
    if not dist.launched:
        return plan
    first = dist.broadcast_object(_facts(plan))
    dist.raise_objection(
        difference(first, _facts(plan)),
        "ranks-differ",
        "Start all ranks with the same manifest, options, data, base and version of expert-cli.",
    )
    _check_output(Path(plan.machine.paths.output), dist)
    decided = dist.broadcast_object(
        {part: getattr(plan, part).model_dump_json(by_alias=True) for part in ("machine", "request")}
    )
    if dist.is_main_process:
        return plan
    machine = Machine.model_validate_json(decided["machine"])
    own = {name: getattr(plan.machine, name) for name in ("device", "paths", "threads", "judge")}
    request = TrainRequest.model_validate_json(decided["request"])
    return plan.model_copy(update={"machine": machine.model_copy(update=own), "request": request})


def _facts(plan: Plan) -> dict[str, JsonValue]:
    """What must be the same in all ranks."""
    inputs = plan.inputs.model_dump(mode="json") if plan.inputs is not None else {}
    return {
        "contract": plan.contract,
        "torch": torch.__version__,
        "device": plan.machine.device.kind,
        "recipe_digest": plan.recipe_digest,
        "recipe": recipe_document(plan.recipe),
        "inputs": {name: value for name, value in inputs.items() if name not in ("recipe", "template")},
    }


def difference(first: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    """What this rank has otherwise than rank 0, in words; an unknown digest does not count."""
    if first["inputs"].get("code") != own["inputs"].get("code") or first["contract"] != own["contract"]:
        found = _changed(first["inputs"].get("code"), own["inputs"].get("code"), "code")
        return f"runs another version of expert-cli than rank 0: {found or 'contract'}"
    if first["recipe_digest"] != own["recipe_digest"]:
        found = _changed(first["recipe"], own["recipe"], "recipe") or "recipe"
        return f"has another manifest or other options than rank 0: {found}"
    for what, words in (("data", "other data"), ("base", "another base"), ("tokenizer", "another tokenizer")):
        before, now = first["inputs"].get(what), own["inputs"].get(what)
        if before and now and before != now:
            return f"has {words} than rank 0: {_changed(before, now, what)}"
    for what, words in (("device", "another kind of device"), ("torch", "another version of torch")):
        if first[what] != own[what]:
            return f"has {words} than rank 0: {_changed(first[what], own[what], what)}"
    return None


def _changed(first: Any, own: Any, name: str) -> str | None:
    """The first value that differs: its path, the value here and that of rank 0."""
    if isinstance(first, dict) and isinstance(own, dict):
        parts = (_changed(first.get(key), own.get(key), f"{name}.{key}") for key in sorted({*first, *own}))
        return next(filter(None, parts), None)
    if first == own:
        return None
    return f"{name} is {_short(own)}, and {_short(first)} on rank 0"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_output(output: Path, dist: DistContext) -> None:
    """The others must see the randomly named file of rank 0 under their own path."""
    # The CLI knows this form of name as its own, should a kill leave the file.
    name = f".writing-{uuid.uuid4().hex[:6]}"
    token = uuid.uuid4().hex
    if dist.is_main_process:
        try:
            (output / name).write_text(token)
        except OSError as error:
            raise storage_error(error, "write to the output folder") from error
    name, token = dist.broadcast_object([name, token])
    objection = None
    if not dist.is_main_process and _await(lambda: _holds(output / name, token)) is None:
        objection = f"does not see what rank 0 writes to the output folder: it looks in {output}"
    try:
        dist.raise_objection(
            objection, "not-shared", "Name a folder that all machines share with -o, such as one on NFS."
        )
    finally:
        if dist.is_main_process:
            (output / name).unlink(missing_ok=True)


def _holds(path: Path, token: str) -> bool | None:
    try:
        return path.read_text() == token or None
    except OSError:
        return None


def _await(look: Callable[[], _Found | None]) -> _Found | None:
    deadline = time.monotonic() + _VISIBLE
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(_ROUND)
    return found


def open_with_others(plan: Plan, events: Events, dist: DistContext) -> Dataset:
    """Rank 0's token cache in all ranks. Without a cache that can be written each tokenizes for itself."""
    dataset = open_dataset(plan, events) if dist.is_main_process else None
    if dist.is_main_process:
        locate(plan.recipe.base, plan.machine.paths, events)
    found = dist.broadcast_object({"key": dataset.key, "is_cached": dataset.mapped} if dataset else None)
    objection = None
    if dataset is None:
        if found["is_cached"]:
            dataset = _await(lambda: open_shared(plan, found["key"], events))
            if dataset is None:
                objection = (
                    f"does not see the token cache that rank 0 wrote: it looks in {plan.machine.paths.cache}"
                )
        else:
            dataset = for_this_run(plan, events)
            if dataset.key != found["key"]:
                objection = "has other rows than rank 0"
        locate(plan.recipe.base, plan.machine.paths, events)
    try:
        dist.raise_objection(
            objection,
            "not-shared",
            "Set training.config.pretokenized_cache to a folder that all machines share.",
        )
    except BaseException:
        if dataset is not None:
            dataset.close()
        raise
    assert dataset is not None
    return dataset
