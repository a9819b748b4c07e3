"""Pre-tokenizes the data of experts, or of one file, into packed rows of a chosen length.

    python scripts/pretokenize_datasets.py [--expert NAME ...] [--chunk-size 32768] [--num-proc N] [--force]
    python scripts/pretokenize_datasets.py --dataset rows.jsonl --tokenizer FOLDER --output-dir OUT

All experts by default. The work is `expert-cli pretokenize`; this script chooses what to run it on. With
`--dataset` a manifest is made for the one file, and the packed rows are copied to `--output-dir`. With
`--force` the copies of an earlier call give way once the new ones are complete; other folders never do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

from expert_worker.row_counts import in_words
from expert_worker.terminal import write_stderr, write_stdout

ROOT = Path(__file__).resolve().parents[1]

EMBEDDED = "smollm2-135m-instruct"
FORMATS = ("jsonl", "ndjson", "json", "csv", "tsv", "tab", "parquet", "arrow")
PACKED = (".gz", ".zst", ".zip")
# Counts that say nothing about rows.
TOKENS = ("tokens", "tokens learned from")
SPLITS = ("train", "validation")
# In each folder that this script wrote.
MARK = ".pretokenize_datasets"


def main() -> None:
    given = arguments()
    if given.dataset:
        raise SystemExit(one_file(given))
    experts = given.experts or ROOT / "experts"
    found = sorted(experts.glob("*/manifest.json"))
    if not found:
        raise SystemExit(f"There is no expert in {experts}: no folder there has a manifest.json")
    wanted = [path for path in found if not given.expert or path.parent.name in given.expert]
    missing = set(given.expert) - {path.parent.name for path in wanted}
    if missing:
        raise SystemExit(f"No such expert: {', '.join(sorted(missing))}")
    for path in wanted:
        refuse_used(target_of(path, given), given)
    with tempfile.TemporaryDirectory() as place:
        chosen = base(given.tokenizer, Path(place)) if given.tokenizer else None
        raise SystemExit(max((expert(path, given, chosen) for path in wanted), default=0))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experts", type=Path, help="folder of experts (those of this clone)")
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
    given = parser.parse_args()
    if given.dataset and (given.expert or given.experts):
        parser.error("--dataset is one file instead of experts: leave out --expert and --experts")
    if given.max_chunks and not (given.dataset or given.output_dir):
        parser.error("--max-chunks limits what is copied: name a folder with --output-dir")
    return given


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def target_of(manifest: Path, given: argparse.Namespace) -> Path | None:
    return given.output_dir / manifest.parent.name if given.output_dir else None


def expert(manifest: Path, given: argparse.Namespace, chosen: str | None) -> int:
    """With the tokenizer of the chosen base, in place of the manifest's."""
    target = target_of(manifest, given)
    other = ["--set", f"base_models.0.name={chosen}"] if chosen else []
    code, summary = pretokenize(manifest.parent.name, manifest, given, *other)
    if code == 0:
        write_stdout(f"  in {summary['cache']}")
    if code == 0 and target:
        copy_rows(summary, target, given.max_chunks)
    return code


def one_file(given: argparse.Namespace) -> int:
    """A minimal manifest that describes the file, in a separate folder."""
    data = real = given.dataset.resolve()
    if real.is_file() and named(real)[1] not in FORMATS:
        # The Hub's cache has links, whose names say the format, to files that are named by their digests.
        data = given.dataset.parent.resolve() / given.dataset.name
    if not data.exists():
        raise SystemExit(f"There is no data at {given.dataset}")
    stem, kind = named(data)
    if data.is_file() and kind not in FORMATS:
        packed = ", also with ".join((", ".join(FORMATS), ", ".join(PACKED)))
        raise SystemExit(f"{given.dataset}: the format is none of {packed}")
    target = given.output_dir or Path("datasets_optimized") / stem
    refuse_used(target, given)
    with tempfile.TemporaryDirectory() as place:
        config = {"method": "sft", "adapter_type": "lora", "rank": 8, "alpha": 16, "packing": True}
        manifest = Path(place) / "manifest.json"
        # A manifest's name has small letters, digits and hyphens.
        name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "dataset"
        # A file's format is that of its ending; a folder is a saved data set.
        form = {} if data.is_file() else {"format": "arrow"}
        document = {
            "name": name[:64].strip("-"),
            "version": "0.0.0",
            "schema_version": "2.0",
            "base_models": [{"name": base(given.tokenizer, Path(place))}],
            "training": {"dataset": {"path": str(data), **form}, "config": config},
        }
        manifest.write_text(json.dumps(document), encoding="utf-8")
        # Quiet: the next command that expert-cli names is of this manifest, which is gone by then.
        more = ["--quiet"]
        for folder in dict.fromkeys((data.parent, real.parent)):
            more += ["--allow-path", str(folder)]
        code, summary = pretokenize(stem, manifest, given, *more)
        if code == 0:
            copy_rows(summary, target, given.max_chunks)
        return code


