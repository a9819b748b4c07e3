"""Where a base is computed that an export needs at its full size."""

from __future__ import annotations

import torch

from expert_worker.base import torch_device
from expert_worker.checkpoint.refusal import human
from expert_worker.events import Events
from expert_worker.plan import Device, Machine

# What the answers or logits need on a GPU besides the weights.
_BESIDE_WEIGHTS = 1.1


def where_it_fits(machine: Machine, needed: int, computed: str, events: Events) -> Machine:
    """`needed`: bytes of the weights in the machine's dtype, which may be eight times what they took in 4
    bits. A CPU computes the little that an export compares too."""
    if machine.device.kind != "cuda":
        return machine
    device = torch_device(machine.device)
    free, _ = torch.cuda.mem_get_info(device)
    if needed * _BESIDE_WEIGHTS <= free:
        return machine
    events.warning(
        "computed-on-cpu",
        f"The base takes {human(needed)} in {machine.dtype}, and {human(free)} are free on the GPU: "
        f"{computed} on the CPU",
        "This may take some minutes. With --device cpu the GPU is not asked.",
    )
    return machine.model_copy(update={"device": Device(kind="cpu", index=0, name="cpu")})
