"""Several experts in one forward and backward pass through the frozen base that they share.

Each expert trains as it does alone, in its own thread: its rows, optimizer, schedule, evaluations and
checkpoints are its own. One thread runs at a time. Its engine hands each micro-batch to the group and waits;
once every expert that is still training has handed one over, the group takes all of them through the base
and gives each its loss and its gradients. Experts need not be at the same step, and one that ends leaves the
others in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from expert_worker import memory_errors
from expert_worker.base import load_base, locate
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Base, Machine, Plan
from expert_worker.train import memory
from expert_worker.train.chunk_pool import ChunkPool
from expert_worker.train.engine import Engine, FastEngine, accumulate
from expert_worker.train.fast.batch import CPU_MULTIPLE, PackedBatch
from expert_worker.train.fast.group import GroupDecoder
from expert_worker.train.fast.kernels.adapted_linear import ADAPTED_HEADS, ADAPTED_MLP, BY_LAYER
from expert_worker.train.fast.kernels.choice import Choice

Result = TypeVar("Result")


def _set_up_thread(threads: int, device: int | None) -> None:
    """As in the thread that asks: a new one begins with torch's defaults and with the first GPU."""
    torch.set_num_threads(threads)
    if device is not None:
        torch.cuda.set_device(device)


@dataclass
class _Request:
    """A micro-batch that waits for the others, and what became of it."""

    batch: PackedBatch
    scale: float
    outcome: Tensor | BaseException | None = None


class FusedGroup:
    def __init__(self) -> None:
        # Held by the expert that runs.
        self._turn = threading.Condition()
        self._members: list[Member] = []
        self._waiting: dict[Member, _Request] = {}
        self._base: tuple[tuple[Base, str, Path], Any] | None = None
        self._decoders: dict[tuple[Member, ...], GroupDecoder] = {}
        # How many experts' micro-batches fit into memory at once; all, as long as nothing else is known.
        self._at_once: int | None = None
        self._computing: ThreadPoolExecutor | None = None

    def compute(self, work: Callable[[], Result]) -> Result:
        """Always on the same thread: each thread keeps the memory of what it has computed for itself."""
        if self._computing is None:
            device = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
            settings = (torch.get_num_threads(), device)
            self._computing = ThreadPoolExecutor(1, "fused", _set_up_thread, settings)
        return self._computing.submit(work).result()

    def member(self, expert: str) -> Member:
        """All of them join before the first one runs."""
        joined = Member(expert, self)
        self._members.append(joined)
        return joined

    def carry_out(self, member: Member, work: Callable[[], Result]) -> Result:
        """An expert's whole run, called in its own thread."""
        with self._turn:
            try:
                return work()
            finally:
                self.leave(member)
                # Its adapter and what was computed with it.
                member.__dict__.pop("alone", None)

    def names_beside(self, member: Member) -> list[str]:
        """Of those that have not ended yet."""
        return [one.expert for one in self._members if one is not member]

    def leave(self, member: Member) -> None:
        """It hands over no more, and nobody waits for it."""
        if member in self._members:
            self._members.remove(member)
            self._decoders.clear()
            self._turn.notify_all()

    def load_base(
        self, member: Member, base: Base, machine: Machine, events: Events, fp32: bool | None
    ) -> Any:
        """The base with modules of the member's own around the same tensors."""
        folder = locate(base, machine.paths, events).resolve()
        wanted = (base.model_copy(update={"sha256": None}), machine.dtype, folder)
        if self._base is not None and self._base[0] != wanted:
            raise BadInput(
                f"{member.expert} has another base or number format than the experts that it trains with",
                hint="Fuse experts with the same base, quantization and --mixed-precision.",
                code="cannot-fuse",
            )
        like = None if self._base is None else _copied(self._base[1])
        model = load_base(base, machine, events, fp32=fp32, like=like)
        if self._base is None:
            self._base = (wanted, model)
            model = _copied(model)
        elif model is not like:
            raise BadInput(
                f"{member.expert} began in another arithmetic than the experts that it trains with: "
                "a 16-bit base in fp32 or not",
                hint="Resume it alone, without --fuse.",
                code="cannot-fuse",
            )
        return model

    def backward(self, member: Member, batch: PackedBatch, scale: float) -> Tensor:
        request = _Request(batch, scale)
        self._waiting[member] = request
        while request.outcome is None:
            if len(self._waiting) == len(self._members):
                self.compute(self._answer)
                self._turn.notify_all()
            else:
                self._turn.wait()
        if isinstance(request.outcome, BaseException):
            raise request.outcome
        return request.outcome

    def _answer(self) -> None:
        left = [(member, self._waiting[member]) for member in self._members]
        self._waiting = {}
        while left:
            together = left[: self._at_once]
            if self._fits(together):
                left = left[len(together) :]
            else:
                self._take_fewer(together)

    def _fits(self, requests: Sequence[tuple[Member, _Request]]) -> bool:
        """Answers the requests. False, with none answered, where memory is too small for several at once."""
        if len(requests) > 1:
            try:
                self._pass(requests)
                return True
            except Exception as error:
                if memory_errors.ran_out(error):
                    return False
        # One expert, or a pass that failed: only whose rows fail is to fail.
        for member, request in requests:
            try:
                request.outcome = member.alone.backward(request.batch, request.scale)
            except Exception as error:
                request.outcome = error
        return True

    def _take_fewer(self, requests: Sequence[tuple[Member, _Request]]) -> None:
        """Fewer experts in a pass, not fewer rows of each: those fitted before training, expert by expert."""
        count = len(requests)
        self._at_once = (count + 1) // 2
        memory.release()
        fewer = "alone" if self._at_once == 1 else f"with at most {self._at_once} experts in one pass"
        detail = f"the rows of {count} experts at once did not fit into memory: the step is repeated {fewer}"
        for member, request in requests:
            member.events.recovered("out_of_memory", request.batch.step + 1, detail)

    def _pass(self, requests: Sequence[tuple[Member, _Request]]) -> None:
        members = [member for member, _ in requests]
        if (decoder := self._decoders.get(tuple(members))) is None:
            decoder = self._decoders[tuple(members)] = _decoder(members)
        batches, scales = [it.batch for _, it in requests], [it.scale for _, it in requests]
        losses = _backward(decoder, members, batches, scales)
        for (_, request), loss in zip(requests, losses, strict=True):
            request.outcome = loss

    @staticmethod
    def passes(members: Sequence[Member]) -> Callable[[Sequence[PackedBatch]], Tensor]:
        """Passes of these members only, of batches with scale 1: to measure how long they take."""
        decoder = _decoder(members)
        return lambda batches: _backward(decoder, members, batches, [1.0] * len(members))


