"""What is between a decoder layer's products: norms, rotary positions, SwiGLU and the residual sums.

torch.compile makes one kernel of each. Products and attention stay outside: they are a library's kernels
already, and the compiler would keep the dequantized form of a 4-bit weight for the backward pass. The
functions take plain tensors, so that one compiled function serves all layers, and only the number of tokens
is dynamic: with a dynamic width of a head, ptxas needs minutes for the index arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .kernels.choice import Kernels

# Compiles a function of tensors.
Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Norm:
    weight: Tensor
    epsilon: float

    @classmethod
    def of(cls, module: Any) -> Norm:
        return cls(module.weight.detach(), float(module.variance_epsilon))


class Between:
    """By the chosen kernels, compiled if `compiled` is given."""

    def __init__(self, kernels: Kernels, compiled: Wrapper | None = None) -> None:
        self._kernels, self._compiled = kernels, compiled
        self._made: dict[tuple[object, ...], Callable[..., Any]] = {}

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def norm(self, x: Tensor, norm: Norm) -> Tensor:
        kernel, epsilon = self._kernels.rms_norm, norm.epsilon

        def normed(x: Tensor, weight: Tensor) -> Tensor:
            return kernel(x, weight, epsilon)

        result: Tensor = self._of(normed, "norm", epsilon)(x, norm.weight)
        return result

    def summed(self, x: Tensor, more: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
        """x + more, and the same normed."""
        kernel, epsilon = self._kernels.rms_norm, norm.epsilon

        def summed(x: Tensor, more: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
            x = x + more
            return x, kernel(x, weight, epsilon)

        result: tuple[Tensor, Tensor] = self._of(summed, "summed", epsilon)(x, more, norm.weight)
        return result

    def heads(
        self,
        query: Tensor,
        key: Tensor,
        norms: tuple[Norm, Norm] | None,
        width: int,
        cos: Tensor,
        sin: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys as [tokens, heads, width], normed if their heads have norms, and rotated."""
        rotate, kernel = self._kernels.rotary, self._kernels.rms_norm
        if norms is None:

            def rotated(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
                query, key = (x.view(x.shape[0], -1, width) for x in (query, key))
                return rotate(query, cos, sin), rotate(key, cos, sin)

            plain: tuple[Tensor, Tensor] = self._of(rotated, "rotated", width)(query, key, cos, sin)
            return plain
        for_query, for_key = (norm.epsilon for norm in norms)

        def heads(
            query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, of_query: Tensor, of_key: Tensor
        ) -> tuple[Tensor, Tensor]:
            query, key = (x.view(x.shape[0], -1, width) for x in (query, key))
            query, key = kernel(query, of_query, for_query), kernel(key, of_key, for_key)
            return rotate(query, cos, sin), rotate(key, cos, sin)

        function = self._of(heads, "heads", width, for_query, for_key)
        result: tuple[Tensor, Tensor] = function(query, key, cos, sin, *(norm.weight for norm in norms))
        return result

    def heads_of(
        self,
        whole: Tensor,
        widths: tuple[int, ...],
        norms: tuple[Norm, Norm] | None,
        width: int,
        cos: Tensor,
        sin: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same, and the values, of outputs that are side by side. Attention keeps the values: as a part
        of all outputs they would keep those that only norms need again."""
        if self._compiled is None:
            query, key, value = _Apart.apply(whole, widths)
            query, key = self.heads(query, key, norms, width, cos, sin)
            value = value if norms else value.contiguous()
            return query, key, value.view(value.shape[0], -1, width)
        plain, epsilons = Between(self._kernels), tuple(norm.epsilon for norm in norms or ())

        def heads(whole: Tensor, cos: Tensor, sin: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            query, key, value = torch.split(whole, list(widths), 1)
            own = [Norm(weight, epsilon) for weight, epsilon in zip(weights, epsilons, strict=True)]
            query, key = plain.heads(query, key, (own[0], own[1]) if own else None, width, cos, sin)
            value = value if own else value.contiguous()
            return query, key, value.view(value.shape[0], -1, width)

        function = self._of(heads, "heads of", width, widths, epsilons)
        result: tuple[Tensor, Tensor, Tensor] = function(
            whole, cos, sin, *(norm.weight for norm in norms or ())
        )
        return result

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        result: Tensor = self._of(self._kernels.swiglu, "swiglu")(gate, up)
        return result

    def swiglu_of(self, whole: Tensor) -> Tensor:
        """Of gate and up side by side."""
        if self._compiled is None:
            half = whole.shape[1] // 2
            return self.swiglu(*_Apart.apply(whole, (half, half)))
        kernel = self._kernels.swiglu

        def swiglu(whole: Tensor) -> Tensor:
            return kernel(*whole.chunk(2, 1))

        result: Tensor = self._of(swiglu, "swiglu of")(whole)
        return result

    def _of(self, function: Callable[..., Any], *key: object) -> Callable[..., Any]:
        """The compiled function: made once for each set of constants."""
        if self._compiled is None:
            return function
        if key not in self._made:
            self._made[key] = self._compiled(function)
        return self._made[key]


class _Apart(torch.autograd.Function):
    """Columns of a matrix as matrices; autograd's own way back fills a whole gradient for each of them."""

    @staticmethod
    def forward(_ctx: Any, whole: Tensor, widths: tuple[int, ...]) -> tuple[Tensor, ...]:
        return torch.split(whole, list(widths), 1)

    @staticmethod
    @once_differentiable
    def backward(_ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return torch.cat([grad.flatten(1) for grad in grads], 1), None
