"""The processes that train one expert together: their rows, collective operations and sharding (FSDP2).

Random draws depend on the seed, the step and the row, never on the process, so that a checkpoint of any
number of processes can be resumed with any other."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
from pydantic import JsonValue
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from expert_worker.errors import BadInput, Failed, Missing
from expert_worker.events import Events
from expert_worker.plan import Device, Distributed, Machine
from expert_worker.process.rank import Rank, this_rank
from expert_worker.processor import available_cores
from expert_worker.train.adapter import trained

# The leader ends waiting processes when another is lost; a save or a tokenization may take hours.
_PATIENCE = timedelta(days=7)
# By then the leader has ended this process and reported why.
_UNTIL_ENDED = 60.0

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class DistContext:
    """A single process uses the same interface, and its collective calls cost nothing."""

    number: int = 0
    size: int = 1
    sharded: bool = False
    """The base is sharded: each forward pass needs all processes."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main_process(self) -> bool:
        return self.number == 0

    def share(self, rows: Sequence[int]) -> list[int]:
        """The rows of a step for this process; rows of similar length are divided evenly."""
        return list(rows[self.number :: self.size])

    def threads(self, machine: Machine) -> int | None:
        """For computing in this process: on a CPU its share of them; None leaves torch's own choice."""
        if self.size == 1 or machine.device.kind != "cpu":
            return machine.threads.compute
        return max(1, (machine.threads.compute or available_cores()) // self.size)

    def idle_rounds(self, rows: int, micro_batch: int, walked: int) -> int:
        """If each pass needs all processes: how often one without remaining rows must still take part."""
        if not self.sharded:
            return 0
        return math.ceil(math.ceil(rows / self.size) / micro_batch) - walked

    def sum(self, *numbers: float) -> list[float]:
        if self.size == 1:
            return list(numbers)
        held = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        _carefully(lambda: distributed.all_reduce(held))
        return held.tolist()

    def all_reduce_max(self, number: int) -> int:
        if self.size == 1:
            return number
        held = torch.tensor(number, dtype=torch.int64, device=self.device)
        _carefully(lambda: distributed.all_reduce(held, distributed.ReduceOp.MAX))
        return int(held)

    def any(self, flag: bool) -> bool:
        return flag if self.size == 1 else self.sum(float(flag))[0] > 0

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """In one piece: adapters are small. A parameter that no process has a gradient for stays without."""
        if self.size == 1:
            return
        there = torch.tensor([float(p.grad is not None) for p in parameters], device=self.device)
        parts = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        whole = torch.cat([there, *(part.reshape(-1).to(there.dtype) for part in parts)])
        _carefully(lambda: distributed.all_reduce(whole))
        known = (whole[: len(parameters)] > 0).tolist()
        pieces = torch.split(whole[len(parameters) :], [p.numel() for p in parameters])
        for parameter, piece, is_known in zip(parameters, pieces, known, strict=True):
            parameter.grad = piece.view_as(parameter).to(parameter.dtype) if is_known else None

    def broadcast_parameters(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """All ranks start with rank 0's parameters."""
        if self.size == 1:
            return
        whole = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        _carefully(lambda: distributed.broadcast(whole, 0))
        pieces = torch.split(whole, [parameter.numel() for parameter in parameters])
        with torch.no_grad():
            for parameter, piece in zip(parameters, pieces, strict=True):
                parameter.copy_(piece.view_as(parameter))

    def broadcast_object(self, document: JsonValue = None) -> Any:
        """Broadcasts rank 0's document."""
        if self.size == 1:
            return document
        text = json.dumps(document).encode()
        length = int(self.sum(len(text) if self.is_main_process else 0)[0])
        held = torch.zeros(length, dtype=torch.uint8, device=self.device)
        if self.is_main_process:
            held.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        _carefully(lambda: distributed.broadcast(held, 0))
        return json.loads(bytes(held.tolist()))

    def barrier(self) -> None:
        """Until everyone is here."""
        self.sum(0.0)

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Runs on rank 0 first; the other ranks only read its files."""
        if not self.is_main_process:
            self.barrier()
        yield
        if self.is_main_process:
            self.barrier()


@contextmanager
def process_group(machine: Machine, events: Events) -> Iterator[DistContext]:
    rank, together = this_rank(), machine.distributed
    if rank is None or together is None:
        yield DistContext()
        return
    events.stage("processes", 120.0, f"{together.processes} processes, {together.strategy}")
    state = _join(machine.device, together, rank)
    dist = DistContext(state.process_index, state.num_processes, together.strategy == "fsdp2", state.device)
    backend = distributed.get_backend()
    events.applied(
        "distributed",
        {"strategy": together.strategy, "processes": distributed.get_world_size(), "backend": backend},
        f"{dist.size} processes train together ({together.strategy}, {backend})",
    )
    try:
        yield dist
    finally:
        state.destroy_process_group()


def _join(device: Device, together: Distributed, rank: Rank) -> Any:
    from accelerate import PartialState

    if device.kind == "cuda" and torch.cuda.device_count() < device.index + together.processes:
        found = torch.cuda.device_count()
        raise Missing(
            f"{together.processes} processes need a GPU each, and torch finds {found} here",
            hint="Lower training.config.distributed.processes, or leave the key out.",
            code="too-few-devices",
        )
    on_cpu = device.kind != "cuda"
    try:
        return PartialState(
            cpu=on_cpu,
            backend="gloo" if on_cpu else "nccl",
            init_method=f"file://{rank.rendezvous}",
            rank=rank.number,
            world_size=together.processes,
            timeout=_PATIENCE,
        )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise Failed(
            f"The processes cannot join: {str(error).splitlines()[0]}",
            hint="Set training.config.distributed to null to train in one process.",
            code="processes-cannot-join",
        ) from error


def _carefully(collective: Callable[[], _Result]) -> _Result:
    """A collective that breaks means that another process is gone, and the leader knows which."""
    try:
        return collective()
    except RuntimeError as error:
        time.sleep(_UNTIL_ENDED)
        raise Failed(
            f"Another process of this run is gone: {str(error).splitlines()[0]}",
            hint="Run again with --resume.",
            code="process-lost",
        ) from error


def shard(model: Any, device: torch.device, events: Events) -> None:
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
    pieces = sum(isinstance(module, FSDPModule) for module in inner.modules())
    events.applied("fsdp2.units", pieces, f"Base sharded over the processes in {pieces} pieces")


def _layers(inner: Any) -> list[Any]:
    layers = getattr(getattr(inner, "model", None), "layers", None)
    if layers is None:
        raise BadInput(
            "This base cannot be sharded: its layers are not at the usual path of decoders",
            hint='Set training.config.distributed.strategy to "ddp".',
            code="cannot-shard",
        )
    return list(layers)
