"""The kinds of adapters and what sets them apart: everything else asks this table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from expert_worker.errors import BadInput
from expert_worker.plan.models import Adapter, AdapterKind

_TASK = "CAUSAL_LM"


@dataclass(frozen=True)
class AdapterTraits:
    title: str
    """In a model card."""
    peft_type: str
    """In `adapter_config.json`."""
    config: Callable[[Adapter, int], Any]
    """peft's configuration, from the adapter and the number of steps."""
    is_soft_prompt: bool = False
    """Virtual tokens before the text: no layer changes, so nothing can be merged."""
    keeps_whole_matrices: bool = False
    """The rank may be larger than any dimension: peft then holds whole matrices."""
    prunes_ranks: bool = False
    """Each module keeps some of its ranks."""


def _lora(adapter: Adapter, _steps: int) -> Any:
    import peft

    rank, alpha = _rank(adapter)
    return peft.LoraConfig(
        r=rank,
        use_rslora=adapter.kind == "rslora",
        use_dora=adapter.kind == "dora",
        lora_alpha=_whole(alpha),
        lora_dropout=adapter.dropout,
        target_modules=list(adapter.target_modules),
        task_type=_TASK,
    )


def _adalora(adapter: Adapter, steps: int) -> Any:
    """Starts with 1.5 times the rank and prunes it during the middle of the run."""
    import peft

    rank, alpha = _rank(adapter)
    return peft.AdaLoraConfig(
        init_r=math.ceil(rank * 1.5),
        target_r=rank,
        total_step=max(3, steps),
        tinit=steps // 10,
        tfinal=max(1, steps // 5),
        deltaT=max(1, steps // 100),
        lora_alpha=_whole(alpha),
        lora_dropout=adapter.dropout,
        target_modules=list(adapter.target_modules),
        task_type=_TASK,
    )


def _lokr(adapter: Adapter, _steps: int) -> Any:
    import peft

    rank, alpha = _rank(adapter)
    return peft.LoKrConfig(
        r=rank,
        alpha=_whole(alpha),
        # `train.engine` scales the rows that it keeps: peft's rank_dropout_scale may divide by 0.
        rank_dropout=adapter.dropout,
        target_modules=list(adapter.target_modules),
        task_type=_TASK,
    )


def _ia3(adapter: Adapter, _steps: int) -> Any:
    import peft

    return peft.IA3Config(
        target_modules=list(adapter.target_modules),
        feedforward_modules=list(adapter.feedforward_modules),
        task_type=_TASK,
    )


def _prompt(adapter: Adapter, _steps: int) -> Any:
    import peft

    tokens = sum(prompt.tokens for prompt in adapter.soft_prompts)
    return peft.PromptTuningConfig(num_virtual_tokens=tokens, task_type=_TASK)


def _rank(adapter: Adapter) -> tuple[int, float]:
    if adapter.rank is None or adapter.alpha is None:
        raise BadInput(
            f"A {adapter.kind} adapter needs a rank and an alpha, and the plan has none",
            hint="Make the plan with this version of expert-cli.",
            code="adapter-without-rank",
        )
    return adapter.rank, adapter.alpha


def _whole(number: float) -> Any:
    """peft declares whole numbers and takes fractions too."""
    return int(number) if number == int(number) else number


KINDS: Mapping[AdapterKind, AdapterTraits] = {
    "lora": AdapterTraits("LoRA", "LORA", _lora),
    "rslora": AdapterTraits("rsLoRA", "LORA", _lora),
    "dora": AdapterTraits("DoRA", "LORA", _lora),
    "ia3": AdapterTraits("(IA)³", "IA3", _ia3),
    "lokr": AdapterTraits("LoKr", "LOKR", _lokr, keeps_whole_matrices=True),
    "adalora": AdapterTraits("AdaLoRA", "ADALORA", _adalora, prunes_ranks=True),
    "prompt": AdapterTraits("Soft prompt", "PROMPT_TUNING", _prompt, is_soft_prompt=True),
}


def peft_kinds() -> Mapping[str, AdapterTraits]:
    """The traits by the name that peft writes into a config; those of one name are the same there."""
    return {traits.peft_type: traits for traits in KINDS.values()}
