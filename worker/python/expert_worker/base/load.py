"""The base model in memory: dtype, quantization, rope scaling and attention as the plan says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from expert_worker.base import fp32_products, quantized, warm
from expert_worker.base.attention import attention_of, no_flash_attention
from expert_worker.base.embedded import quietly
from expert_worker.base.locate import locate, weight_files
from expert_worker.base.rope import apply_rope_scaling, rope_parameters, scale_by_the_batch_alone
from expert_worker.cuda_build import has_code_for
from expert_worker.errors import BadInput, ExpertError, Missing
from expert_worker.events import Events
from expert_worker.memory_errors import NO_THREAD, ran_out
from expert_worker.plan import Base, Device, Dtype, Machine, Paths, Quantization, RopeScaling
from expert_worker.slow_disk import warn_if_slow

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_LOAD_BUDGET = 300.0
# At most as large as the largest dimension of any tensor.
_DIMENSIONS = ("hidden_size", "n_embd", "vocab_size")
_LAYERS = ("num_hidden_layers", "n_layer")


def compute_dtype(quantization: Quantization, dtype: Dtype) -> torch.dtype:
    """A base asked for in 16 bits computes in them; any other computes in what the machine chose."""
    return _DTYPES[quantization if quantization in _DTYPES else dtype]


def load_tokenizer(base: Base, paths: Paths, events: Events) -> Any:
    from transformers import AutoTokenizer

    quietly()
    return _read(AutoTokenizer, locate(base, paths, events))


def load_base(
    base: Base,
    machine: Machine,
    events: Events,
    *,
    process: int = 0,
    sharded: bool = False,
    as_stored: bool = False,
    fp32: bool | None = None,
    like: Any | None = None,
) -> Any:
    """In evaluation mode, on the device of this process, every parameter frozen.

    A base that will be `sharded` stays in the host's memory until its pieces go to their devices. `as_stored`
    never holds a 16-bit base in fp32, whatever the machine; `fp32` is a resumed run's choice of it. `like` is
    the same base, read before, which is returned unless its arithmetic is another."""
    folder = locate(base, machine.paths, events)
    events.stage("load base", _LOAD_BUDGET, base.name)
    dtype, device = compute_dtype(base.quantization, machine.dtype), torch_device(machine.device, process)
    model = warm.take(base, machine, folder) if like is None else like
    planned, home = machine.fp32_products, Path(machine.paths.home)
    wide = not as_stored and fp32_products.chosen(planned, dtype, device, home, events, fp32)
    if like is not None and fp32_products.held(like) != wide:
        model = None
    if model is None or fp32_products.held(model) > wide:
        hint = "Copy its folder to a local disk and name that as the base, or set HF_HOME to one."
        warn_if_slow("the base", folder, hint, events)
        model = read_model(base, machine, device, folder)
    quantized.prepare(model)
    if base.quantization not in quantized.KINDS and not sharded:
        model = model.to(device)
    model.config.name_or_path = base.name
    # Held in fp32 already where it was read before: what it was read in is said of both.
    _report(model, base, machine, events, dtype if wide else model.dtype, computes_in_fp32=wide)
    if machine.flash_attention and (reason := no_flash_attention(model.config, device, dtype)):
        events.warning("no-flash-attention", f"flash_attention_2 has no effect: {reason}")
    if wide:
        fp32_products.hold_in_fp32(model, dtype)
    return model.requires_grad_(False).eval()


def fp32_choice(dtype: torch.dtype, device: torch.device, model: Any) -> bool | None:
    """Whether the loaded model computes in fp32; None where there is nothing to choose."""
    return fp32_products.held(model) if fp32_products.is_choice(dtype, device) else None


def base_config(folder: Path, scaling: RopeScaling | None) -> Any:
    """The base's own, with the `rope_scaling` of the manifest."""
    from transformers import AutoConfig

    config = _read(AutoConfig, folder)
    if scaling is not None:
        apply_rope_scaling(config, scaling)
    return config


def read_model(base: Base, machine: Machine, device: torch.device, folder: Path) -> Any:
    """The base from its folder, quantized on the device or in the host's memory."""
    from transformers import AutoModelForCausalLM

    quietly()
    config = base_config(folder, base.rope_scaling)
    quantized.demand_stored_form(config, base.quantization, folder)
    dtype = compute_dtype(base.quantization, machine.dtype)
    extra: dict[str, Any] = {
        "config": config,
        "dtype": dtype,
        "attn_implementation": attention_of(machine, config, device, dtype),
    }
    quantizer = quantized.config_of(base.quantization, dtype)
    if quantizer is not None:
        extra |= {"quantization_config": quantizer, "device_map": {"": str(device)}}
    check_sizes(config, folder)
    model, info = _read(AutoModelForCausalLM, folder, output_loading_info=True, **extra)
    _demand_whole(info, folder)
    scale_by_the_batch_alone(model)
    return model


