"""The processes that train one expert together: their rows, collective operations and sharding (FSDP2).

Random draws depend on the seed, the step and the row, never on the process, so that a checkpoint of any
number of processes can be resumed with any other."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
from pydantic import JsonValue
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from expert_worker.errors import BadInput, Failed, Interrupted, Missing
from expert_worker.events import Events
from expert_worker.plan import Device, Distributed, Machine
from expert_worker.process.rank import Rank, has_leader, this_rank
from expert_worker.processor import available_cores
from expert_worker.stop import Stop
from expert_worker.train.adapter import trained
from expert_worker.train.launched import Watch, lost, meet, patience

# The leader or a watch ends waiting processes when another is lost; a save or a tokenization may take hours.
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
    launched: bool = False
    """A launcher started the processes, each with a plan for its own device and threads."""
    leave: Callable[[], None] = lambda: None
    """Once no collective follows: the others may end before this process, and it before them."""

    @property
    def is_main_process(self) -> bool:
        return self.number == 0

    @property
    def offset(self) -> int:
        """How far this process's device is from the planned one."""
        return 0 if self.launched else self.number

    def share(self, rows: Sequence[int]) -> list[int]:
        """The rows of a step for this process; rows of similar length are divided evenly."""
        return list(rows[self.number :: self.size])

    def threads(self, machine: Machine) -> int | None:
        """For computing in this process: on a CPU its share of them; None leaves torch's own choice."""
        threads = self.threads_together(machine)
        return max(1, threads // self.size) if threads and self._shares_cpu(machine) else threads

    def threads_together(self, machine: Machine) -> int | None:
        """Of the processes that share a CPU: what a resumed run divides again."""
        return machine.threads.compute or (available_cores() if self._shares_cpu(machine) else None)

    def _shares_cpu(self, machine: Machine) -> bool:
        return self.size > 1 and not self.launched and machine.device.kind == "cpu"

    def largest_share(self, rows: Sequence[int]) -> int:
        """The most rows of a step that any process has, where all must agree; else those of this one."""
        return math.ceil(len(rows) / self.size) if self.sharded else len(self.share(rows))

    def rounds(self, rows: int, micro_batch: int) -> int:
        """The passes that every process takes part in, if each pass needs all of them."""
        return math.ceil(math.ceil(rows / self.size) / micro_batch)

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

    def broadcast_object(self, document: JsonValue = None, source: int = 0) -> Any:
        """Broadcasts the document of one rank, rank 0 unless said otherwise."""
        if self.size == 1:
            return document
        text = json.dumps(document).encode()
        length = int(self.sum(len(text) if self.number == source else 0)[0])
        held = torch.zeros(length, dtype=torch.uint8, device=self.device)
        if self.number == source:
            held.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        _carefully(lambda: distributed.broadcast(held, source))
        return json.loads(bytes(held.tolist()))

    def agrees_to_stop(self, stop: Stop) -> bool:
        """Whether any process was asked to stop. Then all end as that one does. A signal that comes while the
        processes agree counts the next time: here the others would not know of it."""
        if self.size == 1:
            return stop.requested
        asked, terminated = self.sum(float(stop.requested), float(stop.terminated))
        if asked:
            stop.request(terminated=terminated > 0)
        return asked > 0

    def raise_objection(self, objection: str | None, code: str, hint: str) -> None:
        """An error of all processes where one has an objection: that of the lowest rank, with its number."""
        first = self.size - self.all_reduce_max(0 if objection is None else self.size - self.number)
        if first < self.size:
            message = self.broadcast_object(objection, source=first)
            raise BadInput(f"Rank {first} of {self.size} {message}", code=code, hint=hint)

    def barrier(self) -> None:
        """Until everyone is here."""
        self.sum(0.0)

    @contextmanager
    def leaving_at_a_stop(self) -> Iterator[None]:
        """Around steps: all have agreed to the stop, and saved."""
        try:
            yield
        except Interrupted:
            self.leave()
            raise

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
    events.stage("processes", max(120.0, patience()), f"{together.processes} processes, {together.strategy}")
    if not rank.is_launched:
        with _joined(machine.device, together, rank, events, init_method=f"file://{rank.rendezvous}") as dist:
            yield dist
        return
    if machine.device.kind == "cuda":  # What accelerate reads.
        os.environ["LOCAL_RANK"] = str(machine.device.index)
    store = meet(rank.number, together.processes, events)
    with (
        Watch(rank.number, together.processes, events, store.clone()) as watch,
        _joined(machine.device, together, rank, events, store=store) as dist,
    ):
        yield replace(dist, leave=watch.leave)


@contextmanager
def _joined(
    device: Device, together: Distributed, rank: Rank, events: Events, **meeting: Any
) -> Iterator[DistContext]:
    state = _join(device, together, rank, **meeting)
    dist = DistContext(
        state.process_index,
        state.num_processes,
        together.strategy == "fsdp2",
        state.device,
        launched=rank.is_launched,
    )
    backend = distributed.get_backend()
    events.applied(
        "distributed",
        {"strategy": together.strategy, "processes": distributed.get_world_size(), "backend": backend},
        f"{dist.size} processes train together ({together.strategy}, {backend})",
    )
    try:
        yield dist
    except RuntimeError as error:
        # The passes of a sharded base have further collectives.
        if rank.is_launched and _is_broken_connection(error):
            raise lost(f"Another process of this run is gone: {_first_line(error)}") from error
        raise
    finally:
        # What is left of a broken group would wait for those that are gone; this process ends with it.
        if not (rank.is_launched and sys.exc_info()[0] is not None):
            state.destroy_process_group()


def _join(device: Device, together: Distributed, rank: Rank, **meeting: Any) -> Any:
    """`meeting`: where the processes find each other, as torch takes it."""
    from accelerate import PartialState

    needed = device.index + (1 if rank.is_launched else together.processes)
    if device.kind == "cuda" and torch.cuda.device_count() < needed:
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
            **meeting,
            rank=rank.number,
            world_size=together.processes,
            timeout=_PATIENCE,
        )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise Failed(
            f"The processes cannot join: {str(error).splitlines()[0]}",
            hint="Check that the machines reach each other; GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names "
            "the network between them."
            if rank.is_launched
            else "Set training.config.distributed to null to train in one process.",
            code="processes-cannot-join",
        ) from error


