"""FlashAttention is taken where the package, the GPU, the format and the architecture allow it."""

from __future__ import annotations

import pytest
import torch
from plans import example_plan
from transformers import LlamaConfig, LlamaForCausalLM

from expert_worker.base import attention
from expert_worker.train.fast.kernels.attention import ATTENTION
from expert_worker.train.fast.kernels.registry import Target

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture
def taken(tmp_path, monkeypatch):
    plan = example_plan(tmp_path, {"machine.flash_attention": True})

    def choose(config=None, installed=True, capability=(8, 0), device=GPU, dtype=torch.bfloat16):
        monkeypatch.setattr(attention, "find_spec", lambda name: name if installed else None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        config = config or LlamaConfig()
        kernel = ATTENTION.choose(Target(device, dtype, flash_attention=True)).name
        reason = attention.no_flash_attention(config, device, dtype)
        return attention.attention_of(plan.machine, config, device, dtype), kernel, reason

    return choose


def test_it_is_taken_where_everything_allows_it(taken):
    assert taken() == (attention.FLASH, "flash_attn_varlen", None)
    assert taken(dtype=torch.float16, capability=(9, 0))[0] == attention.FLASH


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ({"installed": False}, "not installed"),
        ({"capability": (7, 5)}, "compute capability 8.0, and the GPU has 7.5"),
        ({"dtype": torch.float32}, "in float32"),
        ({"device": CPU}, "on cpu"),
    ],
)
def test_both_paths_fall_back_for_the_same_reason(taken, lacking, said):
    name, kernel, reason = taken(**lacking)
    assert name == "sdpa" and kernel != "flash_attn_varlen" and said in reason


def test_an_architecture_without_it_falls_back_too(taken, monkeypatch):
    monkeypatch.setattr(LlamaForCausalLM, "_supports_flash_attn", False)
    name, _, reason = taken()
    assert name == "sdpa" and "llama" in reason
    monkeypatch.setattr(LlamaForCausalLM, "_supports_sdpa", False)
    assert taken()[0] == "eager"
