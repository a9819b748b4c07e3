"""The curves of a watch."""

from __future__ import annotations

from collections.abc import Sequence

from expert_worker.bench.page import charts, page
from expert_worker.bench.sample import series
from expert_worker.bench.watch import Watch
from expert_worker.report.charts import Line, curve
from expert_worker.report.parts import section, table

_GPU = (
    ("Utilization", "%", "utilization", 1.0),
    ("Memory", "GiB", "memory_used", 2.0**30),
    ("Temperature", "°C", "temperature", 1.0),
    ("Power", "W", "power_watts", 1.0),
    ("Clock", "MHz", "sm_clock_mhz", 1.0),
)


def plot(watch: Watch) -> str:
    found = series(watch.samples)

    def drawn(title: str, unit: str, names: Sequence[tuple[str, str]], divisor: float = 1.0) -> str:
        lines = [
            Line(label, [(time, value / divisor) for time, value in found.get(name, ())], hue=hue % 2)
            for hue, (label, name) in enumerate(names)
        ]
        return curve(title, unit, lines, from_zero=True, along="seconds")

    count = len(watch.gpus.names) if watch.gpus else 0
    of_gpus = [
        drawn(f"GPU: {title}", unit, [(f"GPU {i}", f"gpu{i}.{name}") for i in range(count)], divisor)
        for title, unit, name, divisor in _GPU
    ]
    of_host = [
        drawn("Throughput", "tokens/s", [("tokens/s", "training.tokens_per_second")]),
        drawn("Processor", "% of all cores", [("machine", "machine.cpu_percent")]),
        drawn("The run's processor", "% of one core", [("run", "process.cpu_percent")]),
        drawn("The run's memory", "GiB", [("resident", "process.resident")], 2.0**30),
    ]
    told = [[it.message, it.advice] for it in watch.findings]
    spent = watch.spent
    shares = [[name, f"{spent.seconds[name]:.2f} s", f"{share:.1%}"] for name, share in spent.shares.items()]
    lead = f"{len(watch.samples)} samples in {watch.seconds:.1f} s"
    if watch.run is not None:
        lead += f" beside the run in {watch.run.folder}"
    return page(
        "What the run waits for",
        lead,
        [
            section("Verdict", table(["found", "what to do"], told)),
            section("Where the time went", table(["", "", ""], shares) if spent.steps else ""),
            section("Over time", charts([*of_gpus, *of_host])),
        ],
    )
