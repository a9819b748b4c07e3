"""Data preparation side by side: ours, TRL's, and the best batched `datasets.map`, on one file and one core.

    python benches/prep/run.py --megabytes 20 [--sample 2] [--tokenizer FOLDER]

Each runs in a process of its own, start-up included, and makes the same packed rows of the same rows: chat
template, ids, loss mask, packing. TRL's and map's times are taken on the first `--sample` megabytes and
stretched by their measured rate, since the whole would take minutes. Prints one JSON document and one line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "worker" / "python"), str(ROOT / "tests" / "worker")]

from corpus import write  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--sample", type=float, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokenizer", type=Path, help="a base's folder; by default Qwen's ranks")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(compare(Path(place), given), indent=2))


def compare(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    base = given.tokenizer or qwen_base(folder / "base")
    whole, sample = folder / "rows.jsonl", folder / "sample.jsonl"
    write(whole, given.megabytes)
    write(sample, given.sample)
    ours(folder, base, sample, given.threads)  # Compiles and checks the tokenizer: once in a machine's life.
    mine = ours(folder, base, whole, given.threads)
    found: dict[str, Any] = {"megabytes": given.megabytes, "threads": given.threads, "ours": mine}
    for name in ("trl", "map"):
        other = run([str(HERE / f"with_{name}.py"), str(sample), str(base), str(folder / name)])
        rate = given.sample / other["work_cpu"]
        other |= {"megabytes_per_cpu_second": rate, "whole_cpu": other["start_cpu"] + given.megabytes / rate}
        other["ratio"] = other["whole_cpu"] / mine["whole_cpu"]
        found[name] = other
    print(
        f"ours {found['trl']['ratio']:.1f}x TRL, {found['map']['ratio']:.1f}x datasets.map", file=sys.stderr
    )
    return found


def ours(folder: Path, base: Path, data: Path, threads: int) -> dict[str, Any]:
    told = run([str(HERE / "with_ours.py"), str(data), str(base), str(folder), str(threads)])
    megabytes = data.stat().st_size / 1e6
    return told | {"megabytes_per_cpu_second": megabytes / told["whole_cpu"], "whole_wall": told["wall"]}


def run(arguments: list[str]) -> dict[str, Any]:
    """CPU seconds of the process from its start, and what it says of itself."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path[:3]),
    }
    started, before = time.monotonic(), os.times()
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed:\n{done.stderr[-2000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"wall": time.monotonic() - started, "whole_cpu": cpu, **told}


def qwen_base(folder: Path) -> Path:
    from pretokenize.bases import qwen, write_base

    return write_base(folder, qwen(), pad_token="<|endoftext|>")


if __name__ == "__main__":
    main()