def _demand_whole(info: Mapping[str, Any], folder: Path) -> None:
    """transformers fills what the files lack with random numbers."""
    missing = sorted(str(name) for name in info.get("missing_keys") or ())
    if missing:
        raise BadInput(
            f"The base model in {folder} lacks {len(missing)} of its tensors, such as {missing[0]}",
            hint="Fetch its safetensors files again: one may be missing or belong to another model.",
            code="base-incomplete",
        )


def torch_device(device: Device, process: int = 0) -> torch.device:
    """Processes that train together have a GPU each: the planned one and those that follow it."""
    if device.kind == "cuda":
        if not torch.cuda.is_available():
            raise Missing(
                "The plan wants CUDA, which torch does not find here",
                hint="See `expert-cli doctor` for what its driver needs, or use --device cpu.",
            )
        index = device.index + process
        if not has_code_for(index):
            major, minor = torch.cuda.get_device_capability(index)
            raise Missing(
                f"torch {torch.__version__} has no code for {torch.cuda.get_device_name(index)} (compute "
                f"capability {major}.{minor})",
                hint="`expert-cli doctor` names a torch built for it; until then use --device cpu.",
                code="gpu-without-code",
            )
        return torch.device("cuda", index)
    return torch.device(device.kind)


def _read(kind: Any, folder: Path, **extra: Any) -> Any:
    try:
        return kind.from_pretrained(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            **extra,
            **({"use_safetensors": True} if "dtype" in extra else {}),
        )
    except ExpertError:
        raise
    except Exception as error:  # Odd files make transformers raise nearly every kind.
        # Neither is the base's fault, and a limit of memory ends threads too.
        if ran_out(error) or NO_THREAD in str(error):
            raise
        raise _unreadable(kind, folder, error) from error


def _unreadable(kind: Any, folder: Path, error: Exception) -> BadInput:
    said = (str(error).strip().splitlines() or [""])[0][:300]
    name = type(error).__name__
    reason = f"{name}: {said}" if said and not isinstance(error, OSError | ValueError) else said or name
    what = {"AutoTokenizer": "tokenizer of the base", "AutoConfig": "config.json of the base"}
    if "trust_remote_code" in str(error):
        return BadInput(
            f"The base model in {folder} brings its own Python code, which is never run",
            hint="Use a base whose architecture transformers has built in.",
            code="base-needs-code",
        )
    return BadInput(
        f"The {what.get(kind.__name__, 'base model')} in {folder} cannot be loaded: {reason}",
        hint="Check that its files are whole and that this transformers knows its architecture.",
        code="base-unreadable",
    )


def _report(
    model: Any, base: Base, machine: Machine, events: Events, dtype: torch.dtype, *, computes_in_fp32: bool
) -> None:
    """The loaded model's own description."""
    from expert_worker.train.fast.weights import is_4bit

    kinds = {type(module).__name__ for module in model.modules()}
    stored = (
        "int4" if any(is_4bit(m) for m in model.modules()) else "int8" if "Linear8bitLt" in kinds else "none"
    )
    name = str(dtype).removeprefix("torch.")
    using = {"bfloat16": "Using BF16", "float16": "Using FP16"}.get(name, "Using FP32")
    events.applied("base.quantization", stored, None if stored == "none" else f"Base quantized to {stored}")
    events.applied("base.dtype", name, None if computes_in_fp32 else using)
    attention = model.config._attn_implementation
    note: str | None = {"sdpa": "SDPA enabled"}.get(attention)
    if attention == "eager" and machine.sdpa:
        note = (
            f"{type(model).__name__} has no SDPA attention: eager attention is used, which needs more memory"
        )
    events.applied("attention", attention, note)
    if base.rope_scaling is not None:
        events.applied("rope_scaling", dict(rope_parameters(model.config)), "RoPE scaling applied")


def check_sizes(config: Any, folder: Path) -> None:
    """Whether config.json fits the weights, before anything of the sizes that it names is allocated."""
    widest, tensors = 0, 0
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a mapping)
                    tensors += 1
                    widest = max(widest, *file.get_slice(name).get_shape(), 0)
        except (SafetensorError, OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"{path} cannot be read: {(str(error).strip().splitlines() or [type(error).__name__])[0]}",
                hint="The file is damaged or was not fetched to its end: fetch it again.",
                code="base-unreadable",
            ) from None
    # GGUF blocks and other packed weights have other dimensions.
    if getattr(config, "quantization_config", None) is not None:
        return
    for names, most, what in ((_DIMENSIONS, widest, "its largest tensor has"), (_LAYERS, tensors, "it has")):
        for name in names:
            size = getattr(config, name, None)
            if isinstance(size, int) and not isinstance(size, bool) and not 0 < size <= most:
                unit = "as largest dimension" if most is widest else "tensors"
                raise BadInput(
                    f"config.json in {folder} sets {name} to {size:,}, but {what} {most:,} {unit}",
                    hint="Use the config.json that belongs to these weights.",
                    code="base-unreadable",
                )
