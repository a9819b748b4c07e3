"""Find what limits the speed of a run, from measurements only, with advice. The worst finding comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from expert_worker.bench.breakdown import Breakdown
from expert_worker.bench.nvml import THERMAL, Reading
from expert_worker.bench.sample import Sample, Summary

_DATA_WAIT, _APART, _TRANSFER = 0.10, 0.20, 0.10
_SLOWED = 0.10
_IDLE = 2.0
_BUSY, _FULL, _BANDWIDTH = 80.0, 0.92, 70.0
_SPILL = 256 << 20
_MIB = 1 << 20


@dataclass(frozen=True)
class Finding:
    code: str
    message: str
    advice: str
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """All measurements that a verdict may use."""

    samples: Sequence[Sample]
    figures: dict[str, Summary]
    breakdown: Breakdown
    gpu: int | None
    """The GPU that the run computes on; None on a CPU."""
    reserved: int
    """Device memory that the training process has reserved, in bytes."""
    cores: int
    attached: bool
    stage: str | None
    ended: bool = False

    def mean(self, name: str) -> float | None:
        summary = self.figures.get(name)
        return summary.mean if summary else None

    def of_gpu(self, name: str) -> float | None:
        return self.mean(f"gpu{self.gpu}.{name}") if self.gpu is not None else None

    @property
    def readings(self) -> list[Reading]:
        return [gpu for sample in self.samples for gpu in sample.gpus if gpu.index == self.gpu]


def findings(observed: Observation) -> list[Finding]:
    checks: list[Callable[[Observation], Finding | None]] = [
        _thermal, _spill, _still, _data, _apart, _transfer, _host, _bandwidth, _full, _crowded, _swap,
    ]  # fmt: skip
    found = [finding for check in checks if (finding := check(observed)) is not None]
    return found or [_nothing_wrong(observed)]


def _thermal(observed: Observation) -> Finding | None:
    readings = observed.readings
    hot = [reading for reading in readings if THERMAL & set(reading.slowed_by)]
    share = len(hot) / len(readings) if readings else 0.0
    if share < _SLOWED:
        return None
    warmest = max((reading.temperature or 0.0) for reading in hot)
    return Finding(
        "thermal",
        f"The GPU slows itself down because of heat in {share:.0%} of the samples (up to {warmest:.0f} °C)",
        "Give it more air, clean the fans, or lower its power limit (nvidia-smi -pl): steadier is faster.",
        {"share": share, "temperature": warmest},
    )


def _spill(observed: Observation) -> Finding | None:
    """A Windows driver lends shared memory instead of refusing: then more is reserved than the card holds."""
    used = max((reading.memory_used or 0 for reading in observed.readings), default=0)
    total = max((reading.memory_total or 0 for reading in observed.readings), default=0)
    over = observed.reserved - min(used, total)
    if not used or over < _SPILL:
        return None
    return Finding(
        "spill",
        f"Training has reserved {over / _MIB:.0f} MiB more than the card has: "
        "the rest is in shared memory, at a fraction of the speed",
        "Lower batch_size and raise gradient_accumulation_steps by as much, or quantize the base; "
        "`expert-cli bench tune` finds what fits.",
        {"reserved": float(observed.reserved), "used": float(used), "total": float(total)},
    )


def _still(observed: Observation) -> Finding | None:
    """Neither a step nor a sign of work, of the processor or of the GPU."""
    process, gpu = observed.mean("process.cpu_percent"), observed.of_gpu("utilization") or 0.0
    if observed.breakdown.steps or process is None or process >= _IDLE or gpu >= _IDLE:
        return None
    return Finding(
        "standing-still",
        f"The run's process lives but does nothing (it is at: {observed.stage or 'its beginning'})",
        "It may be stopped (Ctrl-Z, a container's freezer), or wait for a disk, a network or a lock; "
        "`--stall-timeout` ends such a run.",
        {"process": process, "gpu": gpu},
    )


def _data(observed: Observation) -> Finding | None:
    share = observed.breakdown.share(observed.breakdown.data_wait)
    if share < _DATA_WAIT:
        return None
    return Finding(
        "data-wait",
        f"{share:.0%} of the time is spent waiting for rows",
        "Use the token cache (pretokenized_cache; `expert-cli pretokenize` builds it). Without it, raise "
        "dataloader_num_workers and dataloader_prefetch_factor, and keep the data on a local disk.",
        {"share": share},
    )


def _apart(observed: Observation) -> Finding | None:
    spent = observed.breakdown
    evaluating = spent.evaluate >= spent.checkpoint
    share = spent.share(max(spent.evaluate, spent.checkpoint))
    if share < _APART:
        return None
    code = "evaluate-share" if evaluating else "checkpoint-share"
    key = "eval_steps (or make the validation set smaller)" if evaluating else "save_steps"
    doing = "evaluating" if evaluating else "saving checkpoints"
    return Finding(code, f"{share:.0%} of the time goes into {doing}", f"Raise {key}.", {"share": share})


def _transfer(observed: Observation) -> Finding | None:
    share = observed.breakdown.share(observed.breakdown.transfer)
    if share < _TRANSFER:
        return None
    return Finding(
        "transfer",
        f"{share:.0%} of the time rows are on their way to the device",
        "Set dataloader_pin_memory, and look whether the card sits in a slot with all its PCIe lanes.",
        {"share": share},
    )


def _host(observed: Observation) -> Finding | None:
    """The device waits for the host's launches: its span is as long as theirs, and it is idle in between."""
    ratio, busy = observed.breakdown.launch_to_compute, observed.of_gpu("utilization")
    if ratio is None or busy is None or ratio < 0.9 or busy >= _BUSY:
        return None
    return Finding(
        "host-bound",
        f"The GPU is busy {busy:.0f}% of the time and waits for the host, which needs {ratio:.0%} of the "
        "step to issue the work",
        "Raise batch_size (longer kernels for the same launches), or set torch_compile.",
        {"utilization": busy, "launch_to_compute": ratio},
    )