def _decoder(members: Sequence[Member]) -> GroupDecoder:
    return GroupDecoder([member.alone.decoder for member in members])


def _backward(
    decoder: GroupDecoder, members: Sequence[Member], batches: Sequence[PackedBatch], scales: Sequence[float]
) -> Tensor:
    """Each member's summed loss; adds the gradients to its parameters, once all of them are there: a pass
    that fails leaves nothing behind."""
    every = [parameter for member in members for parameter in member.alone.trained]
    batch, factors, first = PackedBatch.of_experts(batches), torch.tensor(scales), members[0].alone
    if first.lanes is None:
        return _whole(decoder, every, first.to_device(batch), factors.to(first.device, non_blocking=True))
    return _in_pieces(decoder, every, batch, factors, first.lanes)


def _whole(decoder: GroupDecoder, every: Sequence[Tensor], batch: PackedBatch, factors: Tensor) -> Tensor:
    """On a GPU, whose kernels write the gradients where the optimizer reads them."""
    held = [parameter.grad for parameter in every]
    for parameter in every:
        parameter.grad = None
    try:
        losses = decoder.losses(batch)
        if losses.requires_grad:
            (losses * factors).sum().backward()  # type: ignore[no-untyped-call]
    except BaseException:
        for parameter, before in zip(every, held, strict=True):
            parameter.grad = before
        raise
    pairs = [(one, before) for one, before in zip(every, held, strict=True) if before is not None]
    more = [(before, one.grad) for one, before in pairs if one.grad is not None]
    if more:
        torch._foreach_add_([before for before, _ in more], [found for _, found in more])
    for parameter, before in pairs:
        parameter.grad = before
    return losses.detach()


