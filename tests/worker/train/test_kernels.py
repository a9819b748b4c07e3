"""Every kernel that runs here computes what transformers and peft compute, and a run reports its kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scene import put_data, train
from tiny import apart, flat, gradients, lora, plain_loss

from expert_worker import _native
from expert_worker.errors import BadInput
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place
from expert_worker.train.fast.kernels import matmul, triton_code
from expert_worker.train.fast.kernels.attention import ATTENTION, Documents
from expert_worker.train.fast.kernels.choice import OPERATIONS
from expert_worker.train.fast.kernels.matmul import MATMUL
from expert_worker.train.fast.kernels.registry import Target

FP32, BF16 = (Target(torch.device("cpu"), dtype) for dtype in (torch.float32, torch.bfloat16))


# Those of a layer's own parts are noted where a layer has dropout, a weight in 4 bits, or LoRA on a GPU.
PARTS = ("dropout", "dequantize", "adapted_heads", "adapted_mlp")
ONLY_ON_CARDS = ("in_place", "in_products", "in_one_launch", "in_rotation", "in_activation")
NOTED = [name for name in OPERATIONS if name not in PARTS]


def names(operation: str, dora: bool = False) -> list[str]:
    layer = lora(dora=dora).get_base_model().model.layers[0].mlp.up_proj
    return OPERATIONS[operation].names(layer if operation == "adapted_linear" else FP32)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("operation", NOTED)
def test_every_kernel_gives_the_gradients_of_transformers_and_peft(operation, dora):
    model, batch = lora(dora=dora), flat()
    expected = plain_loss(model, batch)
    expected.backward()
    wanted = gradients(model)
    for name in names(operation, dora):
        model.zero_grad()
        decoder = FastDecoder(model, Place(), kernels={operation: name})
        assert decoder.kernels.choices[operation].chosen == name
        loss = decoder.loss(batch)
        loss.backward()
        found = gradients(model)
        assert apart(loss, expected) < 1e-5
        assert max(apart(found[key], wanted[key]) for key in wanted) < 1e-5, name


@pytest.mark.parametrize("lengths", [(9, 1, 17, 5), (300, 128)])
@pytest.mark.parametrize("name", ATTENTION.names(BF16))
def test_attention_in_16_bits_stays_near_that_in_32(lengths, name):
    documents = Documents(lengths, torch.device("cpu"))
    torch.manual_seed(2)
    q, k, v = (torch.randn(sum(lengths), heads, 8) for heads in (4, 2, 2))
    found = []
    for target, kernel in ((FP32, "sdpa_by_document"), (BF16, name)):
        leaves = [x.detach().to(target.dtype).clone().requires_grad_() for x in (q, k, v)]
        out = ATTENTION.choose(target, kernel).function(*leaves, documents, 8**-0.5)
        out.square().sum().backward()
        found.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for wide, narrow in zip(*found, strict=True):
        assert apart(narrow, wide) < 0.02


def inputs(operation: str, rows: int, width: int) -> tuple[list[torch.Tensor], list[Any]]:
    """What has gradients, and what has none."""
    if operation == "swiglu":
        return [4 * torch.randn(rows, width), torch.randn(rows, width)], []
    if operation == "rms_norm":
        return [torch.randn(rows, width)], [torch.randn(width), 1e-5]
    angles = torch.randn(rows, 1, width)
    return [torch.randn(rows, 3, 2 * width)], [angles.cos(), angles.sin()]


def results(
    operation: str, kernel: str, target: Target, leaves: list[torch.Tensor], others: list[Any]
) -> Any:
    """What the kernel makes of inputs in the target's format, and their gradients, in fp32."""
    leaves, others = (
        [x.to(target.dtype) if isinstance(x, torch.Tensor) else x for x in part] for part in (leaves, others)
    )
    leaves = [x.detach().requires_grad_() for x in leaves]
    out = OPERATIONS[operation].choose(target, kernel).function(*leaves, *others)
    assert out.dtype == target.dtype
    grads = torch.autograd.grad(out, leaves, torch.ones_like(out) * 1.5)
    return [x.detach().float() for x in (out, *grads)]


ELEMENTWISE = ("rms_norm", "rotary", "swiglu")
in_bf16 = pytest.mark.skipif(not _native.BF16_RUNS_HERE, reason="needs instructions")


@in_bf16
@pytest.mark.parametrize(("rows", "width"), [(0, 8), (1, 1), (3, 7), (33, 100), (5, 576)])
@pytest.mark.parametrize("operation", ELEMENTWISE)
def test_in_bf16_native_kernels_only_round_their_results(operation, rows, width):
    torch.manual_seed(rows)
    leaves, others = (
        [x.bfloat16().float() if isinstance(x, torch.Tensor) else x for x in part]
        for part in inputs(operation, rows, width)
    )
    wanted = results(operation, "torch", FP32, leaves, others)
    found = results(operation, "native", BF16, leaves, others)
    for exact, rounded in zip(wanted, found, strict=True):
        # Half a unit in the last place of eight bits, and what sums in another order differ by.
        torch.testing.assert_close(rounded, exact, rtol=2**-8, atol=2e-6)


