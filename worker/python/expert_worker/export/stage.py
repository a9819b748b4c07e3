"""`expert-cli export`: the plain adapter, or the base with the adapter merged in, as a new folder. It is
published only after it has been loaded again and compared.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from expert_worker.adapter import EXPERT, check_adapter
from expert_worker.base import base_config, locate
from expert_worker.base.adapter import read_config
from expert_worker.base.rope import rope_settings, text_config
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import AGAIN, refusals_in_words
from expert_worker.errors import BadInput, Failed
from expert_worker.events import Events
from expert_worker.export import llama_cpp
from expert_worker.export.folders import fill_with_adapter, fill_with_merged
from expert_worker.export.gguf_export import fill_with_gguf, model_file_name
from expert_worker.export.mlx_export import fill_with_mlx, mlx_command
from expert_worker.export.modelfile import gguf_commands, vllm_command, vllm_merged_command
from expert_worker.plan import Base, ExportRequest, Machine, Paths, Plan, Recipe
from expert_worker.process.work_folder import LOCK, create_work_folder, remove_abandoned
from expert_worker.record_reader import read_json
from expert_worker.results import AnswerCheck, ExportResult
from expert_worker.run_record.card import in_other_programs, is_hub_id, public_name
from expert_worker.run_record.expert import check_base_of
from expert_worker.run_record.inference import is_greedy, penalty_of

_PREFIX = ".exporting-"


def run(plan: Plan, events: Events) -> JsonValue:
    request = plan.request
    if not isinstance(request, ExportRequest):
        raise Failed(f"The export stage was asked to {request.stage}")
    adapter, target = Path(request.adapter), Path(request.target)
    check_adapter(adapter)
    record = read_json(adapter / EXPERT) or {}
    if request.gguf:
        llama_cpp.require()
    if request.merge or request.gguf or request.mlx:
        base = locate(plan.recipe.base, plan.machine.paths, events)
        beside = f"beside --from {shlex.quote(str(adapter))}"
        hint = f"Name that base's folder with --model, {beside}, or train again."
        check_base_of(adapter, base, events, hint)
    with refusals_in_words(target.parent, f"write {target.name}", int, lambda: [], AGAIN):
        target.parent.mkdir(parents=True, exist_ok=True)
        check = _build(plan.recipe, plan.machine, events, request)
    grammar = record.get("grammar")
    if isinstance(grammar, dict) and grammar.get("name"):
        events.warning("grammar-not-applied", in_other_programs(str(grammar["name"])))
    # Fields that are not given are left out of the document.
    answers = {"answers": check} if isinstance(check, AnswerCheck) else {}
    return ExportResult(
        target=str(target),
        merged=request.merge,
        bytes=files.folder_bytes(target),
        logits_difference=None if isinstance(check, AnswerCheck) else check,
        commands=_commands(plan, request, events),
        **answers,
    ).as_json()


def _build(recipe: Recipe, machine: Machine, events: Events, request: ExportRequest) -> float | AnswerCheck:
    adapter, target = Path(request.adapter), Path(request.target)
    found: list[float | AnswerCheck] = []

    def fill(folder: Path) -> None:
        if request.gguf:
            quantize = request.quantize
            checked = fill_with_gguf(
                recipe, machine, events, adapter, folder, merge=request.merge, quantize=quantize
            )
            found.append(checked)
        elif request.mlx:
            found.append(fill_with_mlx(recipe, machine, events, adapter, folder))
        elif request.merge:
            found.append(fill_with_merged(recipe, machine, events, adapter, folder))
        else:
            found.append(fill_with_adapter(recipe, machine, events, adapter, folder))
        files.sync_tree(folder)
        _demand_free(target)

    remove_abandoned(_work_folders(target))
    work = create_work_folder(_PREFIX, target.parent)
    try:
        files.build_new_folder(target, work.path, fill)
    finally:
        work.close()
    return found[0]


def _work_folders(target: Path) -> Iterator[Path]:
    """Of exports to this target, which may be running or dead."""
    for path in sorted(target.parent.glob(f"{_PREFIX}*")):
        with suppress(OSError):
            if {inside.name for inside in path.iterdir()} <= {LOCK, target.name}:
                yield path


def _commands(plan: Plan, request: ExportRequest, events: Events) -> tuple[str, ...]:
    recipe = plan.recipe
    target, name = Path(request.target), recipe.expert
    greedy = is_greedy(target)
    if request.gguf:
        adapter = None if request.merge else f"{name}.gguf"
        model = model_file_name(name, merge=request.merge, quantize=request.quantize)
        penalty = penalty_of(target)
        return gguf_commands(target, name, model, adapter, greedy=greedy, repetition_penalty=penalty)
    if request.mlx:
        return (mlx_command(target, _loadable_base(plan)),)
    if request.merge:
        return (vllm_merged_command(target, name, greedy=greedy),)
    rope = _named_rope(recipe.base, plan.machine.paths, events)
    base, config = _loadable_base(plan), read_config(target)
    command = vllm_command(target, name, base, config, rope, greedy=greedy)
    return () if command is None else (command,)


def _loadable_base(plan: Plan) -> str:
    """As other programs find it: by its Hub id, or else by its folder."""
    name, folder = public_name(plan.recipe.base.name), plan.machine.paths.base
    return name if folder is None or is_hub_id(name) else folder


def _named_rope(base: Base, paths: Paths, events: Events) -> dict[str, Any] | None:
    """What of the base's configuration the training scaled, after a warning."""
    if base.rope_scaling is None:
        return None
    events.warning(
        "rope-beside-adapter",
        f"The adapter needs its base with rope_scaling {json.dumps(rope_settings(base.rope_scaling))}: a "
        "program that loads the base as it is answers otherwise",
        "Give that program these rope_parameters, or export with --merge, which writes them.",
    )
    config = base_config(locate(base, paths, events), base.rope_scaling)
    text = text_config(config)
    scaled = {"rope_parameters": dict(text.rope_parameters)}
    return scaled if text is config else {"text_config": scaled}


def _demand_free(target: Path) -> None:
    """The CLI has refused a target in use. Loading and comparing takes minutes, in which another export may
    have come first."""
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise BadInput(
            f"{target} is in use since this export began",
            hint="Name another folder with --to.",
            code="target-in-use",
        )
