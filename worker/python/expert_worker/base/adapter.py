"""An adapter on a loaded base.

Its folder may come from anywhere: it is checked before peft reads it. peft leaves out tensors that it cannot
place, without an error; here they are one.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import regex  # type: ignore[import-untyped]
from safetensors import SafetensorError, safe_open

from expert_worker.adapter import CONFIG, WEIGHTS, AdapterTraits, peft_kinds
from expert_worker.base import quantized
from expert_worker.errors import BadInput, ExpertError

_PEFT_KINDS = peft_kinds()
_LARGEST_CONFIG = 4 << 20
_LARGEST_NUMBER = 65_536
# AdaLoRA's schedule, in steps of the training: nothing is as large as they are.
_STEPS = frozenset({"total_step", "tinit", "tfinal", "deltaT"})
_PATTERN_SECONDS = 2.0
_PATTERN_LENGTH = 4096
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
# These may be saved beside the adapter; peft puts them into the base.
_BASE_TENSORS = ("embed_tokens", "lm_head", "wte", "embed_in", "embed_out")
_START = "Name the adapter of a run with the same settings, or start with a new one: initial_adapter null."
_MERGED = (
    "Merge it into its base with `expert-cli export --merge --from FOLDER`, and train on the merged folder "
    "without initial_adapter."
)
# What torch says of the first tensor that does not fit.
_MISMATCH = re.compile(
    r"size mismatch for (\S+): .*?torch\.Size\((\[.*?\])\) from checkpoint, .*?torch\.Size\((\[.*?\])\)"
)
_ITS_BASE = "Use the base that it was trained on: see its README.md."
_HINT = "Name a run's final/ or one of its checkpoints with --adapter, or train again."

Shapes = Mapping[str, tuple[int, ...]]


def load_adapter(model: Any, folder: Path) -> Any:
    """The base with this adapter, in evaluation mode: each tensor has a place, and each place a tensor."""
    document = read_config(folder)
    shapes = _shapes(folder)
    _check_sizes(document, shapes, folder)
    try:
        adapted = _adapted(model, document, folder)
    except ExpertError:
        raise
    except Exception as error:  # peft and torch raise many kinds, all of which mean the same here.
        if other := _MISMATCH.search(str(error)):
            name, theirs, ours = other.groups()
            raise _unfit(
                folder, f"{name} has the shape {theirs}, and its settings need {ours} on this base", _ITS_BASE
            ) from None
        raise _unfit(folder, f"peft cannot load it: {_first_line(error)}") from error
    _check_places(adapted, document, shapes, folder)
    quantized.prepare_adapted(adapted)
    return adapted.eval()


def replace_weights(adapted: Any, folder: Path) -> None:
    """Puts the tensors of the adapter in this folder into one of the same layers that is to be trained. A
    tensor of the base beside them, which answers take, is refused: training keeps the base as it is."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict
    from safetensors.torch import load_file

    document = read_config(folder, _START)
    shapes = _shapes(folder, _START)
    held = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    for name in sorted(held.keys() & shapes.keys()):
        if (ours := tuple(held[name].shape)) != shapes[name]:
            raise _unfit(folder, f"{name} has the shape {shapes[name]}, and {ours} is to be trained", _START)
    missing, unexpected = sorted(held.keys() - shapes.keys()), sorted(shapes.keys() - held.keys())
    whole = [name for name in unexpected if name.removesuffix(".weight").endswith(_BASE_TENSORS)]
    if whole:
        raise _unfit(folder, f"it holds weights of the base: {whole[0]}", _MERGED)
    if missing or unexpected:
        parts = (("has no place", unexpected), ("is missing", missing))
        found = "; ".join(f"{names[0]} {what}" for what, names in parts if names)
        raise _unfit(folder, f"its layers are others: {found}", _layers_hint(adapted, document))
    set_peft_model_state_dict(adapted, load_file(folder / WEIGHTS))
    _check_finite(held, folder, _START)


