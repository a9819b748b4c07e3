"""A token cache is believed by its content: if it changed since it was written, it is built again."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pretokenize.test_cache import ROWS
from pretokenize.workshop import Workshop

from expert_worker._native import MappedRows, NativeError
from expert_worker.errors import BadInput
from expert_worker.pretokenize import Cache
from expert_worker.pretokenize.record import DATA_FILE, FILE


def codes(workshop: Workshop) -> set[str | None]:
    return {getattr(line, "code", None) for line in workshop.said}


def content(cache: Cache) -> list[list[list[int]]]:
    return [[part.tolist() for part in cache.train.row(index)] for index in range(len(cache.train))]


def other_ids(path: Path) -> None:
    """Every id becomes its neighbour: a file of the same size that Arrow reads without complaint."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_stream(source).read_all()
        at = source.size()
    stored = bytearray(path.read_bytes())
    assert len(stored) == at
    ids = np.asarray(table.column("input_ids").chunk(0).values, dtype=np.int32)
    start = bytes(stored).index(ids.tobytes())
    stored[start : start + ids.nbytes] = (ids ^ 1).tobytes()
    path.write_bytes(stored)


def zeroed(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def flipped(path: Path) -> None:
    stored = bytearray(path.read_bytes())
    stored[-100] ^= 4
    path.write_bytes(stored)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-64])


@pytest.mark.parametrize("harm", [other_ids, zeroed, flipped, cut, Path.unlink])
def test_rows_that_changed_are_built_again_and_it_is_said(
    workshop: Workshop, harm: Callable[[Path], object]
) -> None:
    path = workshop.jsonl(ROWS)
    first = workshop.build(path)
    rows, file = content(first), first.folder / "train" / DATA_FILE
    written = file.read_bytes()
    harm(file)
    again = workshop.build(path)
    assert not again.existed and "cache-rebuilt" in codes(workshop)
    assert content(again) == rows and file.read_bytes() == written
    assert workshop.build(path).existed and "cache-rebuilt" not in codes(workshop)


@pytest.mark.parametrize("key", ["template", "encoder", "inputs"])
def test_a_description_that_changed_is_not_believed(workshop: Workshop, key: str) -> None:
    path = workshop.jsonl(ROWS)
    cache = workshop.build(path)
    document = json.loads((cache.folder / FILE).read_text())
    document[key] = {} if key == "inputs" else "another"
    (cache.folder / FILE).write_text(json.dumps(document))
    assert not workshop.build(path).existed and "cache-rebuilt" in codes(workshop)


def test_a_cache_that_lost_its_description_is_built_again(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    cache = workshop.build(path)
    (cache.folder / FILE).unlink()
    assert not workshop.build(path).existed and "cache-rebuilt" in codes(workshop)


def test_a_folder_of_someone_else_is_never_replaced(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    cache = workshop.build(path)
    (cache.folder / FILE).unlink()
    (cache.folder / "train" / "thesis.tex").write_text("mine")
    with pytest.raises(BadInput, match="not a token cache"):
        workshop.build(path)
    assert (cache.folder / "train" / "thesis.tex").read_text() == "mine"


def test_a_rebuild_by_force_speaks_of_no_damage(workshop: Workshop) -> None:
    from expert_worker.events import Events
    from expert_worker.pretokenize import ensure_cache

    path = workshop.jsonl(ROWS)
    workshop.build(path)
    events, memory = Events.in_memory("pretokenize")
    assert not ensure_cache(workshop.plan(path), events, force=True).existed
    said = " ".join(str(event.body) for event in memory.events)
    assert "as asked" in said and "damaged" not in said and "not used" not in said


def test_no_damage_makes_the_reader_panic_or_leave_the_file(workshop: Workshop) -> None:
    """Random flips, cuts and overwritten words: refused in words when opened, or every row can be read."""
    written = (workshop.build(workshop.jsonl(ROWS)).folder / "train" / DATA_FILE).read_bytes()
    place = workshop.folder / "harmed.arrow"
    draw, refused = random.Random(11), 0
    for _ in range(1500):
        stored = bytearray(written)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(0, len(stored) - 8)
            kind = draw.random()
            if kind < 0.4:
                stored[at] ^= 1 << draw.randrange(8)
            elif kind < 0.8:
                word = draw.choice([0, 2**31 - 1, 2**31, 2**32 - 1, draw.randrange(2**32)])
                stored[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
            else:
                del stored[draw.randrange(len(stored)) :]
                break
            if len(stored) < 16:
                break
        place.write_bytes(stored)
        try:
            rows = MappedRows(str(place))
        except (NativeError, OSError):
            refused += 1
            continue
        for index in range(len(rows)):
            ids, labels, lengths = rows.place(index)
            assert 0 <= ids[0] <= ids[1] <= len(stored) and ids[1] - ids[0] == labels[1] - labels[0]
            assert lengths[1] <= len(stored)
        tokens, documents = rows.measure(range(len(rows)))
        parts = [np.empty(tokens, np.int32) for _ in range(3)]
        rows.fill(range(len(rows)), *parts, np.empty(documents + 1, np.int32))
    assert 200 < refused < 1500


FOREIGN_FAULTS = {
    "labels are fewer": {"input_ids": [[1, 2, 3]], "labels": [[1, 2]]},
    "a null": {"input_ids": [[1, None, 3]], "labels": [[1, 2, 3]]},
    "a null row": {"input_ids": [[1, 2, 3], None], "labels": [[1, 2, 3], None]},
    "a negative id": {"input_ids": [[1, -7, 3]], "labels": [[1, 2, 3]]},
    "an id beyond the vocabulary": {"input_ids": [[1, 70_000, 3]], "labels": [[1, 2, 3]]},
    "a label beyond the vocabulary": {"input_ids": [[1, 2, 3]], "labels": [[1, 2, 70_000]]},
    "lengths that do not add up": {"input_ids": [[1, 2, 3]], "labels": [[1, 2, 3]], "seq_lengths": [[2, 2]]},
}


@pytest.mark.parametrize("name", FOREIGN_FAULTS)
def test_rows_of_another_tool_are_checked(workshop: Workshop, tmp_path: Path, name: str) -> None:
    from datasets import Dataset

    base = tmp_path / "base"
    shutil.copytree(workshop.base, base)
    (base / "config.json").write_text(json.dumps({"vocab_size": 1000}))
    workshop.base = base
    Dataset.from_dict(FOREIGN_FAULTS[name]).save_to_disk(str(workshop.folder / "cache"))
    with pytest.raises(BadInput, match=r"row 1|row 2"):
        workshop.build(workshop.jsonl(ROWS))
