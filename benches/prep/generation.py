"""A chat template with `{% generation %}` spans against the same template without, on the same rows.

    python benches/prep/generation.py [--megabytes 20] [--repeat 7] [--output FILE]

Each is prepared by a separate process on one core, in turn, so that a busy machine slows both alike.
Compared are MB per second of processor time without the start of the process, the best and the median of all
runs; 1.00 is the same speed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "worker" / "python"), str(ROOT / "tests" / "worker")]

from machine import device  # noqa: E402
from run import ours, qwen_base  # noqa: E402

from corpus import write  # noqa: E402

HEAD = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
ASKS = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
CONTENT = "{{ message['content'] + '<|im_end|>' }}"
TEMPLATES = {
    "plain": HEAD + CONTENT + "{{ '\\n' }}{% endfor %}" + ASKS,
    "spans": (
        HEAD
        + "{% if message['role'] == 'assistant' %}{% generation %}"
        + CONTENT
        + "{% endgeneration %}{% else %}"
        + CONTENT
        + "{% endif %}{{ '\\n' }}{% endfor %}"
        + ASKS
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--output", type=Path, help="also write the document here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        text = json.dumps(compare(Path(place), given.megabytes, given.repeat), indent=2)
    print(text)
    if given.output:
        given.output.write_text(text + "\n")


def compare(folder: Path, megabytes: float, repeat: int) -> dict[str, Any]:
    rows, small = folder / "rows.jsonl", folder / "small.jsonl"
    write(rows, megabytes)
    write(small, 0.1)
    bases = {name: qwen_base(folder / name) for name in TEMPLATES}
    for name, base in bases.items():
        (base / "chat_template.jinja").write_text(TEMPLATES[name])
        ours(folder, base, small, 1)  # Compiles the tokenizer and checks the template, once.
    load = os.getloadavg()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in TEMPLATES}
    for turn in range(repeat):
        for name in sorted(TEMPLATES, reverse=turn % 2 == 1):
            runs[name].append(ours(folder, bases[name], rows, 1))
    _check_same_rows(runs)
    speeds = {name: [megabytes / run["work_cpu"] for run in found] for name, found in runs.items()}
    best = {name: max(found) for name, found in speeds.items()}
    median = {name: statistics.median(found) for name, found in speeds.items()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": device(),
        "load": {"before": load, "after": os.getloadavg()},
        "nice": os.nice(0),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("expert-worker", "tokenizers", "transformers")},
        },
        "megabytes": megabytes,
        "runs": repeat,
        "megabytes_per_cpu_second": speeds,
        "best": {**best, "ratio": best["spans"] / best["plain"]},
        "median": {**median, "ratio": median["spans"] / median["plain"]},
    }


def _check_same_rows(runs: dict[str, list[dict[str, Any]]]) -> None:
    figures = {
        tuple(run[key] for key in ("encoder", "rows", "documents", "tokens"))
        for found in runs.values()
        for run in found
    }
    if len(figures) != 1 or next(iter(figures))[0] != "native":
        raise SystemExit(f"the templates were to give the same rows by the native encoder: {figures}")


if __name__ == "__main__":
    main()
