"""What a watch came to, as text; and its live view."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from expert_worker.bench import sample as samples
from expert_worker.bench.out import visible
from expert_worker.bench.statistics import Summary
from expert_worker.bench.text import bar, number, size, table
from expert_worker.bench.watch import Watch

_SIZES = frozenset({"memory_used", "resident", "memory_available", "swap_used"})
# Constant, or of interest only as a whole.
_UNSHOWN = frozenset({"memory_total", "power_limit_watts", "sm_clock_max_mhz", "processes", "threads"})


def report(watch: Watch) -> str:
    parts = [_heading(watch), _statistics(watch), _shares(watch)]
    for place, finding in enumerate(watch.findings):
        word = "verdict" if place == 0 else "also"
        parts.append(f"{word}: {finding.message}\n  {finding.advice}")
    return "\n\n".join(part for part in parts if part)


def _heading(watch: Watch) -> str:
    gpu = f"{', '.join(watch.gpus.names)} (driver {watch.gpus.driver})" if watch.gpus else watch.why_no_gpu
    what = f"the run in {watch.run.folder}" if watch.run else "this machine; no training runs"
    lines = [f"watched {what}: {len(watch.samples)} samples in {watch.seconds:.1f} s", f"GPU: {gpu}"]
    if watch.gpus is None:
        lines.append("     measured on the CPU's side only")
    return "\n".join(lines)


def _statistics(watch: Watch) -> str:
    rows = [
        [name, *(_value(name, figures[column]) for column in ("mean", "min", "max", "p50", "p95"))]
        for name, figures in _shown(samples.statistics(watch.samples)).items()
    ]
    return table(["", "mean", "min", "max", "p50", "p95"], rows) if rows else ""


def _shown(figures: dict[str, Summary]) -> dict[str, Summary]:
    return {name: it for name, it in figures.items() if name.rpartition(".")[2] not in _UNSHOWN}


def _value(name: str, value: float) -> str:
    return size(value) if name.rpartition(".")[2] in _SIZES else number(value)


def _shares(watch: Watch) -> str:
    spent = watch.spent
    if not spent.steps:
        return ""
    rows = [
        f"{name:<21}{bar(share, 30)} {share:6.1%}  {spent.seconds[name]:8.2f} s"
        for name, share in spent.shares.items()
    ]
    speed = f"{spent.tokens_per_second:,.0f} tokens/s" if spent.tokens_per_second else ""
    note = _launching(watch)
    return "\n".join([f"{len(spent.steps)} steps, {speed}", *rows, *([note] if note else [])])


def _launching(watch: Watch) -> str:
    ratio = watch.spent.launch_to_compute
    if watch.run is None or ratio is None:
        return ""
    if watch.run.device.kind != "cuda":
        return "on a CPU launching and computing are the same time"
    return f"the host took {ratio:.0%} of the device's time to issue its work"


class LiveView:
    """Redrawn at each sample, where somebody can see it."""

    def __init__(self, console: Console, duration: float) -> None:
        self._duration = duration
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, watch: Watch) -> None:
        self._live.update(Group(*(Text(visible(line)) for line in self._lines(watch))), refresh=True)

    def _lines(self, watch: Watch) -> list[str]:
        last = watch.samples[-1]
        lines = [f"{watch.seconds:5.0f} of {self._duration:.0f} s  (Ctrl-C ends it with what there is)"]
        for gpu in last.gpus:
            used, total = gpu.memory_used or 0, gpu.memory_total or 1
            lines.append(_gauge(f"GPU {gpu.index}", gpu.utilization or 0.0, 100.0, "%"))
            lines.append(_gauge("  memory", used / 2**30, total / 2**30, " GiB"))
            extra = [f"{gpu.temperature:.0f} °C" if gpu.temperature is not None else ""]
            extra += [f"{gpu.power_watts:.0f} W" if gpu.power_watts is not None else ""]
            extra += [f"{gpu.sm_clock_mhz:.0f} MHz" if gpu.sm_clock_mhz is not None else "", *gpu.slowed_by]
            lines.append("            " + "  ".join(part for part in extra if part))
        lines.append(_gauge("CPU", last.machine.cpu_percent, 100.0, "%"))
        used_memory = last.machine.memory_total - last.machine.memory_available
        lines.append(_gauge("memory", used_memory / 2**30, last.machine.memory_total / 2**30, " GiB"))
        if last.process is not None:
            lines.append(f"{'run':<12}{last.process.cpu_percent:.0f}% CPU, {size(last.process.resident)}")
        if last.step is not None:
            lines.append(f"{'step':<12}{last.step}, {last.tokens_per_second or 0:,.0f} tokens/s")
        if watch.spent.steps:
            lines += [
                f"  {name:<22}{bar(share, 24)} {share:.0%}" for name, share in watch.spent.shares.items()
            ]
        return [*lines, watch.findings[0].message]


def _gauge(name: str, value: float, top: float, unit: str) -> str:
    return f"{name:<12}{bar(value / top if top else 0.0, 30)} {number(value)} of {number(top)}{unit}"
