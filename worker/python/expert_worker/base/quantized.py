"""A base in NF4 or 8 bits: its configuration, and workarounds for what bitsandbytes and peft do with it that
a run cannot have."""

from __future__ import annotations

from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from expert_worker.errors import BadInput
from expert_worker.plan import Quantization

KINDS = ("int4", "int8")


def demand_stored_form(config: Any, asked: Quantization, folder: Path) -> None:
    """Weights that bitsandbytes saved in 4 or 8 bits are loaded in them, whatever is asked for. With other
    forms a GPU computes differently than a CPU, or transformers lacks a library. `plan` looks for the same
    (`contract/src/resolve/base.rs`)."""
    saved = _saved(config)
    found = [kind for kind, key in _FLAGS.items() if saved.get(key) is True]
    form = saved.get("quant_method") or _saved(config.get_text_config()).get("quant_method")
    if not found and form not in (None, "bitsandbytes"):
        raise BadInput(
            f"The base model in {folder} is stored in the form `{form}`, which cannot be trained or "
            "evaluated here",
            hint="Choose the version of the base that is stored unquantized, and set `quantization` to int4 "
            "or int8 where memory is short.",
            code="stored-quantization",
        )
    if found and asked != found[0]:
        raise BadInput(
            f"The base model in {folder} is stored in {found[0]}, and {_ASKED.get(asked, asked)} weights are "
            "asked for",
            hint=f"Set `quantization` to {found[0]}. What needs other weights, such as a merge, needs a base "
            "that is stored unquantized.",
            code="stored-quantization",
        )


def _saved(config: Any) -> dict[str, Any]:
    saved = getattr(config, "quantization_config", None)
    return saved if isinstance(saved, dict) else {}


_FLAGS = {"int4": "load_in_4bit", "int8": "load_in_8bit"}
_ASKED = {"none": "unquantized"}


def config_of(quantization: Quantization, dtype: torch.dtype) -> Any:
    if quantization not in KINDS:
        return None
    from transformers import BitsAndBytesConfig as Bits

    if quantization == "int8":
        return Bits(load_in_8bit=True)  # type: ignore[no-untyped-call]
    return Bits(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def prepare(model: Any) -> None:
    """For a base just loaded."""
    for module in model.modules():
        kind = type(module).__name__
        if kind == "Linear8bitLt":
            # peft's DoRA moves 8-bit weights on a CPU in place, and the copy lacks its scales.
            module.init_8bit_state = MethodType(_take_state, module)
        elif kind == "Linear4bit":
            # On a CPU with AVX512-BF16 a product without gradient packs the weight in another way for good:
            # its scales are rounded to bf16, products have no gradient any more, and rows that are not
            # whole blocks are an error. A run that evaluates would train another base from then on.
            module.support_avx512bf16_for_cpu = False


# Modules of peft whose layers give fp32 for 16-bit inputs.
_WIDENING = ("peft.tuners.ia3.bnb", "peft.tuners.adalora.bnb")


def prepare_adapted(model: Any) -> None:
    """For such a base with its adapter: every layer gives the dtype that it takes.

    The rest of the model would follow a layer that gives fp32, or fail where attention takes keys and queries
    of one dtype."""
    for module in model.modules():
        if type(module).__module__ in _WIDENING:
            module.register_forward_hook(_as_taken)


def _as_taken(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output.to(inputs[0].dtype)


def _take_state(module: Any) -> None:
    weight, state = module.weight, module.state
    state.CB, weight.CB = weight.CB, None
    if weight.SCB is not None:
        state.SCB, weight.SCB = weight.SCB, None
