"""Pre-tokenizes the data of experts, or of one file, into packed rows of a chosen length.

    python scripts/pretokenize_datasets.py [--expert NAME ...] [--chunk-size 32768] [--num-proc N] [--force]
    python scripts/pretokenize_datasets.py --dataset rows.jsonl --tokenizer FOLDER --output-dir OUT

All experts by default. The work is `expert-cli pretokenize`; this script chooses what to run it on. With
`--dataset` a manifest is made for the one file, and the packed rows are copied to `--output-dir`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

from expert_worker.terminal import write_stderr, write_stdout

ROOT = Path(__file__).resolve().parents[1]

EMBEDDED = "smollm2-135m-instruct"
FORMATS = ("jsonl", "json", "csv", "parquet", "arrow")
SPLITS = ("train", "validation")


def main() -> None:
    given = arguments()
    if given.dataset:
        raise SystemExit(one_file(given))
    found = sorted(given.experts.glob("*/manifest.json"))
    wanted = [path for path in found if not given.expert or path.parent.name in given.expert]
    missing = set(given.expert) - {path.parent.name for path in wanted}
    if missing:
        raise SystemExit(f"No such expert: {', '.join(sorted(missing))}")
    raise SystemExit(max((expert(path, given) for path in wanted), default=0))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experts", type=Path, default=ROOT / "experts", help="folder of experts")
    parser.add_argument("--expert", action="append", default=[], help="only this expert; may be given again")
    parser.add_argument(
        "--chunk-size", type=positive, help="tokens a packed row; by default the manifest's own"
    )
    parser.add_argument("--dataset", type=Path, help="one data file instead of experts")
    parser.add_argument("--tokenizer", help="folder or Hub id of the base whose tokenizer to use")
    parser.add_argument("--num-proc", type=positive, help="threads")
    parser.add_argument("--output-dir", type=Path, help="copy the packed rows here, as save_to_disk folders")
    parser.add_argument("--max-chunks", type=positive, help="copy at most this many rows a split")
    parser.add_argument("--force", action="store_true", help="build again although the cache is there")
    parser.add_argument("--cli", type=Path, help="the expert-cli to run")
    return parser.parse_args()


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def expert(manifest: Path, given: argparse.Namespace) -> int:
    target = given.output_dir / manifest.parent.name if given.output_dir else None
    refuse_used(target, given)
    code, summary = pretokenize(manifest.parent.name, manifest, given)
    if code == 0:
        write_stdout(f"  in {summary['cache']}")
    if code == 0 and target:
        copy_rows(summary, target, given.max_chunks)
    return code


def one_file(given: argparse.Namespace) -> int:
    """A minimal manifest that describes the file, in a separate folder."""
    data = given.dataset.resolve()
    kind = data.suffix.lstrip(".") if data.is_file() else "arrow"
    if not data.exists():
        raise SystemExit(f"There is no data at {given.dataset}")
    if kind not in FORMATS:
        raise SystemExit(f"{given.dataset}: the format is none of {', '.join(FORMATS)}")
    target = given.output_dir or Path("datasets_optimized") / data.stem
    refuse_used(target, given)
    with tempfile.TemporaryDirectory() as place:
        config = {"method": "sft", "adapter_type": "lora", "rank": 8, "alpha": 16, "packing": True}
        manifest = Path(place) / "manifest.json"
        document = {
            "name": data.stem,
            "version": "0.0.0",
            "schema_version": "2.0",
            "base_models": [{"name": base(given.tokenizer, Path(place))}],
            "training": {"dataset": {"path": str(data), "format": kind}, "config": config},
        }
        manifest.write_text(json.dumps(document), encoding="utf-8")
        code, summary = pretokenize(data.stem, manifest, given, "--allow-path", str(data.parent))
        if code == 0:
            copy_rows(summary, target, given.max_chunks)
        return code


def base(named: str | None, place: Path) -> str:
    """A tokenizer without a model is enough here: an empty config.json makes a base of it for expert-cli."""
    if named is None:
        return EMBEDDED
    folder = Path(named).expanduser()
    if not (folder / "tokenizer.json").is_file():
        if folder.exists() or "/" not in named or named.startswith((".", "/", "~")):
            raise SystemExit(f"{named} is not a folder with a tokenizer.json")
        return named
    if (folder / "config.json").is_file():
        return str(folder.resolve())
    stand_in = place / folder.resolve().name
    stand_in.mkdir()
    for file in folder.iterdir():
        if file.suffix in (".json", ".jinja") and file.is_file():
            shutil.copyfile(file, stand_in / file.name)
    (stand_in / "config.json").write_text("{}")
    return str(stand_in)


def refuse_used(target: Path | None, given: argparse.Namespace) -> None:
    """Before any work. With --force, rows that were saved there before give way; nothing else ever does."""
    used = [target / split for split in SPLITS if (target / split).exists()] if target else []
    for place in used:
        if not given.force or not (place / "state.json").is_file():
            raise SystemExit(f"{place} exists already: move it away or choose another --output-dir")
        shutil.rmtree(place)


def pretokenize(
    name: str, manifest: Path, given: argparse.Namespace, *more: str
) -> tuple[int, dict[str, Any]]:
    command = [str(cli(given.cli)), "pretokenize", "-m", str(manifest), "--json", *more]
    if given.chunk_size:
        command += [
            "--set",
            f"training.config.max_seq_length={given.chunk_size}",
            "--set",
            "training.config.packing=true",
        ]
    if given.tokenizer and not given.dataset:
        command += ["--set", f"base_models.0.name={given.tokenizer}"]
    command += ["--jobs", str(given.num_proc)] if given.num_proc else []
    command += ["--force"] if given.force else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        write_stderr(f"{name}: expert-cli ended with {done.returncode}")
        return done.returncode, {}
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    rows = {split: figures["rows"] for split, figures in summary["splits"].items()}
    write_stdout(f"{name}: {', '.join(f'{count} rows of {split}' for split, count in rows.items())}")
    return 0, summary


def cli(named: Path | None) -> Path:
    name = "expert-cli.exe" if os.name == "nt" else "expert-cli"
    built = ROOT / "target" / "release" / name
    found = named or (built if built.is_file() else shutil.which(name))
    if found is None or not Path(found).is_file():
        problem = f"{named} is not a program" if named else "expert-cli is not built"
        raise SystemExit(f"{problem}: run `make setup`, or name it with --cli")
    return Path(found).resolve()


def copy_rows(summary: dict[str, Any], target: Path, most: int | None) -> None:
    cache = Path(summary["cache"])
    for split in sorted(path for path in cache.iterdir() if (path / "state.json").is_file()):
        place = target / split.name
        if most is None:
            shutil.copytree(split, place)
            continue
        from datasets import load_from_disk

        rows = load_from_disk(str(split))
        rows.select(range(min(most, len(rows)))).save_to_disk(str(place))
    write_stdout(f"  copied to {target}")


if __name__ == "__main__":
    main()
