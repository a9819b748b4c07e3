"""An expert for a database from its DDL alone: `python -m benches.schemas [--seeds N ...] [--results FILE]`

For each of three schemas: `init --preset sql --ddl`, for each seed a training that ends within `--minutes`,
and base and adapter on 30 questions that people typed, with the tables above the question and without them.
How many steps fit is known from the first ones, unless `--steps` says it. A training that is finished in
`--output` is not repeated, and one that was stopped continues. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from history import versions  # noqa: E402
from machine import device  # noqa: E402
from program import run  # noqa: E402
from schema_questions import SCHEMAS, ddl_of, rows  # noqa: E402
from seeds import of_seeds, scores_of  # noqa: E402

# Steps that are trained to know the speed. The first one is slower than the others.
MEASURED_STEPS = 10
# Of the minutes, for start, validation and saving.
SPARE = 0.85


def main() -> int:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="expert-schemas-") as scratch:
        folder = given.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = {schema: measure(schema, folder, given) for schema in given.schemas}
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": device(),
        "versions": versions(),
        "command": shlex.join(["python", "-m", "benches.schemas", *sys.argv[1:]]),
        "results": {"schemas": found},
    }
    text = json.dumps(document, indent=2) + "\n"
    if given.results is not None:
        given.results.write_text(text)
    sys.stdout.write(text)
    return 0


def measure(schema: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    expert = folder / schema
    if not (expert / "manifest.json").is_file():
        run("init", schema, "--preset", "sql", "--ddl", ddl_of(schema), "--rows", given.rows, at=folder)
    steps = given.steps or steps_within(expert, given)
    files = {name: questions(expert, name, given.questions) for name in ("tables_shown", "question_only")}
    runs = {seed: measured(expert, seed, steps, files, given) for seed in given.seeds}
    return {"rows": given.rows} | of_seeds(runs)


def questions(expert: Path, name: str, most: int | None) -> Path:
    file = expert / "datasets" / f"people-{name}.jsonl"
    asked = rows(expert.name, shown=name == "tables_shown")[:most]
    file.write_text("".join(json.dumps(row) + "\n" for row in asked))
    return file


def measured(
    expert: Path, seed: int, steps: int, files: Mapping[str, Path], given: argparse.Namespace
) -> dict[str, Any]:
    out = expert / "weights" / f"seed-{seed}"
    # Rows are packed in an order that the seed decides, so each run has its own token cache.
    cache = f"training.config.pretokenized_cache=datasets_optimized/seed-{seed}"
    words = [expert, "-o", out, "--set", f"training.config.seed={seed}", "--set", cache, *chosen(given)]
    trained = run("train", *words, "--max-steps", steps, "--resume", at=expert.parent)
    return {
        "steps": trained["steps"],
        "seconds": round(trained["seconds"]),
        "validation_loss": trained["eval_loss"],
        "sets": {
            name: scores_of(run("evaluate", *words, "-d", file, at=expert.parent))
            for name, file in files.items()
        },
    }


def steps_within(expert: Path, given: argparse.Namespace) -> int:
    """As many as fit, and no more than the preset's."""
    place = expert / "weights" / "measured"
    trained = run(
        "train", expert, "--max-steps", MEASURED_STEPS, "-o", place, *chosen(given), at=expert.parent
    )
    step = trained["tokens"] / trained["steps"] / trained["tokens_per_second"]
    most = json.loads((expert / "manifest.json").read_text())["training"]["config"]["max_steps"]
    return max(1, min(int(most), int(60 * given.minutes * SPARE / step)))


def chosen(given: argparse.Namespace) -> list[object]:
    return ["--device", "cpu", *(("--model", given.model) if given.model else ())]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benches.schemas",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--schemas", nargs="+", choices=SCHEMAS, default=SCHEMAS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44], help="of training (42 43 44)")
    parser.add_argument("--minutes", type=float, default=15.0, help="that a training may take (15)")
    parser.add_argument("--steps", type=int, help="train so many steps, whatever they take")
    parser.add_argument("--rows", type=int, default=2000, help="generated training rows (2000)")
    parser.add_argument("--questions", type=int, help="ask only the first so many")
    parser.add_argument("--model", help="another base than the preset's")
    parser.add_argument("--output", type=Path, help="keep the experts in this folder")
    parser.add_argument("--results", type=Path, help="write the document here, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
