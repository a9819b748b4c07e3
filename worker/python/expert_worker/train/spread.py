"""Shards a base that does not fit one device over all processes (FSDP2); a layer's weights are gathered
while it computes. Each process holds the whole adapter: checkpoints are those of one process."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.train.adapter import trained


def spread(model: Any, device: torch.device, events: Events) -> None:
    """Layer by layer, so that a device holds only one layer of the base and its shards."""
    kept = trained(model)
    for parameter in kept.values():
        parameter.data = parameter.data.to(device)
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    inner = model.get_base_model()
    layers = _layers(inner)
    for layer in layers:
        fully_shard(layer, mesh=mesh, ignored_params=set(kept.values()))
    fully_shard(inner, mesh=mesh, ignored_params=set(kept.values()))
    for buffer_owner in model.modules():
        for name, buffer in buffer_owner.named_buffers(recurse=False):
            setattr(buffer_owner, name, buffer.to(device))
    spread_out = sum(isinstance(module, FSDPModule) for module in inner.modules())
    events.applied("fsdp2.units", spread_out, f"Base sharded over the processes in {spread_out} pieces")


def _layers(inner: Any) -> list[Any]:
    layers = getattr(getattr(inner, "model", None), "layers", None)
    if layers is None:
        raise BadInput(
            "This base cannot be sharded: its layers are not at the usual path of decoders",
            hint='Set training.config.distributed.strategy to "ddp".',
            code="cannot-spread",
        )
    return list(layers)
