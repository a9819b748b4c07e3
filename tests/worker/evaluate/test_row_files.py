"""Test rows are read from every kind of file that training rows are read from."""

import gzip
import json
from pathlib import Path

import pytest
from plans import example_plan

from expert_worker.errors import BadInput
from expert_worker.evaluate.rows import rows_of

ROWS = [{"prompt": f"Q{i}", "completion": f"A{i}"} for i in range(4)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
FILES = {
    "test.jsonl": LINES,
    "test.jsonl.gz": gzip.compress(LINES),
    "utf16.jsonl": LINES.decode().encode("utf-16"),
    "marked.jsonl": b"\xef\xbb\xbf" + LINES,
    "test.json": json.dumps(ROWS, indent=1).encode(),
    "test.csv": b"prompt;completion\n" + b"".join(b"Q%d;A%d\n" % (i, i) for i in range(4)),
}


@pytest.mark.parametrize("name", FILES)
def test_the_rows_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    kind = {"csv": "csv", "json": "json"}.get(name.rsplit(".", 1)[1], "jsonl")
    changes = {
        "recipe.data.test": [{"name": name, "format": kind, "weight": 1.0, "task": None}],
        "machine.paths.data": {name: str(tmp_path / name)},
    }
    plan = example_plan(tmp_path, changes)
    data, files = plan.recipe.data, plan.machine.paths.data
    assert [row["completion"] for row in rows_of(data.test, {}, files)] == ["A0", "A1", "A2", "A3"]
    assert len(rows_of(data.test, {}, files, 2)) == 2
    (tmp_path / name).write_bytes(FILES[name][:-9] + b"\xff\xff")
    with pytest.raises(BadInput):
        rows_of(data.test, {}, files)
