"""The folders that `export` writes: the adapter, or the base with the adapter merged in. Each is loaded again
and compared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from expert_worker.adapter import CONFIG, EXPERT, WEIGHTS
from expert_worker.base import load_base, load_tokenizer, locate, quantized, weight_files
from expert_worker.base.adapter import load_adapter, read_config
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import human
from expert_worker.errors import BadInput, Failed, Missing, Storage, first_line
from expert_worker.events import Events
from expert_worker.events.emitter import QUIET_BUDGET
from expert_worker.events.models import StageName
from expert_worker.export.cards import replace_card
from expert_worker.export.forms import demand_mergeable
from expert_worker.export.licenses import copy_base_license, copy_license
from expert_worker.export.own_files import copy_own_file
from expert_worker.export.placement import where_it_fits
from expert_worker.file_modes import as_readable_as_others
from expert_worker.plan import Base, Machine, Paths, Recipe
from expert_worker.run_record.card import merged_card, public_name
from expert_worker.run_record.digests import CARD, GRAMMARS
from expert_worker.run_record.expert import describe_export, system_message_of
from expert_worker.run_record.final import tokenizer_files
from expert_worker.run_record.inference import CHAT_TEMPLATE, GENERATION, inference_files
from expert_worker.train import memory

_BESIDE = (CARD, EXPERT, CHAT_TEMPLATE, GENERATION, *GRAMMARS)
_TOKENIZER = ("tokenizer_config.json", "tokenizer.json")
SLOW = 600.0
_LENGTH = 48
# Relative to the logits' own size. Merging rounds weights once to the storage type: no more may show.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}


def begin(
    events: Events, name: StageName, quiet_budget: float = QUIET_BUDGET, detail: str | None = None
) -> None:
    """The next part of an export, unless a stop was asked for: nothing of an export can be continued."""
    events.stop.raise_if_requested()
    events.stage(name, quiet_budget, detail)


def fill_with_adapter(recipe: Recipe, machine: Machine, events: Events, adapter: Path, folder: Path) -> float:
    loaded = load_base(recipe.base, machine, events, as_stored=True)
    begin(events, "copy", detail=str(adapter))
    copy_own_file(adapter / WEIGHTS, folder)
    config = files.read_json(adapter / CONFIG) | {"base_model_name_or_path": public_name(recipe.base.name)}
    (folder / CONFIG).write_bytes(files.json_bytes(config))
    copy_companions(recipe, machine.paths, events, loaded, adapter, folder)
    describe_export(folder, adapter)
    return _check(loaded, events, adapter, folder)


def copy_companions(
    recipe: Recipe,
    paths: Paths,
    events: Events,
    model: Any,
    adapter: Path,
    folder: Path,
    *,
    with_tokenizer: bool = True,
) -> None:
    """From `final/` as they are. A bare checkpoint has none of them and a run of an older version not all, so
    they are written as training would have."""
    for path in sorted(adapter.iterdir()):
        wanted = path.name in _BESIDE or (with_tokenizer and is_tokenizer(path.name))
        if path.is_file() and wanted:
            copy_own_file(path, folder)
    copy_license(paths, folder)
    if (adapter / EXPERT).is_file():
        return
    tokenizer = load_tokenizer(recipe.base, paths, events)
    written = dict(inference_files(recipe.template, recipe.decoding, model, tokenizer))
    if with_tokenizer and not any((adapter / name).is_file() for name in _TOKENIZER):
        written = {**tokenizer_files(tokenizer), **written}
    for name, content in written.items():
        (folder / name).write_bytes(content)


def is_tokenizer(name: str) -> bool:
    known = ("tokenizer", "special_tokens", "added_tokens", "chat_template", "vocab", "merges")
    return name.startswith(known) and not name.endswith(".partial")


def _check(loaded: Any, events: Events, adapter: Path, folder: Path) -> float:
    """Plain peft must load the copy, and the copy must give the original's logits."""
    begin(events, "compare logits", quiet_budget=300.0)
    model = load_adapter(loaded, adapter)
    original = logits(model)
    model.load_adapter(str(folder), "exported")
    model.set_adapter("exported")
    found = difference(original, logits(model.eval()))
    demand_equal(found, torch.float32, "The copy")
    return found


def fill_with_merged(recipe: Recipe, machine: Machine, events: Events, adapter: Path, folder: Path) -> float:
    """Returns how far its logits are from those of the adapter on the base that it was trained on."""
    demand_mergeable(read_config(adapter))
    base = unquantized(recipe.base, events)
    trained = _logits_on_quantized(recipe.base, machine, events, adapter)
    machine = _in_own_dtype(base, machine, events)
    source = locate(base, machine.paths, events)
    files = weight_files(source) or [*source.glob("*.bin"), *source.glob("*.pt")]
    weights = sum(file.stat().st_size for file in files)
    machine = where_it_fits(machine, weights, "the merged model is computed", events)
    model = load_adapter(load_base(base, machine, events, as_stored=True), adapter)
    demand_room(sum(p.numel() * p.element_size() for p in model.parameters()), folder)
    spoken = logits(model)
    begin(events, "merge", quiet_budget=SLOW)
    untie(model)
    merged = model.merge_and_unload(safe_merge=True)
    dtype = merged.dtype
    begin(events, "write", quiet_budget=SLOW, detail=str(folder.name))
    merged.save_pretrained(str(folder), safe_serialization=True)
    as_readable_as_others(folder)
    _name_rotary_settings(folder / "config.json")
    copy_companions(recipe, machine.paths, events, merged, adapter, folder)
    del model, merged
    _describe_merged(recipe, machine.paths, events, adapter, folder)
    begin(events, "compare logits", quiet_budget=SLOW)
    written = logits(_read_back(folder, dtype))
    found = difference(spoken, written)
    demand_equal(found, dtype, "The merged model")
    if trained is None:
        return found
    return _report_both(found, difference(trained, written), recipe.base, events)


