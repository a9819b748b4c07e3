"""The loss beside what torch makes of the same numbers, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from expert_worker import _native
from expert_worker.train.fast.batch import IGNORED
from expert_worker.train.fast.kernels import head_loss
from expert_worker.train.fast.kernels.registry import Target


def asked(rows: int, width: int = 8, words: int = 19) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, width, generator=draw).requires_grad_()
    return hidden, torch.randn(words, width, generator=draw), torch.randint(words, (rows,), generator=draw)


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 96, 100])
def test_chunks_sum_to_the_whole_and_so_do_their_gradients(rows, monkeypatch):
    """Chunks of 32 rows: one that is not full, several, and a last one that is smaller."""
    monkeypatch.setattr(head_loss, "_CPU_BYTES", 1)
    hidden, head, labels = asked(rows)
    labels[rows // 2] = IGNORED
    loss = head_loss.head_loss(hidden, head, labels)
    (found,) = torch.autograd.grad(loss, hidden)
    expected = cross_entropy(hidden @ head.t(), labels, reduction="sum", ignore_index=IGNORED)
    (wanted,) = torch.autograd.grad(expected, hidden)
    assert loss.dtype == torch.float32 and loss.shape == ()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, wanted)
    assert found[rows // 2].abs().max() == 0


def test_the_gradient_is_scaled_by_what_comes_after():
    hidden, head, labels = asked(5)
    (once,) = torch.autograd.grad(head_loss.head_loss(hidden, head, labels), hidden)
    (scaled,) = torch.autograd.grad(head_loss.head_loss(hidden, head, labels) * 0.25, hidden)
    torch.testing.assert_close(scaled, once * 0.25)


def test_without_a_gradient_the_loss_is_the_same():
    hidden, head, labels = asked(40)
    with_gradient = head_loss.head_loss(hidden, head, labels)
    without = head_loss.head_loss(hidden.detach(), head, labels)
    assert with_gradient.requires_grad and not without.requires_grad
    assert torch.equal(with_gradient.detach(), without)


def test_large_logits_do_not_overflow():
    """exp(200) is beyond fp32."""
    hidden = torch.tensor([[200.0], [200.0]]).requires_grad_()
    head = torch.tensor([[1.0], [0.0], [-1.0]])
    loss = head_loss.head_loss(hidden, head, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx(200.0)
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert gradient.flatten().tolist() == pytest.approx([0.0, 1.0])


def test_an_even_choice_among_four_costs_ln_4():
    loss = head_loss.head_loss(torch.zeros(1, 2), torch.zeros(4, 2), torch.tensor([3]))
    assert loss.item() == pytest.approx(math.log(4))


def test_nothing_supervised_is_a_loss_of_nothing():
    hidden, head, _ = asked(3)
    loss = head_loss.head_loss(hidden, head, torch.full((3,), IGNORED))
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert loss.item() == 0 and not gradient.any()


def test_half_precision_is_summed_in_single():
    hidden, head, labels = asked(64)
    low, low_head = hidden.detach().bfloat16().requires_grad_(), head.bfloat16()
    loss = head_loss.head_loss(low, low_head, labels)
    (gradient,) = torch.autograd.grad(loss, low)
    expected = cross_entropy((low @ low_head.t()).float(), labels, reduction="sum")
    assert loss.dtype == torch.float32 and gradient.dtype == torch.bfloat16
    assert loss.item() == pytest.approx(expected.item(), rel=1e-2)


@pytest.mark.parametrize(
    ("words", "rows"), [(1, 6_291_456), (4096, 1536), (32_000, 192), (151_936, 32), (10**9, 32)]
)
def test_a_chunk_s_logits_stay_in_the_cache(words, rows):
    """24 MiB of fp32, in whole blocks of 32 rows, and never fewer than one block."""
    assert head_loss._chunk_rows(_Head(words)) == rows


@pytest.mark.parametrize(("words", "rows"), [(49_152, 320), (151_936, 96), (10**9, 32)])
def test_a_chunk_in_place_has_more_rows(words, rows):
    """30 MiB of bf16, beside which nothing else is held."""
    assert head_loss._chunk_rows_in_place(_Head(words)) == rows


class _Head:
    """A head as large as this machine need not hold."""

    def __init__(self, words: int, device: str = "cpu") -> None:
        self.shape, self.device = (words, 1), torch.device(device)

    def element_size(self) -> int:
        return 2


def test_a_gpu_s_chunks_are_larger():
    assert head_loss._chunk_rows(_Head(1024, "cuda")) == 131_072


def test_whole_is_torch_s_own():
    hidden, head, labels = asked(7)
    torch.testing.assert_close(
        head_loss.whole_head_loss(hidden, head, labels), head_loss.head_loss(hidden, head, labels)
    )


in_bf16 = pytest.mark.skipif(not _native.BF16_RUNS_HERE, reason="needs instructions")


@in_bf16
@pytest.mark.parametrize("words", [1, 31, 97, 4096])
@pytest.mark.parametrize("rows", [0, 1, 33, 100])
def test_the_native_kernel_forms_the_loss_and_the_gradient_in_the_logits_place(rows, words, monkeypatch):
    """Several chunks, the last one smaller."""
    monkeypatch.setattr(head_loss, "_CPU_IN_PLACE_BYTES", 1)
    hidden, head, labels = asked(rows, words=words)
    labels[rows // 2 : rows // 2 + 1] = IGNORED
    hidden, head = hidden.detach().bfloat16().requires_grad_(), head.bfloat16()
    loss = head_loss.head_loss_native(hidden, head, labels)
    (found,) = torch.autograd.grad(loss, hidden)
    # From the same rounded logits, with a gradient that is rounded as well.
    logits = (hidden.detach() @ head.t()).double().requires_grad_()
    expected = cross_entropy(logits, labels, reduction="sum", ignore_index=IGNORED)
    (of_logits,) = torch.autograd.grad(expected, logits)
    assert loss.dtype == torch.float32 and found.dtype == torch.bfloat16
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    wanted = of_logits.bfloat16().double() @ head.double()
    torch.testing.assert_close(found.double(), wanted, rtol=2**-7, atol=1e-2)
    without = head_loss.head_loss_native(hidden.detach(), head, labels)
    assert torch.equal(without, loss.detach())


@in_bf16
def test_the_native_kernel_s_loss_of_each_row_is_that_of_the_chunks():
    hidden, head, labels = asked(40)
    labels[3] = IGNORED
    hidden, head = hidden.detach().bfloat16(), head.bfloat16()
    found, wanted = (
        head_loss.row_losses(hidden, head, labels, kernel)
        for kernel in (head_loss.head_loss_native, head_loss.head_loss)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert found[3] == 0
    # A head that is kept in fp32.
    wide = head_loss.head_loss_native(hidden, head.float(), labels)
    torch.testing.assert_close(wide, found.sum(), rtol=1e-2, atol=1e-2)


@in_bf16
def test_the_native_kernel_shows_nan_and_refuses_an_unknown_word():
    hidden, head, labels = asked(4)
    hidden, head = hidden.detach().bfloat16(), head.bfloat16()
    with pytest.raises(ValueError, match="not a word"):
        head_loss.head_loss_native(hidden, head, labels + head.shape[0])
    hidden[2, 0] = float("nan")
    assert head_loss.head_loss_native(hidden, head, labels).isnan()


def test_a_cpu_in_bf16_takes_the_native_kernel_where_it_is_fast(monkeypatch):
    target = Target(torch.device("cpu"), torch.bfloat16)
    for runs, name in ((True, "native"), (False, "chunked")):
        monkeypatch.setattr(_native, "BF16_RUNS_HERE", runs)
        assert head_loss.HEAD_LOSS.choose(target).name == name
    assert head_loss.HEAD_LOSS.choose(Target(torch.device("cpu"), torch.float32)).name == "chunked"


def gradient(scale: float) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    hidden = torch.randn(64, 32, generator=draw).to(torch.bfloat16).requires_grad_()
    head = torch.randn(97, 32, generator=draw).to(torch.bfloat16)
    labels = torch.randint(97, (64,), generator=draw)
    (found,) = torch.autograd.grad(head_loss.head_loss(hidden, head, labels) * scale, hidden)
    return found


def test_the_scale_is_not_rounded_to_the_format_of_the_activations():
    """1/389 has no near neighbour in bf16: rounded first, it would move all gradients to one side."""
    scale = torch.tensor(1 / 389)
    assert abs(float(scale.bfloat16() / scale) - 1) > 1e-3
    assert torch.equal(gradient(float(scale)), (gradient(1.0).float() * scale).bfloat16())
