"""A workaround for 8-bit weights on a CPU: peft's DoRA moves them in place, and the copy lacks its
scales."""

from types import MethodType
from typing import Any


def keep_scales(model: Any) -> None:
    """From now on an 8-bit layer takes new scales only where there are any."""
    for module in model.modules():
        if type(module).__name__ == "Linear8bitLt":
            module.init_8bit_state = MethodType(_take_state, module)


def _take_state(module: Any) -> None:
    weight, state = module.weight, module.state
    state.CB, weight.CB = weight.CB, None
    if weight.SCB is not None:
        state.SCB, weight.SCB = weight.SCB, None
