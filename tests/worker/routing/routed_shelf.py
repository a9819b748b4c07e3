"""A small shelf for the router, with rows on the disk."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from expert_worker.plan.models import Source
from expert_worker.routing.models import Keywords, RoutedExpert, Shelf


def written_expert(
    folder: Path, name: str, rows: Sequence[object], test: Sequence[object] = ()
) -> RoutedExpert:
    """A row that is a text is a line as it stands."""
    files = {}
    for split, its in (("train", rows), ("test", test)):
        if its:
            files[split] = folder / f"{name}-{split}.jsonl"
            lines = (row if isinstance(row, str) else json.dumps(row) + "\n" for row in its)
            files[split].write_text("".join(lines))
    return routed_expert(name, files)


def routed_expert(name: str, files: Mapping[str, Path]) -> RoutedExpert:
    """`files` by split: train, test."""
    sources = {split: (Source(name=f"{split}.jsonl", format="jsonl", weight=1.0),) for split in files}
    return RoutedExpert(
        name=name,
        train=sources.get("train", ()),
        test=sources.get("test", ()),
        field_mapping={},
        data={f"{split}.jsonl": str(path) for split, path in files.items()},
        digests={},
        hints=Keywords(keywords=(), exclude_keywords=()),
    )


def shelf_of(folder: Path, *experts: RoutedExpert) -> Shelf:
    return Shelf(experts=experts, file=str(folder / "routers" / "router.safetensors"))


def shelf_file(folder: Path, *experts: RoutedExpert) -> Path:
    """As `expert-cli` gives it to a command of the worker."""
    path = folder / "shelf.json"
    path.write_text(shelf_of(folder, *experts).model_dump_json())
    return path
