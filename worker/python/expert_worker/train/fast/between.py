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

from torch import Tensor

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

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        result: Tensor = self._of(self._kernels.swiglu, "swiglu")(gate, up)
        return result

    def _of(self, function: Callable[..., Any], *key: object) -> Callable[..., Any]:
        """The compiled function: made once for each set of constants."""
        if self._compiled is None:
            return function
        if key not in self._made:
            self._made[key] = self._compiled(function)
        return self._made[key]