def named(data: Path) -> tuple[str, str]:
    """The file's name without its endings, and the ending that says its format. Of a zip archive the name
    inside says it, so any ending will do."""
    packed = data.suffix.lower()
    inside = data.stem if packed in PACKED else data.name
    stem, _, ending = inside.rpartition(".")
    if packed == ".zip" and ending.lower() not in FORMATS:
        return inside, "jsonl"
    return (stem, ending.lower()) if stem else (inside, "")


def base(tokenizer: str | None, place: Path) -> str:
    """A tokenizer without a model is enough here: an empty config.json makes a base of it for expert-cli."""
    if tokenizer is None or tokenizer.lower() == EMBEDDED:
        return EMBEDDED
    folder = Path(tokenizer).expanduser()
    if not (folder / "tokenizer.json").is_file():
        if folder.exists() or "/" not in tokenizer or tokenizer.startswith((".", "/", "~")):
            raise SystemExit(f"{tokenizer} is not a folder with a tokenizer.json")
        return tokenizer
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
    """Before any work. With --force, rows that this script wrote there give way; nothing else ever does."""
    used = [target / split for split in SPLITS if os.path.lexists(target / split)] if target else []
    for place in used:
        if not given.force or not is_own(place):
            raise SystemExit(f"{place} exists already: move it away or choose another --output-dir")


def is_own(place: Path) -> bool:
    return not place.is_symlink() and (place / MARK).is_file()


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
    command += ["--jobs", str(given.num_proc)] if given.num_proc else []
    command += ["--force"] if given.force else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        write_stderr(f"{name}: expert-cli ended with {done.returncode}")
        return done.returncode, {}
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    rows = (f"{packed_rows(figures)} of {split}" for split, figures in summary["splits"].items())
    write_stdout("\n  ".join((f"{name}: {', '.join(rows)}", *row_counts(summary))))
    return 0, summary


def packed_rows(figures: dict[str, Any]) -> str:
    """Rows that are not packed have no `fill`."""
    return f"{figures['rows']:,} {'rows' if figures['fill'] is None else 'packed rows'}"


def row_counts(summary: dict[str, Any]) -> Iterator[str]:
    """What became of the rows of the data, those of validation files by file."""
    validation = [source for source in summary["sources"] if source["split"] == "validation"]
    for name, counts in [("train", summary["totals"]), *((source["name"], source) for source in validation)]:
        words = "; ".join(f"{count:,} {what}" for what, count in in_words(counts) if what not in TOKENS)
        yield f"{name}: {words}"


def cli(named: Path | None) -> Path:
    name = "expert-cli.exe" if os.name == "nt" else "expert-cli"
    built = ROOT / "target" / "release" / name
    found = named or (built if built.is_file() else shutil.which(name))
    if found is None or not Path(found).is_file():
        problem = f"{named} is not a program" if named else "expert-cli is not built"
        raise SystemExit(f"{problem}: run `make setup`, or name it with --cli")
    return Path(found).resolve()


def copy_rows(summary: dict[str, Any], target: Path, most: int | None) -> None:
    """Earlier copies give way when all the new ones are complete."""
    cache = Path(summary["cache"])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".new-") as made:
        for split in sorted(path for path in cache.iterdir() if (path / "state.json").is_file()):
            copy_split(split, Path(made) / split.name, most)
        for earlier in (target / split for split in SPLITS):
            if is_own(earlier):
                shutil.rmtree(earlier)
        for split in sorted(Path(made).iterdir()):
            split.rename(target / split.name)
    write_stdout(f"  copied to {target}")


def copy_split(split: Path, place: Path, most: int | None) -> None:
    if most is None:
        shutil.copytree(split, place)
    else:
        from datasets import load_from_disk

        rows = load_from_disk(str(split))
        rows.select(range(min(most, len(rows)))).save_to_disk(str(place))
    (place / MARK).touch()


if __name__ == "__main__":
    main()
