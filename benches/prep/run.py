"""Data preparation side by side: ours, TRL's, and the best batched `datasets.map`, on one file and one core.

    python benches/prep/run.py --megabytes 20 [--sample 20] [--threads 1 2] [--repeat 3]
                               [--data ROWS.jsonl] [--tokenizer FOLDER]

Each runs in a separate process, including start-up, and makes the same packed rows from the same rows: chat
template, ids, loss mask, packing. TRL's and map's times are taken on the first `--sample` megabytes (the
whole file where that is as large) and stretched by their measured rate, which a small sample makes too low:
fixed costs weigh more there. `--sample 0` leaves them out. Of ours, the best of `--repeat` runs counts for
each number of threads, and for the same rows as one JSON list. Prints one JSON document and one line.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "worker" / "python"), str(ROOT / "tests" / "worker")]

from measure import Measured, cores, measure  # noqa: E402

from corpus import write  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--data", type=Path, help="rows to measure with instead of made ones")
    parser.add_argument("--sample", type=float, default=20)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tokenizer", type=Path, help="a base's folder; by default Qwen's ranks")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(compare(Path(place), given), indent=2))


def compare(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    base = given.tokenizer or qwen_base(folder / "base")
    whole = given.data or folder / "rows.jsonl"
    if given.data:
        given.megabytes = whole.stat().st_size / 1e6
    else:
        write(whole, given.megabytes)
    small = folder / "small.jsonl"
    write(small, 0.1)
    ours(folder, base, small, 1)  # Compiles and checks the tokenizer: once in a machine's life.
    found: dict[str, Any] = {"megabytes": given.megabytes, "rows": []}
    for threads in given.threads:
        runs = [ours(folder, base, whole, threads) for _ in range(given.repeat)]
        found[f"threads_{threads}"] = best(runs)
    first = found[f"threads_{given.threads[0]}"]
    array = folder / "rows.json"
    as_list(whole, array)
    found["json_list"] = best([ours(folder, base, array, given.threads[0]) for _ in range(given.repeat)])
    found["json_list"]["ratio"] = first["cpu"] / found["json_list"]["cpu"]
    if given.sample:
        for name in ("trl", "map"):
            found[name] = other(name, folder, base, whole, given)
            found[name]["ratio"] = found[name]["whole_cpu"] / first["cpu"]
    found["rows"] = list(rows(found, given))
    print(
        "; ".join(f"{row['what']} {row['ratio']:.2f}x {row['against']}" for row in found["rows"]),
        file=sys.stderr,
    )
    return found


def rows(found: dict[str, Any], given: argparse.Namespace) -> Any:
    """The printed table, in CPU seconds of whole processes; threads in wall time."""
    for name, known in (("trl", "TRL"), ("map", "datasets.map")):
        if name in found:
            yield {"what": f"{given.megabytes:.0f} MB", "against": known, "ratio": found[name]["ratio"]}
    yield {"what": "a JSON list", "against": "JSON Lines", "ratio": found["json_list"]["ratio"]}
    first = given.threads[0]
    for threads in given.threads[1:]:
        if threads > cores():
            continue  # They have taken turns: their time says nothing.
        ratio = found[f"threads_{first}"]["wall"] / found[f"threads_{threads}"]["wall"]
        yield {"what": f"{threads} threads", "against": f"{first} thread", "ratio": ratio}


def as_list(lines: Path, target: Path) -> None:
    """The same rows as one JSON list."""
    with lines.open("rb") as rows, target.open("wb") as out:
        for number, row in enumerate(filter(None, map(bytes.strip, rows))):
            out.write((b",\n" if number else b"[") + row)
        out.write(b"]\n")


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The least time, and the most memory, of any run."""
    told = dict(min(runs, key=lambda run: run["wall"]))
    told["cpu"] = min(run["cpu"] for run in runs)
    told["anonymous_mb"] = max(run["anonymous_mb"] for run in runs)
    told["megabytes_per_cpu_second"] = told["megabytes"] / told["cpu"]
    return told


def ours(folder: Path, base: Path, data: Path, threads: int) -> dict[str, Any]:
    arguments = [str(HERE / "with_ours.py"), str(data), str(base), str(folder), str(threads)]
    found = measure(arguments, on=threads, paths=sys.path[:3])
    return {**_numbers(found), **found.told, "megabytes": data.stat().st_size / 1e6}


def other(name: str, folder: Path, base: Path, whole: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Start-up as it was, the work at the rate at which the sample went."""
    size = min(given.sample, given.megabytes)
    sample = whole
    if size < given.megabytes:
        sample = folder / "sample.jsonl"
        write(sample, size)
    found = measure(
        [str(HERE / f"with_{name}.py"), str(sample), str(base), str(folder / name)],
        on=1,
        paths=sys.path[:3],
    )
    start = found.told["start_cpu"]
    work = found.cpu - start
    return {
        **_numbers(found),
        "rows": found.told["rows"],
        "sample_megabytes": size,
        "start_cpu": start,
        "megabytes_per_cpu_second": size / work,
        "whole_cpu": start + work * given.megabytes / size,
    }


def _numbers(found: Measured) -> dict[str, Any]:
    return {"wall": found.wall, "cpu": found.cpu, "anonymous_mb": found.anonymous_mb}


def qwen_base(folder: Path) -> Path:
    from pretokenize.bases import qwen, write_base

    return write_base(folder, qwen(), pad_token="<|endoftext|>")


if __name__ == "__main__":
    main()