@in_bf16
@pytest.mark.parametrize("operation", ELEMENTWISE)
def test_in_bf16_native_kernels_take_parts_of_matrices_and_keep_nan(operation):
    torch.manual_seed(1)
    leaves, others = inputs(operation, 9, 24)
    contiguous = results(operation, "native", BF16, leaves, others)
    apart_in_memory = [
        torch.cat((x, x), -1).bfloat16()[..., : x.shape[-1]] if isinstance(x, torch.Tensor) else x
        for x in (*leaves, *others)
    ]
    assert not apart_in_memory[0].is_contiguous()
    if operation == "rms_norm":
        # The weight of a norm is a separate parameter, which is contiguous.
        apart_in_memory[1] = others[0]
    count = len(leaves)
    found = results(operation, "native", BF16, apart_in_memory[:count], apart_in_memory[count:])
    assert all(torch.equal(one, other) for one, other in zip(contiguous, found, strict=True))
    leaves[0][2, ..., 3] = float("nan")
    out, *_ = results(operation, "native", BF16, leaves, others)
    assert out[2].isnan().any() and not out[3:].isnan().any()


@in_bf16
def test_norms_and_positions_in_another_format_than_their_input_take_another_kernel():
    torch.manual_seed(1)
    x, weight, angles = torch.randn(5, 24), torch.randn(24), torch.randn(5, 1, 4)
    norm, rotary = (OPERATIONS[name].choose(BF16, "native").function for name in ("rms_norm", "rotary"))
    assert apart(norm(x.bfloat16(), weight, 1e-5), norm(x, weight, 1e-5)) < 0.01
    heads = x.view(5, 3, 8)
    angles = angles.cos(), angles.sin()
    assert apart(rotary(heads.bfloat16(), *angles), rotary(heads, *angles)) < 0.01


@pytest.mark.parametrize(
    ("intel", "instructions", "mkl", "faster"),
    [
        (True, "AVX512", True, True),
        (True, "AVX2", True, True),
        (False, "AVX2", True, True),
        (False, "AVX512", True, False),
        (False, "AVX2", False, False),
    ],
)
def test_products_take_mkl_unless_it_lacks_the_processors_instructions(
    intel, instructions, mkl, faster, monkeypatch
):
    monkeypatch.setattr(matmul, "is_intel", lambda: intel)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    assert matmul._mkl_is_faster() is faster


@pytest.mark.parametrize("mkl", [True, False])
def test_every_product_is_that_of_torch(monkeypatch, mkl):
    monkeypatch.setattr(matmul, "_MKL_IS_FASTER", mkl)
    torch.manual_seed(3)
    x, weight, out = torch.randn(7, 5), torch.randn(4, 5), torch.randn(7, 4)
    for kernel in MATMUL.kernels:
        if kernel.runs(x):
            assert apart(kernel.function(x, weight, None), x @ weight.t()) < 1e-6
            assert apart(kernel.function(x, weight, out.clone()), out + x @ weight.t()) < 1e-6


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"attention": "flash_attn_varlen"}, "is unknown or does not run here"),
        ({"swiglu": "fastest"}, "is unknown or does not run here"),
        ({"adapted_linear": "fused_dora"}, "is unknown or does not run here"),
        ({"softmax": "torch"}, "names softmax, which is not an operation"),
    ],
)
def test_a_kernel_that_does_not_run_here_is_refused_with_those_that_do(wanted, said):
    with pytest.raises(BadInput, match=said) as refused:
        FastDecoder(lora(), Place(), kernels=wanted)
    assert refused.value.hint and ("swiglu" in refused.value.hint or ", " in refused.value.hint)


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        put_data(patch)
        return train(tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("operation", NOTED)
def test_a_plan_may_name_a_kernel(operation, usual, tmp_path, monkeypatch):
    put_data(monkeypatch)
    reference = OPERATIONS[operation].kernels[-1].name
    other = train(tmp_path, {"machine.kernels": {operation: reference}})
    assert usual.applied[f"kernels.{operation}"] != other.applied[f"kernels.{operation}"] == reference
    assert other.losses == pytest.approx(usual.losses, rel=1e-4)


@pytest.mark.parametrize("lacks", [None, "there is no C compiler"])
def test_what_triton_lacks_is_reported_where_it_would_run(lacks, tmp_path, monkeypatch):
    put_data(monkeypatch)
    monkeypatch.setattr(triton_code, "missing", lambda: lacks)
    assert not train(tmp_path / "cpu").of("warning")
    # As if the CPU were a card, but without the kernels that only a card can run.
    monkeypatch.setattr(triton_code, "supports", lambda _device: True)
    for operation in OPERATIONS.values():
        kept = tuple(it for it in operation.kernels if it.name not in ONLY_ON_CARDS)
        monkeypatch.setattr(operation, "kernels", kept)
    found = [body for body in train(tmp_path / "card").of("warning") if body.code == "no-triton"]
    assert [lacks in body.message for body in found] == ([True] if lacks else [])
