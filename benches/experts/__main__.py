"""What the shipped experts score with several seeds: `python -m benches.experts [EXPERT ...] [--seeds N ...]`

Each expert is trained as it is shipped, once for each seed, and scored on its test rows, on the questions by
people (also those of `unseen.jsonl`, where there are any), on the development questions and on those that
name columns and keys literally. Two trainings run side by side, each on its share of the cores. A training
that is finished in `--output` is not repeated, one that was stopped continues, and what a run scored is kept
beside it (`measured.json`; remove it to score again): the seeds may be trained one by one, and the last call
prints one JSON document of all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from history import versions  # noqa: E402
from machine import device  # noqa: E402
from program import ROOT, run  # noqa: E402
from seeds import of_seeds, scores_of  # noqa: E402

EXPERTS = tuple(sorted(manifest.parent.name for manifest in ROOT.glob("experts/*/manifest.json")))
SETS = ("people", "unseen", "development", "literal")
KEPT = "measured.json"


def main() -> int:
    given = arguments()
    runs = [(expert, seed) for seed in given.seeds for expert in given.experts or EXPERTS]
    began = time.monotonic()
    with ThreadPoolExecutor(given.at_once) as pool:
        found = list(pool.map(lambda one: measured(*one, given), runs))
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": device(),
        "versions": versions(),
        "command": shlex.join(["python", "-m", "benches.experts", *sys.argv[1:]]),
        "results": {"seconds": round(time.monotonic() - began), "experts": by_expert(runs, found)},
    }
    text = json.dumps(document, indent=2) + "\n"
    if given.results is not None:
        given.results.write_text(text)
    sys.stdout.write(text)
    return 0


def by_expert(
    runs: Iterable[tuple[str, int]], found: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    seeds: dict[str, dict[int, Mapping[str, Any]]] = {}
    for (expert, seed), scores in zip(runs, found, strict=True):
        seeds.setdefault(expert, {})[seed] = scores
    return {expert: of_seeds(scores) for expert, scores in seeds.items()}


def measured(expert: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    out = given.output / f"{expert}-{seed}"
    known = kept(out, given)
    if known is not None:
        return known
    folder = ROOT / "experts" / expert
    # Rows are packed in an order that the seed decides, so each run has its own token cache.
    changes = {"training.config.seed": seed, "training.config.pretokenized_cache": str(out / "tokenized")}
    chosen = [folder, "--model", given.model, "-o", out, "--allow-path", given.output, *settings(changes)]
    steps = ["--max-steps", given.steps] if given.steps else []
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // given.at_once))}
    trained = run("train", *chosen, *steps, "--resume", env=threads)
    files = {name: f"datasets/{name}.jsonl" for name in SETS}
    sets = {name: file for name, file in files.items() if (folder / file).is_file()}
    limits = {"evaluation.test_sets": json.dumps(sets), "evaluation.test_set_size": given.rows}
    scored = run("evaluate", *chosen, *settings(limits), env=threads)
    found = {
        "steps": trained["steps"],
        "tokens": trained["tokens"],
        "tokens_per_second": trained["tokens_per_second"],
        "training_seconds": round(trained["seconds"]),
        "scoring_seconds": round(scored["seconds"]),
        "validation_loss": trained["eval_loss"],
        "sets": {"test": scores_of(scored)}
        | {name: scores_of(scores) for name, scores in scored["test_sets"].items()},
    }
    document = {"asked": asked(given), "adapter": digest(out), "found": found}
    (out / KEPT).write_text(json.dumps(document, indent=2) + "\n")
    return found


def kept(out: Path, given: argparse.Namespace) -> dict[str, Any] | None:
    """What this adapter scored on as many rows."""
    try:
        document = json.loads((out / KEPT).read_text())
        is_same = document["asked"] == asked(given) and document["adapter"] == digest(out)
    except (OSError, ValueError, KeyError):
        return None
    return document["found"] if is_same else None


def asked(given: argparse.Namespace) -> dict[str, Any]:
    return {"model": given.model, "rows": given.rows, "steps": given.steps}


def digest(out: Path) -> str:
    return hashlib.sha256((out / "final" / "adapter_model.safetensors").read_bytes()).hexdigest()


def settings(changes: Mapping[str, object]) -> list[str]:
    return [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.experts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experts", nargs="*", metavar="EXPERT", help=f"of {', '.join(EXPERTS)} (all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44], help="of training (42 43 44)")
    parser.add_argument("--rows", type=int, default=128, help="of each set to score (128)")
    parser.add_argument("--steps", type=int, help="train so many steps instead of the manifest's")
    parser.add_argument("--model", default="smollm2-135m", help="the base (smollm2-135m)")
    parser.add_argument("--at-once", type=int, default=2, help="trainings side by side (2)")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benches" / "out" / "experts", help="folder of the runs"
    )
    parser.add_argument("--results", type=Path, help="write the document here, too")
    given = parser.parse_args()
    unknown = set(given.experts) - set(EXPERTS)
    if unknown:
        parser.error(f"there is no expert {', '.join(sorted(unknown))}; there are {', '.join(EXPERTS)}")
    given.output.mkdir(parents=True, exist_ok=True)
    return given


if __name__ == "__main__":
    sys.exit(main())