def _layers_hint(adapted: Any, document: Mapping[str, Any]) -> str:
    named = document.get("target_modules")
    ours = getattr(adapted.peft_config[adapted.active_adapter], "target_modules", None) or ()
    if not isinstance(named, list) or not named or set(named) == set(ours):
        return _START
    return f"Set target_modules to its layers: {', '.join(sorted(named))}."


def _adapted(model: Any, document: Mapping[str, Any], folder: Path) -> Any:
    from peft import PeftConfig, PeftModel

    names = [name for name, _ in model.named_modules() if name]
    config = PeftConfig.from_peft_type(**_without_patterns(document, names, folder))  # type: ignore[no-untyped-call]
    config.inference_mode = True
    with warnings.catch_warnings():
        # Missing keys; they are compared below.
        warnings.simplefilter("ignore")
        return PeftModel.from_pretrained(model, str(folder), config=config, is_trainable=False)


def read_config(folder: Path, hint: str | None = None) -> dict[str, Any]:
    """Of a kind that is known, and without what names code."""
    path = folder / CONFIG
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise _unfit(folder, f"{CONFIG} is larger than {_LARGEST_CONFIG >> 20} MiB", hint)
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _unfit(folder, f"{CONFIG} is not JSON: {_first_line(error)}", hint) from None
    if not isinstance(document, dict):
        raise _unfit(folder, f"{CONFIG} is not a JSON object", hint)
    found, known = document.get("peft_type"), ", ".join(_PEFT_KINDS)
    if not isinstance(found, str) or found not in _PEFT_KINDS:
        raise _unfit(folder, f"its peft_type is {found!r}, not one of {known}", hint)
    if document.get("megatron_config"):
        raise _unfit(folder, f"{CONFIG} sets megatron_config: its megatron_core names code to import", hint)
    # Both name Python modules; only Megatron and peft's automatic classes import them.
    return {name: value for name, value in document.items() if name not in {"megatron_core", "auto_mapping"}}


def _shapes(folder: Path, hint: str | None = None) -> Shapes:
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            kinds = {name: part.get_dtype() for name, part in slices.items()}
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
    except (SafetensorError, OSError, ValueError) as error:
        raise _unfit(folder, f"{WEIGHTS} cannot be read: {_first_line(error)}", hint) from None
    if not shapes:
        raise _unfit(folder, f"{WEIGHTS} holds no tensors", hint)
    for name, kind in kinds.items():
        if kind not in _FLOATS:
            raise _unfit(folder, f"{name} in {WEIGHTS} has the type {kind}, not a floating-point type", hint)
    return shapes


def _check_sizes(document: Mapping[str, Any], shapes: Shapes, folder: Path) -> None:
    """peft allocates what the config asks for before it reads a tensor."""
    for name, number in _numbers(document):
        if abs(number) > _LARGEST_NUMBER and name not in _STEPS:
            raise _unfit(folder, f"{CONFIG} sets {name} to {number:g}")
    widest = max((max(shape, default=0) for shape in shapes.values()), default=0)
    kind = _kind(document)
    for name in () if kind.keeps_whole_matrices else ("r", "init_r", "num_virtual_tokens"):
        size = document.get(name)
        if isinstance(size, int) and size > widest:
            raise _unfit(folder, f"{CONFIG} sets {name} to {size}, but no tensor in {WEIGHTS} is that large")
    if kind.prunes_ranks:
        _check_kept_ranks(document, folder)


def _check_kept_ranks(document: Mapping[str, Any], folder: Path) -> None:
    """Which ranks of each module AdaLoRA has kept: peft takes their sum for the size of a matrix."""
    kept = document.get("rank_pattern") or {}
    for found in list(kept.values()) if isinstance(kept, dict) else [None]:
        flags = found if isinstance(found, list) else []
        if len(flags) != document.get("init_r") or not all(isinstance(flag, bool) for flag in flags):
            raise _unfit(
                folder, f"{CONFIG} sets rank_pattern to lists that are not init_r times true or false"
            )