def _logits_on_quantized(base: Base, machine: Machine, events: Events, adapter: Path) -> torch.Tensor | None:
    """Of the adapter on the base in 4 or 8 bits, as `evaluate` scores it. None for any other base, and where
    this machine cannot load it: the merge itself does not need it."""
    if base.quantization not in quantized.KINDS:
        return None
    try:
        return logits(load_adapter(load_base(base, machine, events, as_stored=True), adapter))
    except (BadInput, Missing, MemoryError, RuntimeError) as error:
        events.warning(
            "merged-not-compared",
            "The merged model is compared with the adapter on the unquantized base alone: "
            f"{first_line(error)}",
        )
        return None
    finally:
        # A model in 8 bits refers to itself: its memory is needed for the other one.
        memory.release()


def _report_both(found: float, from_trained: float, base: Base, events: Events) -> float:
    events.applied(
        "merged_difference",
        {"unquantized": found, base.quantization: from_trained},
        f"Logits differ by {found:.1e} of their size from the adapter's on the unquantized base, and by "
        f"{from_trained:.1e} from those on the base in {base.quantization}, which it was trained on",
    )
    return from_trained


def untie(model: Any) -> None:
    """A merge changes the head or the embedding where only one has an adapter: they stop sharing weights."""
    words, head = model.get_input_embeddings(), model.get_output_embeddings()
    adapted = isinstance(words, BaseTunerLayer) or isinstance(head, BaseTunerLayer)
    if not adapted or head.weight is not words.weight:
        return
    plain = getattr(head, "base_layer", head)
    plain.weight = torch.nn.Parameter(plain.weight.detach().clone(), requires_grad=False)
    model.get_base_model().config.tie_word_embeddings = False


def _name_rotary_settings(path: Path) -> None:
    """transformers 5 writes `rope_parameters` alone; mlx-lm and other readers look for the names of before,
    and take 10000 where there is no `rope_theta`."""
    config = files.read_json(path)
    rope = dict(config.get("rope_parameters") or {})
    if "rope_theta" not in rope:
        return
    config.setdefault("rope_theta", rope.pop("rope_theta"))
    if rope.get("rope_type", "default") != "default":
        config.setdefault("rope_scaling", rope)
    path.write_bytes(files.json_bytes(config))


def _describe_merged(recipe: Recipe, paths: Paths, events: Events, adapter: Path, folder: Path) -> None:
    system = system_message_of(folder)
    replace_card(folder, lambda card: merged_card(card, public_name(recipe.base.name), system))
    copy_base_license(locate(recipe.base, paths, events), folder)
    describe_export(folder, adapter)


def _in_own_dtype(base: Base, machine: Machine, events: Events) -> Machine:
    """A base stored in 16 bits is not written at twice its size, whatever a run computes in."""
    config = files.read_json(locate(base, machine.paths, events) / "config.json")
    named = config.get("dtype") or config.get("torch_dtype")
    dtype = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(named, machine.dtype)
    return machine.model_copy(update={"dtype": dtype})


def unquantized(base: Base, events: Events) -> Base:
    """Weights of 4 or 8 bits cannot take an adapter in: it goes into the base's own, which they came from."""
    if base.quantization not in quantized.KINDS:
        return base
    events.warning(
        "merged-unquantized",
        f"The adapter was trained on a base in {base.quantization}; it goes into the unquantized weights",
        "Its answers may differ from those on the quantized base: score what you export.",
    )
    return base.model_copy(update={"quantization": "none"})


def demand_room(needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Storage(
            f"The export needs {human(needed)}; {human(free)} are free at {folder.parent}",
            hint="Free some space, or name a folder on another disk.",
        )


def _read_back(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype, local_files_only=True)
    return model.eval()


def logits(model: Any) -> torch.Tensor:
    """The same tokens for every model of one vocabulary, spread over all of it."""
    device = next(model.parameters()).device
    size = model.get_input_embeddings().weight.shape[0]
    ids = (torch.arange(2 * _LENGTH) * 7919 % size).reshape(2, _LENGTH).to(device)
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=ids).logits
    return found[:, -_LENGTH:].float().cpu()


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Root mean square of the difference over that of the logits."""
    return float((one - other).norm() / one.norm().clamp_min(1e-12))


def demand_equal(found: float, dtype: torch.dtype, what: str) -> None:
    allowed = TOLERANCE[dtype]
    if not found <= allowed:
        raise Failed(
            f"{what} does not say what the adapter says: its logits differ by {found:.2g} (relative), "
            f"{allowed:.0e} is allowed for {str(dtype).removeprefix('torch.')}. Nothing was exported.",
            hint="Export with --adapter instead: the merged weights are in the base's own number format.",
            code="export-differs",
        )
