"""Random draws as a function of their position: no generator state needs to be saved."""

import torch

from expert_worker.train.fast.dropout import mix


def generator(seed: int, *place: int) -> torch.Generator:
    """A CPU generator for one purpose; `place` distinguishes purposes and steps."""
    stem = mix(seed)
    for number in place:
        stem = mix((stem << 32) + number + 1)
    return torch.Generator().manual_seed(stem)


def seed_everything(seed: int, *place: int) -> None:
    """For libraries that use torch's global generators (peft's initialisation, a base's own dropout)."""
    torch.manual_seed(generator(seed, *place).initial_seed())


ADAPTER, ORDER, FORWARD, PROMPT = range(4)