def _numbers(value: Any, name: str = "") -> Iterable[tuple[str, float]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, name)


def _without_patterns(document: Mapping[str, Any], names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Regular expressions as the module names that they match: Python's own cannot be given a time limit."""
    found = dict(document)
    for key in ("target_modules", "exclude_modules", "feedforward_modules"):
        pattern = found.get(key)
        if isinstance(pattern, str) and pattern != "all-linear":
            found[key] = _matching(pattern, names, key, folder)
            if not found[key] and key == "target_modules":
                raise _unfit(folder, f"no module of the base matches its {key} {pattern[:200]!r}")
    # Where ranks are pruned, the keys are names of tensors.
    for key in () if _kind(document).prunes_ranks else ("rank_pattern", "alpha_pattern"):
        patterns = found.get(key)
        if isinstance(patterns, dict):
            found[key] = {
                regex.escape(name): value
                for pattern, value in patterns.items()
                for name in _matching(rf"(?:.*\.)?(?:{pattern})", names, key, folder)
            }
    for key in ("layers_pattern", "target_parameters"):
        if any(set(str(item)) & set("*+{(") for item in _listed(found.get(key))):
            raise _unfit(folder, f"{CONFIG} sets {key} to a regular expression; name the modules instead")
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _matching(pattern: str, names: Sequence[str], key: str, folder: Path) -> list[str]:
    try:
        if len(pattern) > _PATTERN_LENGTH:
            raise _unfit(folder, f"the regular expression of {key} is {len(pattern):,} characters long")
        compiled = regex.compile(pattern)
        return [
            name for name in names if compiled.fullmatch(name, timeout=_PATTERN_SECONDS / len(names) + 0.05)
        ]
    except TimeoutError:
        raise _unfit(folder, f"the regular expression of {key} takes too long: {pattern[:200]!r}") from None
    except (regex.error, RecursionError, MemoryError) as error:
        raise _unfit(folder, f"{key} is not a regular expression: {_first_line(error)}") from None


def _check_places(adapted: Any, document: Mapping[str, Any], shapes: Shapes, folder: Path) -> None:
    from peft import get_peft_model_state_dict

    held = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    missing = sorted(held.keys() - shapes.keys())
    unexpected = sorted(
        name for name in shapes.keys() - held.keys() if not any(part in name for part in _BASE_TENSORS)
    )
    if missing or unexpected:
        parts = [
            f"{len(names)} of its tensors {what}, such as {names[0]}"
            for names, what in ((unexpected, "have no place in the base"), (missing, "are missing"))
            if names
        ]
        raise _unfit(folder, "; ".join(parts), _ITS_BASE)
    if _kind(document).is_soft_prompt:
        _check_width(adapted, held, folder)
    _check_finite(held, folder)


def _check_finite(held: Mapping[str, Any], folder: Path, hint: str | None = None) -> None:
    # On the host: on a GPU each would be launches and a wait.
    bad = next((name for name, tensor in held.items() if not bool(tensor.cpu().isfinite().all())), None)
    if bad is not None:
        raise _unfit(folder, f"{bad} holds values that are not finite numbers", hint)


def _check_width(adapted: Any, held: Mapping[str, Any], folder: Path) -> None:
    """peft joins a soft prompt to the base's token vectors only when it computes."""
    width = adapted.get_base_model().get_input_embeddings().weight.shape[1]
    for name, tensor in held.items():
        if tensor.shape[-1] != width:
            raise _unfit(
                folder,
                f"{name} is {tensor.shape[-1]} wide, and the base's token vectors are {width}",
                _ITS_BASE,
            )


def _kind(document: Mapping[str, Any]) -> AdapterTraits:
    return _PEFT_KINDS[document["peft_type"]]


def _unfit(folder: Path, reason: str, hint: str | None = None) -> BadInput:
    message = f"The adapter in {folder} cannot be used: {reason}"
    return BadInput(message, hint=hint or _HINT, code="adapter-unusable")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    return " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])[:300]
