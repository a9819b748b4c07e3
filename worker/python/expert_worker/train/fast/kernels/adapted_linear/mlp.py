"""The MLP of a layer with LoRA on a GPU. Its SwiGLU adds what LoRA adds: of the outputs of gate and up, only
the base's part is in memory. Their product is formed again in the backward pass instead of being kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ...dropout import Draw
from .. import triton_code
from ..dropout import Drops
from ..registry import Kernel, Operation, Target
from .copies import into_gradients
from .on_card import CardGroup

# The kernel that leaves each layer's LoRA to the layer.
BY_LAYER = "by_layer"
# Of a larger rank, the kernels' sums would not fit into registers.
MOST_RANKS = 32


class Activation(Protocol):
    """`gate_up` is [tokens, 2 * width], of the base alone; `narrow` [tokens, 2 * rank] and `ups` [2 * width,
    rank] have what LoRA adds to it; `down` is A of the layer that takes the product, and `drops` what that
    drops."""

    def activate(
        self, gate_up: Tensor, narrow: Tensor, ups: Tensor, scale: float, down: Tensor, drops: Drops | None
    ) -> tuple[Tensor, Tensor]:
        """The product silu(gate) * up, and dropout(product) A^T."""

    def through(
        self,
        grad: Tensor,
        back: Tensor,
        gate_up: Tensor,
        narrow: Tensor,
        ups: Tensor,
        scale: float,
        down: Tensor,
        drops: Drops | None,
    ) -> tuple[Tensor, Tensor]:
        """Writes the gradient of gate and up in place of these. Sums over parts of the tokens, [parts, ...]:
        the gradients of `ups` and of `down`. `grad` comes to the product through the base, and `back`,
        [tokens, rank], through B."""

    def add(self, parts: Tensor, out: Tensor, *, keep: bool) -> None:
        """out = the sum of the parts, added to it with `keep`."""


class _Mlp(Function):
    """A and B are arguments so that autograd comes back to here, where their gradients are added to them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mlp: AdaptedMlp, draws: Sequence[list[Draw]], *_trained: Tensor
    ) -> Tensor:
        into, out, (of_x, of_product) = mlp.into, mlp.out, draws
        narrow, gate_up = into.project(x, of_x), into.of_bases(x)
        product, out_narrow = mlp.kernel.activate(gate_up, narrow, *mlp.given(x, draws))
        ctx.save_for_backward(x, narrow, gate_up, out_narrow)
        ctx.mlp, ctx.draws = mlp, draws
        return out.outputs(product, out_narrow, of_product)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow, gate_up, out_narrow = ctx.saved_tensors
        mlp, draws, grad = ctx.mlp, ctx.draws, grad.contiguous()
        into, out, (of_x, of_product) = mlp.into, mlp.out, draws
        back = out.back(grad, of_product)
        out.add_to_ups(grad, out_narrow, of_product)
        through = out.through_bases(grad)
        # In place: the saved outputs are in memory until this function ends, and are not read again.
        parts = mlp.kernel.through(through, back, gate_up, narrow, *mlp.given(x, draws))
        del through
        for sums, trained in zip(parts, (into.copied.ups(), out.copied.downs()), strict=True):
            mlp.add(sums, trained)
        back = into.back(gate_up, of_x)
        into.add_to_downs(back, x, of_x)
        to_x = into.to_input(gate_up, back, of_x) if ctx.needs_input_grad[0] else None
        return to_x, None, None, *(None for _ in range(len(ctx.needs_input_grad) - 3))


class AdaptedMlp:
    """Gate and up, `into`, and the layer that takes their product: [tokens, width] -> [tokens, width]."""

    def __init__(self, kernel: Activation, into: CardGroup, out: CardGroup) -> None:
        self.kernel, self.into, self.out = kernel, into, out

    @staticmethod
    def fits(into: CardGroup, out: CardGroup) -> bool:
        return into.is_uniform and max(*into.copied.ranks, *out.copied.ranks) <= MOST_RANKS

    def __call__(self, x: Tensor) -> Tensor:
        draws = self.into.draws(x.shape[-1]), self.out.draws(self.into.widths[0])
        result: Tensor = _Mlp.apply(x, self, draws, *self.into.trained(), *self.out.trained())
        return result

    def given(self, x: Tensor, draws: Sequence[list[Draw]]) -> tuple[Tensor, float, Tensor, Drops | None]:
        """The adapters' matrices, as the kernel takes them."""
        of_x, of_product = draws
        (scale, *_), (down, _) = self.into.scales(of_x), self.out.copied.of(x.dtype)
        (span,) = self.out.narrow.spans(of_product)
        return self.into.copied.stacked_ups(x.dtype), scale, down, span.drops

    def add(self, parts: Tensor, trained: Sequence[Tensor]) -> None:
        def write(out: Tensor, keep: bool) -> None:
            self.kernel.add(parts, out, keep=keep)

        into_gradients(trained, parts.shape[1:], write)


def _by_triton() -> Activation:
    from ..triton_code.mlp import InActivation

    return InActivation()


def _nothing() -> Activation | None:
    return None


def runs(target: Target) -> bool:
    return triton_code.runs(target) and target.dtype.itemsize == 2


ADAPTED_MLP: Operation[Target, Callable[[], Activation | None]] = Operation(
    "adapted_mlp",
    [
        Kernel("in_activation", _by_triton, runs, "LoRA of gate and up inside their SwiGLU"),
        Kernel(BY_LAYER, _nothing),
    ],
)
