"""The forward and backward pass of a micro-batch as a CUDA graph: one launch instead of thousands.

A graph holds addresses and shapes. So batches are padded to a few shapes (`fast/static_batch.py`), and
gradients are parts of one buffer. What a pass allocates is in a pool that all graphs share, as nothing in it
outlives a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from expert_worker import memory_errors
from expert_worker.base.rope import follows_longest_row
from expert_worker.events import Events
from expert_worker.plan import Machine
from expert_worker.train import memory
from expert_worker.train.engine import Engine, FastEngine
from expert_worker.train.fast import compiler
from expert_worker.train.fast.batch import PackedBatch
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.kernels import verdicts
from expert_worker.train.fast.kernels.choice import Choice
from expert_worker.train.fast.static_batch import MOST_SHAPES, Shape, Shapes, StaticBatch

Replay = Callable[[], None]
# The attention that reads where documents are on the device.
_ATTENTION = ("torch_varlen", "flash_attn_varlen")
NOT_CAPTURED = "not-captured"


class Recorder:
    """Captures what a function launches. The pool's memory is free when its graphs are gone."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.renew()
        # One stream: cuBLAS keeps a workspace for each.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, function: Callable[[], None]) -> Replay:
        graph = torch.cuda.CUDAGraph()
        # Of this thread and of autograd's: others may allocate meanwhile.
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
            function()
        return graph.replay

    def renew(self) -> None:
        """Later graphs are in another pool, and replays of earlier ones have ended: before the allocator
        unmaps memory it waits for the stream that the memory was allocated on, and replays run on another."""
        torch.cuda.synchronize(self._device)
        self._pool = torch.cuda.graph_pool_handle()


class FlatGradients:
    """The parameters' gradients in one piece of memory, in the order in which adapters add to them."""

    def __init__(self, parameters: Sequence[nn.Parameter], first: Sequence[Tensor]) -> None:
        placed = {id(parameter) for parameter in first}
        order = [*first, *(it for it in parameters if id(it) not in placed)]
        self._flat = {
            dtype: torch.zeros(
                sum(it.numel() for it in order if it.dtype == dtype), dtype=dtype, device=order[0].device
            )
            for dtype in {it.dtype for it in order}
        }
        self._parts: list[tuple[Tensor, Tensor]] = []
        ends = dict.fromkeys(self._flat, 0)
        for it in order:
            start, ends[it.dtype] = ends[it.dtype], ends[it.dtype] + it.numel()
            self._parts.append((it, self._flat[it.dtype][start : ends[it.dtype]].view(it.shape)))

    def hold(self) -> None:
        """Zeros at the start of a step: the optimizer has removed the gradients of the last one."""
        parameter, part = self._parts[0]
        if parameter.grad is part:
            return
        for flat in self._flat.values():
            flat.zero_()
        for parameter, part in self._parts:
            parameter.grad = part


