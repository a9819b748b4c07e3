"""Which data sets are on this machine: the Hugging Face caches, and what each expert learns from.

python scripts/find_datasets.py [--experts DIR] [--json]
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

from expert_worker.terminal import write_stderr, write_stdout

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Found:
    name: str
    place: str
    path: str
    bytes: int
    used_by: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--experts", type=Path, default=ROOT / "experts", help="folder of experts, or one expert's"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    given = parser.parse_args()
    if not given.experts.is_dir():
        raise SystemExit(f"There is no folder of experts at {given.experts}")
    found = find(given.experts)
    try:
        if given.json:
            print(json.dumps({"datasets": [asdict(one) for one in found]}, indent=2))
        else:
            show(found)
        sys.stdout.flush()
    except BrokenPipeError:  # Whoever reads has seen enough; nothing may be said to them when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find(experts: Path) -> list[Found]:
    uses = uses_of(experts)
    cached = [*hub_cache(uses), *datasets_cache(uses)]
    # A file may be named twice, by itself and by a pattern.
    return sorted(dict.fromkeys([*local(uses), *cached]), key=lambda one: (one.place, one.name))


def uses_of(experts: Path) -> dict[str, list[tuple[str, Path]]]:
    """Data set -> the experts whose manifests name it, with each expert's folder."""
    uses: dict[str, list[tuple[str, Path]]] = {}
    for manifest in manifests_of(experts):
        try:
            document = json.loads(manifest.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            write_stderr(f"{manifest}: {error}")
            continue
        test_sets = members(within(document, "evaluation", "test_sets"))
        further = (path for path in test_sets if isinstance(path, str))
        for name in (*names_in(within(document, "training", "dataset")), *further):
            uses.setdefault(name, []).append((manifest.parent.resolve().name, manifest.parent))
    return uses


def manifests_of(experts: Path) -> list[Path]:
    own = experts / "manifest.json"
    found = [own] if own.is_file() else sorted(experts.glob("*/manifest.json"))
    if not found:
        write_stderr(f"There is no expert in {experts}: neither it nor a folder in it has a manifest.json")
    return found


def within(document: Any, *keys: str) -> Any:
    """The value at the pointer; None if the document has another shape, which `validate` reports."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def names_in(dataset: Any) -> Iterator[str]:
    """Of a data set or a task; a plain text is its path."""
    if isinstance(dataset, str):
        yield dataset
    if not isinstance(dataset, dict):
        return
    for key in ("path", "train_path", "validation_path", "test_path"):
        if isinstance(dataset.get(key), str):
            yield dataset[key]
    for task in members(dataset.get("tasks")):
        yield from names_in(task)


def members(value: Any) -> list[Any]:
    """Of a list, or of an object by name."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def local(uses: dict[str, list[tuple[str, Path]]]) -> Iterator[Found]:
    for pattern, users in uses.items():
        for expert, folder in users:
            for name in matching(pattern, folder):
                path = folder / name
                yield Found(name, "expert", str(path), size_of(path), (expert,))


def matching(pattern: str, folder: Path) -> list[str]:
    """The file or folder of that name, else the files that the pattern matches."""
    if (folder / pattern).exists():
        return [pattern]
    # `Path.glob` takes no absolute patterns.
    found = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207
    return sorted(name for name in found if (folder / name).is_file())


def hub_cache(uses: dict[str, list[tuple[str, Path]]]) -> Iterator[Found]:
    hub = folder_of("HF_HUB_CACHE") or folder_of("HUGGINGFACE_HUB_CACHE") or cache_home() / "hub"
    for folder in sorted(hub.glob("datasets--*")):
        name = folder.name.removeprefix("datasets--").replace("--", "/")
        yield Found(name, "hub", str(folder), size_of(folder), users_of(name, uses))


def datasets_cache(uses: dict[str, list[tuple[str, Path]]]) -> Iterator[Found]:
    # `datasets` replaces nothing in this variable.
    named = os.environ.get("HF_DATASETS_CACHE")
    cache = Path(named) if named else cache_home() / "datasets"
    for folder in sorted(path for path in cache.glob("*") if path.is_dir() and path.name != "downloads"):
        name = folder.name.replace("___", "/")
        yield Found(name, "datasets", str(folder), size_of(folder), users_of(name, uses, prepared_name))


def cache_home() -> Path:
    """As huggingface_hub and datasets decide it."""
    caches = folder_of("XDG_CACHE_HOME") or Path.home() / ".cache"
    return folder_of("HF_HOME") or caches / "huggingface"


def folder_of(variable: str) -> Path | None:
    """Its `~`, `$NAME` and `${NAME}` replaced, as huggingface_hub and the CLI do it; empty is unset."""
    value = os.environ.get(variable)
    return Path(os.path.expandvars(os.path.expanduser(value))) if value else None  # noqa: PTH111


def prepared_name(name: str) -> str:
    """A Hub data set as `datasets` names the folder of its prepared rows: `Owner/MySet` is `Owner/my_set`."""
    namespace, slash, last = name.rpartition("/")
    # The two patterns of datasets/naming.py.
    last = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", last)
    last = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", last)
    return namespace + slash + last.lower()


def users_of(
    name: str, uses: dict[str, list[tuple[str, Path]]], cached: Callable[[str], str] = str
) -> tuple[str, ...]:
    """Experts that name it, alone or as `name::split::config`. `cached`: what the cache calls a used name."""
    users = (user for used, users in uses.items() if cached(used.split("::")[0]) == name for user, _ in users)
    return tuple(sorted(set(users)))


def size_of(path: Path) -> int:
    """Of what is really there: the hub's snapshots are links into its blobs."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def show(found: list[Found]) -> None:
    if not found:
        print("No data sets: no expert names one that is here, and the Hugging Face caches are empty.")
        return
    width = max(len(one.name) for one in found)
    print(f"{'data set':<{width}}  {'where':<8}  {'size':>10}  used by")
    for one in found:
        write_stdout(
            f"{one.name:<{width}}  {one.place:<8}  {readable(one.bytes):>10}  {', '.join(one.used_by) or '-'}"
        )


def readable(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


if __name__ == "__main__":
    main()