def _carefully(collective: Callable[[], _Result]) -> _Result:
    """A collective that breaks means that another process is gone. A leader knows which."""
    try:
        return collective()
    except RuntimeError as error:
        if has_leader():
            time.sleep(_UNTIL_ENDED)
        raise lost(f"Another process of this run is gone: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _is_broken_connection(error: RuntimeError) -> bool:
    """Gloo has no type for it."""
    return isinstance(error, distributed.DistError) or "gloo" in str(error).lower()


def shard(model: Any, device: torch.device, events: Events) -> None:
    """Layer by layer, so that a device holds only one layer of the base and its shards."""
    if not hasattr(FSDPModule, "reset_iter_state"):
        raise Missing(
            f"torch {torch.__version__} cannot reset a sharded base between passes",
            hint='Install a newer torch, or set training.config.distributed.strategy to "ddp".',
            code="cannot-shard",
        )
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


def reshard(model: Any) -> None:
    """An evaluation leaves parts of the base gathered until the next backward pass. Reading the state dict
    shards them again, but only in the process that reads; the next step would gather in that one alone."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def _layers(inner: Any) -> list[Any]:
    layers = getattr(getattr(inner, "model", None), "layers", None)
    if layers is None:
        raise BadInput(
            "This base cannot be sharded: its layers are not at the usual path of decoders",
            hint='Set training.config.distributed.strategy to "ddp".',
            code="cannot-shard",
        )
    return list(layers)
