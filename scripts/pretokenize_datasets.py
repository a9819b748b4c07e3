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

ROOT = Path(__file__).resolve().parents[1]
EMBEDDED = "smollm2-135m-instruct"


def main() -> None:
    given = arguments()
    if given.dataset:
        raise SystemExit(one_file(given))
    found = sorted(path for path in (ROOT / "experts").glob("*/manifest.json"))
    wanted = [path for path in found if not given.expert or path.parent.name in given.expert]
    missing = set(given.expert) - {path.parent.name for path in wanted}
    if missing:
        raise SystemExit(f"No such expert: {', '.join(sorted(missing))}")
    raise SystemExit(max((expert(path, given) for path in wanted), default=0))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--expert", action="append", default=[], help="only this expert; may be given again")
    parser.add_argument("--chunk-size", type=int, help="tokens a packed row; by default the manifest's own")
    parser.add_argument("--dataset", type=Path, help="one data file instead of experts")
    parser.add_argument("--tokenizer", help="folder or Hub id of the base whose tokenizer to use")
    parser.add_argument("--num-proc", type=int, help="threads")
    parser.add_argument("--output-dir", type=Path, help="copy the packed rows here, as save_to_disk folders")
    parser.add_argument("--max-chunks", type=int, help="copy at most this many rows a split")
    parser.add_argument("--force", action="store_true", help="build again although the cache is there")
    parser.add_argument("--cli", type=Path, help="the expert-cli to run")
    return parser.parse_args()


def expert(manifest: Path, given: argparse.Namespace) -> int:
    code, told = pretokenize(manifest, given)
    if code == 0 and given.output_dir:
        copy_rows(told, given.output_dir / manifest.parent.name, given.max_chunks)
    return code


def one_file(given: argparse.Namespace) -> int:
    """A manifest of the least that describes the file, in a folder of its own."""
    data = given.dataset.resolve()
    with tempfile.TemporaryDirectory() as place:
        dataset = {"path": str(data), "format": data.suffix.lstrip(".") or "jsonl"}
        config = {"method": "sft", "adapter_type": "lora", "rank": 8, "alpha": 16, "packing": True}
        manifest = Path(place) / "manifest.json"
        document = {
            "name": data.stem,
            "version": "0.0.0",
            "schema_version": "2.0",
            "base_models": [{"name": given.tokenizer or EMBEDDED}],
            "training": {"dataset": dataset, "config": config},
        }
        manifest.write_text(json.dumps(document), encoding="utf-8")
        code, told = pretokenize(manifest, given, "--allow-path", str(data.parent))
        if code == 0:
            copy_rows(told, given.output_dir or Path("datasets_optimized") / data.stem, given.max_chunks)
        return code


def pretokenize(manifest: Path, given: argparse.Namespace, *more: str) -> tuple[int, dict[str, Any]]:
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
        print(f"{manifest.parent.name}: expert-cli ended with {done.returncode}", file=sys.stderr)
        return done.returncode, {}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{manifest.parent.name}: {told.get('cache')}")
    return 0, told


def cli(named: Path | None) -> Path:
    name = "expert-cli.exe" if os.name == "nt" else "expert-cli"
    built = ROOT / "target" / "release" / name
    found = named or (built if built.is_file() else shutil.which(name))
    if found is None:
        raise SystemExit("expert-cli is not built: run `make setup`, or name it with --cli")
    return Path(found)


def copy_rows(told: dict[str, Any], target: Path, most: int | None) -> None:
    cache = Path(told["cache"])
    for split in sorted(path for path in cache.iterdir() if (path / "state.json").is_file()):
        place = target / split.name
        if place.exists():
            raise SystemExit(f"{place} exists already: move it away or choose another --output-dir")
        if most is None:
            shutil.copytree(split, place)
            continue
        from datasets import load_from_disk

        rows = load_from_disk(str(split))
        rows.select(range(min(most, len(rows)))).save_to_disk(str(place))
    print(f"  copied to {target}")


if __name__ == "__main__":
    main()
