"""Quantized bases: the fast path computes what peft's own layers would."""

from __future__ import annotations

import bitsandbytes
import pytest
import torch
from peft import AdaLoraConfig, IA3Config, get_peft_model
from scene import save_base
from tiny import apart, flat, gradients, lora, plain_loss
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from expert_worker.base.quantized import prepare, prepare_adapted
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place
from expert_worker.train.fast.kernels.adapted_linear import ADAPTED_LINEAR

NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
INT8 = {"load_in_8bit": True}
EITHER = pytest.mark.parametrize("options", [NF4, INT8], ids=["int4", "int8"])


def quantized(folder, dtype=torch.float32, **options):
    bits = BitsAndBytesConfig(bnb_4bit_compute_dtype=dtype, **options)
    base = AutoModelForCausalLM.from_pretrained(
        save_base(folder), quantization_config=bits, dtype=dtype, device_map={"": "cpu"}
    )
    prepare(base)
    return base.requires_grad_(False)


@pytest.mark.parametrize("dora", [False, True])
@EITHER
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


def test_an_evaluation_leaves_the_base_as_it_was(tmp_path, monkeypatch):
    """On a processor with AVX512-BF16 bitsandbytes would pack the weights in another way."""
    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: True)
    model = quantized(tmp_path / "base", **NF4)
    layers = [module for module in model.modules() if type(module).__name__ == "Linear4bit"]
    before = [bitsandbytes.functional.dequantize_4bit(it.weight.data, it.weight.quant_state) for it in layers]
    ids = torch.arange(9)[None]
    training = model.train()(input_ids=ids).logits
    with torch.no_grad():
        evaluated = model.eval()(input_ids=ids).logits
    assert torch.equal(evaluated, training)
    for layer, weight in zip(layers, before, strict=True):
        state = layer.weight.quant_state
        assert torch.equal(bitsandbytes.functional.dequantize_4bit(layer.weight.data, state), weight)


NAMES = ["q_proj", "v_proj", "down_proj"]
WIDENING = {
    "ia3": IA3Config(target_modules=NAMES, feedforward_modules=["down_proj"]),
    "adalora": AdaLoraConfig(target_modules=NAMES, init_r=4, total_step=10, task_type="CAUSAL_LM"),
}


@EITHER
@pytest.mark.parametrize("kind", WIDENING)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_adapted_layers_give_the_dtype_that_they_take(tmp_path, options, kind, dtype):
    model = get_peft_model(quantized(tmp_path / "base", dtype, **options), WIDENING[kind])
    prepare_adapted(model)
    ids = torch.arange(9)[None]
    assert model(input_ids=ids).logits.dtype == dtype
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    assert any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)
    batch = flat()
    assert FastDecoder(model, Place(), kernels={"attention": "blocks_cpu"}).loss(batch).isfinite()