class GraphEngine:
    """`inner`, which computes batches of a known shape by replays. `longest`: the most tokens of a row.

    The first batch of a shape is computed uncaptured, which compiles and loads what it needs; the second is
    captured. Where a capture fails all later batches run uncaptured."""

    def __init__(
        self,
        inner: FastEngine,
        longest: int,
        device: torch.device,
        events: Events,
        recorder: Recorder | None = None,
    ) -> None:
        self._inner, self._longest, self._device, self._events = inner, longest, device, events
        self._record = recorder or Recorder(device)
        copied = inner.decoder.kernels.copies.matrices()
        self._gradients = FlatGradients(inner.trained, copied)
        self._loss = torch.zeros((), device=device)
        self._shapes = Shapes(longest)
        self._batches: dict[Shape, StaticBatch] = {}
        self._replays: dict[Shape, Replay] = {}
        self._computed: set[Shape] = set()
        self.given_up: str | None = None
        """Why nothing is captured any more."""
        self.uncaptured = 0
        """Batches that no shape holds, and all after a failure."""

    def to_device(self, batch: PackedBatch) -> PackedBatch:
        """It is sent with its scale."""
        return batch

    def backward(self, batch: PackedBatch, scale: float) -> Tensor:
        if not len(batch.sources):
            # It leaves a step without gradients as it is.
            return self._inner.backward(batch, scale)
        self._gradients.hold()
        try:
            return self._backward(batch, scale)
        except (RuntimeError, MemoryError) as error:
            if not memory_errors.ran_out(error):
                raise
            if not self._replays:
                # Smaller batches follow.
                self._shapes = Shapes(self._longest)
                raise
        self._give_up("memory ran out for a batch that no graph holds")
        # Some parameters have their gradients of this batch already.
        raise memory.Freed("out of memory beside the CUDA graphs")

    def loss(self, batch: PackedBatch) -> Tensor:
        try:
            return self._inner.loss(batch)
        except (RuntimeError, MemoryError) as error:
            if not self._replays or not memory_errors.ran_out(error):
                raise
        self.release()
        return self._inner.loss(batch)

    def parameters_changed(self) -> None:
        self._inner.parameters_changed()

    @property
    def kernels(self) -> Mapping[str, Choice]:
        return self._inner.kernels

    def release(self) -> None:
        """Frees the graphs' memory. They are captured again when their shapes come again."""
        if not self._replays:
            return
        self._record.renew()
        self._replays.clear()
        self._batches.clear()
        memory.release()

    def _backward(self, batch: PackedBatch, scale: float) -> Tensor:
        shape = self._shapes.of(batch) if self.given_up is None else None
        if shape is None:
            self._count_uncaptured(batch)
            return self._inner.backward(batch, scale)
        if shape not in self._computed:
            # What it allocates and the graphs' pool are not there at the same time.
            self.release()
        static = self._static(shape, with_keys=batch.keys is not None)
        static.fill(batch, scale)
        self._inner.decoder.prepare()
        if shape not in self._computed:
            loss = self._pass(static)
            self._computed.add(shape)
            return loss
        replay = self._replays.get(shape) or self._captured(static, shape)
        if replay is None:
            return self._inner.backward(batch, scale)
        replay()
        # The next replay writes to the same place.
        return self._loss.clone()

    def _static(self, shape: Shape, *, with_keys: bool) -> StaticBatch:
        if shape not in self._batches:
            self._batches[shape] = StaticBatch.of(shape, self._device, with_keys=with_keys)
        return self._batches[shape]

    def _pass(self, batch: StaticBatch) -> Tensor:
        assert batch.scale is not None
        return self._inner.backward(batch, batch.scale)

    def _captured(self, batch: StaticBatch, shape: Shape) -> Replay | None:
        """None where it fails: nothing of the pass was computed then."""

        def step() -> None:
            self._loss.copy_(self._pass(batch))

        try:
            self._replays[shape] = self._record(step)
        except Exception as error:
            ran_out = memory_errors.ran_out(error)
            why = "out of memory in the capture" if ran_out else compiler.reason(_first(error))
        else:
            self._events.applied(
                "cuda_graphs.captured",
                len(self._replays),
                f"CUDA graph captured for {shape.tokens} tokens, {shape.supervised} of them supervised",
            )
            return self._replays[shape]
        # Here nothing holds the tensors of the failed capture.
        self._give_up(why)
        return None

    def _give_up(self, why: str) -> None:
        self.given_up = why
        self._events.warning(NOT_CAPTURED, f"The run continues without CUDA graphs: {why}")
        self.release()

    def _count_uncaptured(self, batch: PackedBatch) -> None:
        self.uncaptured += 1
        if self.uncaptured == 1 and self.given_up is None:
            reason = f"fits none of {MOST_SHAPES} captured shapes"
            if batch.shared:
                reason = "has beginnings that documents share (share_prefixes), which no graph holds"
            self._events.warning(
                NOT_CAPTURED,
                f"A batch of {len(batch.ids)} tokens {reason}: it runs uncaptured, as others like it will",
            )


def _first(error: BaseException) -> BaseException:
    """The error that ended the capture, whose end fails too."""
    while isinstance(error.__context__, Exception):
        error = error.__context__
    return error


def captured(
    machine: Machine, engine: Engine, alone: bool, longest: int, device: torch.device, events: Events
) -> Engine:
    """`engine`, with graphs where they are wanted and possible. `alone`: one process trains one expert."""
    wanted = machine.cuda_graphs
    if wanted is None:
        return engine
    reason = obstacle(engine, device) if alone else "several processes or experts train together"
    if reason is None and not wanted.asked and isinstance(engine, FastEngine):
        home, dtype = Path(machine.paths.home), engine.decoder.dtype
        reason = verdicts.not_proved(home, device, dtype, verdicts.CAPTURED)
    if reason is not None or not isinstance(engine, FastEngine):
        events.warning(NOT_CAPTURED, f"No CUDA graph is captured, the run continues: {reason}")
        return engine
    events.applied("cuda_graphs", True, "CUDA graphs: a micro-batch is one launch")
    return GraphEngine(engine, longest, device, events)


def make_room(engine: Engine) -> None:
    """For work that needs memory and does not replay anything, such as generation."""
    if isinstance(engine, GraphEngine):
        engine.release()


def obstacle(engine: Engine, device: torch.device) -> str | None:
    """Why passes cannot be replayed: each needs values on the host that differ between batches."""
    if device.type != "cuda":
        return "they need an NVIDIA GPU"
    if not isinstance(engine, FastEngine):
        return "the plain path pads each batch in its way"
    return _obstacle_in(engine.decoder)


def _obstacle_in(decoder: FastDecoder) -> str | None:
    chosen = decoder.kernels.choices["attention"].chosen
    if chosen not in _ATTENTION:
        return f"attention ({chosen}) walks documents one by one"
    if decoder.neftune:
        return "NEFTune scales its noise by the lengths of documents"
    if not _adds_by_itself(decoder):
        return "only LoRA without DoRA adds its gradients at fixed addresses"
    if kind := follows_longest_row(decoder.body.rotary_emb):
        return f"rotary positions ({kind}) depend on the longest row of a batch"
    return None


def _adds_by_itself(decoder: FastDecoder) -> bool:
    """Whether all that is trained belongs to groups of LoRA layers."""
    grouped = {id(matrix) for matrix in decoder.kernels.copies.matrices()}
    trained = [parameter for parameter in decoder.body.parameters() if parameter.requires_grad]
    return bool(trained) and all(id(it) in grouped for it in trained)