def _bandwidth(observed: Observation) -> Finding | None:
    moving = observed.of_gpu("memory_utilization")
    if moving is None or moving < _BANDWIDTH:
        return None
    return Finding(
        "memory-bound",
        f"The GPU's memory is being read or written {moving:.0f}% of the time: it sets the pace",
        "Train in bf16, keep gradient_checkpointing off where it fits, and prefer plain weights to int4 ones "
        "below about 3B parameters.",
        {"memory_utilization": moving},
    )


def _full(observed: Observation) -> Finding | None:
    shares = [
        reading.memory_used / reading.memory_total
        for reading in observed.readings
        if reading.memory_used is not None and reading.memory_total
    ]
    if not shares or max(shares) < _FULL:
        return None
    return Finding(
        "memory-full",
        f"The GPU's memory is {max(shares):.0%} full: a longer batch may not fit",
        "Nothing is wrong while it runs, since a batch that does not fit is split. For room: a smaller "
        "batch_size, gradient_checkpointing, or a quantized base.",
        {"share": max(shares)},
    )


def _crowded(observed: Observation) -> Finding | None:
    """On a CPU: the machine is busy, and not with this run."""
    mine, all_of_it = observed.mean("process.cpu_percent"), observed.mean("machine.cpu_percent")
    if observed.gpu is not None or mine is None or all_of_it is None:
        return None
    others = all_of_it - mine / observed.cores
    if all_of_it < 90 or others < 20:
        return None
    return Finding(
        "crowded",
        f"Other programs use {others:.0f}% of the processor while the run uses {mine / observed.cores:.0f}%",
        "Close them, or wait: on a CPU training is as fast as the cores it gets.",
        {"others": others, "run": mine / observed.cores},
    )


def _swap(observed: Observation) -> Finding | None:
    machine = [sample.machine for sample in observed.samples]
    free = min((it.memory_available for it in machine), default=0)
    total = max((it.memory_total for it in machine), default=0)
    if free > 0.03 * total or not machine:
        return None
    return Finding(
        "memory-short",
        f"Only {free / _MIB:.0f} MiB of the machine's memory are free",
        "Lower batch_size or close other programs before the system begins to swap.",
        {"available": float(free)},
    )


def _nothing_wrong(observed: Observation) -> Finding:
    if not observed.attached:
        return Finding(
            "alone", "No training was watched, only the machine",
            "Start `expert-cli train`, or name a run with --run.",
        )  # fmt: skip
    if not observed.breakdown.steps and observed.ended:
        return Finding(
            "ended",
            "The run had ended before it was watched",
            "`expert-cli bench timeline --run DIR` draws where its time went.",
        )
    if not observed.breakdown.steps:
        where = f" (it was at: {observed.stage})" if observed.stage else ""
        return Finding(
            "no-steps", f"The run made no step while it was watched{where}",
            "Watch for longer (--duration), or once training has begun.",
        )  # fmt: skip
    share = observed.breakdown.share(observed.breakdown.passes)
    where = "the GPU" if observed.gpu is not None else "the processor"
    return Finding(
        "compute-bound",
        f"{share:.0%} of the time is forward and backward passes: {where} is what limits the speed",
        "That is as it should be. `expert-cli bench tune` tries other settings, `expert-cli bench ablate` "
        "shows what each optimisation is worth here.",
        {"share": share},
    )
