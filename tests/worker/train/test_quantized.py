"""Quantized bases: the fast path computes what peft's own layers would."""

from __future__ import annotations

import pytest
import torch
from scene import save_base
from tiny import apart, flat, gradients, lora, plain_loss
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from expert_worker.base.load import keep_scales
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place
from expert_worker.train.fast.kernels.adapted_linear import ADAPTED_LINEAR


def quantized(folder, **options):
    bits = BitsAndBytesConfig(bnb_4bit_compute_dtype=torch.float32, **options)
    base = AutoModelForCausalLM.from_pretrained(
        save_base(folder), quantization_config=bits, dtype=torch.float32, device_map={"": "cpu"}
    )
    keep_scales(base)
    return base.requires_grad_(False)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        {"load_in_8bit": True},
    ],
    ids=["int4", "int8"],
)
def test_gradients_equal_pefts(tmp_path, options, dora):
    model = lora(model=quantized(tmp_path / "base", **options), dora=dora)
    layer = model.get_base_model().model.layers[0].mlp.up_proj
    assert ADAPTED_LINEAR.choose(layer).name == ("fused_dora" if dora else "fused_lora")
    batch = flat()
    expected = plain_loss(model, batch)
    expected.backward()
    wanted = gradients(model)
    loss = FastDecoder(model, Place()).loss(batch)
    loss.backward()
    found = gradients(model)
    assert apart(loss.detach(), expected.detach()) < 1e-5
    assert max(apart(found[name], wanted[name]) for name in wanted) < 1e-4