def _in_pieces(
    decoder: GroupDecoder, every: Sequence[Tensor], batch: PackedBatch, factors: Tensor, pool: ChunkPool
) -> Tensor:
    """On a CPU."""

    def gradients(piece: PackedBatch) -> tuple[Tensor, Sequence[Tensor | None]]:
        losses = decoder.losses(piece)
        if not losses.requires_grad:
            return losses, [None] * len(every)
        return losses.detach(), torch.autograd.grad((losses * factors).sum(), every, allow_unused=True)

    pieces = [piece.filled(CPU_MULTIPLE) for piece in pool.pieces(batch)]
    totals = torch.zeros(len(factors))
    sums: list[Tensor | None] = [None] * len(every)
    for losses, found in pool.walk(gradients, pieces):
        totals += losses
        for place, gradient in enumerate(found):
            if gradient is not None:
                held = sums[place]
                sums[place] = gradient.contiguous() if held is None else held.add_(gradient)
    for parameter, gradient in zip(every, sums, strict=True):
        accumulate(parameter, gradient)
    return totals


class Member:
    """One expert's part in the group."""

    def __init__(self, expert: str, group: FusedGroup) -> None:
        self.expert = expert
        self._group = group
        self.events: Events
        self.alone: FastEngine
        self.is_training = False

    @staticmethod
    def computed(plan: Plan) -> Plan:
        """The plan as a member is computed: kernels that add LoRA inside of other operations add that of one
        expert."""
        kernels = dict.fromkeys((ADAPTED_HEADS.name, ADAPTED_MLP.name), BY_LAYER) | plan.machine.kernels
        return plan.model_copy(update={"machine": plan.machine.model_copy(update={"kernels": kernels})})

    def load_base(self, base: Base, machine: Machine, events: Events, fp32: bool | None) -> Any:
        self.events = events
        return self._group.load_base(self, base, machine, events, fp32)

    def engine(self, alone: Engine, reason: str | None) -> FusedEngine:
        """`reason`: why its batches cannot take the fast path."""
        if not isinstance(alone, FastEngine):
            raise BadInput(
                f"{self.expert} cannot be fused: {reason}",
                hint="Train it by itself, without --fuse.",
                code="cannot-fuse",
            )
        self.alone = alone
        return FusedEngine(self, self._group)

    def companions(self) -> list[str]:
        return self._group.names_beside(self)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Its micro-batches are computed with those of the others; before and after, alone."""
        self.is_training = True
        try:
            yield
        finally:
            self.is_training = False
            self._group.leave(self)


class FusedEngine:
    """An `Engine`: evaluations, and the largest batch that is tried before training, are its own."""

    def __init__(self, member: Member, group: FusedGroup) -> None:
        self._member, self._group = member, group

    @property
    def kernels(self) -> Mapping[str, Choice]:
        return self._member.alone.kernels

    def to_device(self, batch: PackedBatch) -> PackedBatch:
        """Those of the group are sent together."""
        return batch if self._member.is_training else self._member.alone.to_device(batch)

    def backward(self, batch: PackedBatch, scale: float) -> Tensor:
        # Rows without supervised tokens have neither loss nor gradient, as when the expert trains alone.
        if not self._member.is_training or batch.sources.numel() == 0:
            return self._group.compute(lambda: self._member.alone.backward(batch, scale))
        return self._group.backward(self._member, batch, scale)

    def loss(self, batch: PackedBatch) -> Tensor:
        return self._group.compute(lambda: self._member.alone.loss(batch))

    def parameters_changed(self) -> None:
        self._member.alone.parameters_changed()


def _copied(model: Any) -> Any:
    """Other modules around the same parameters and buffers."""
    held: list[object] = [*model.parameters(), *model.buffers()]
    # The scales of a base in 4 bits.
    held += [state for it in model.modules() if (state := getattr(it, "quant_state", None)) is not None]
    return deepcopy(model, {id(it): it for it in held})
