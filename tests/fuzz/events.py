"""The reader of `events.jsonl`: no valid line is lost around broken ones, however the file grows."""

from __future__ import annotations

import json
import math
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from expert_worker.events.models import Event
from expert_worker.events.reader import NAME, EventFile, last_attempt, parse

# Of a small file; reading it line by line needs some copies of a line.
MOST_BYTES = 8 << 20
MOST_PER_BYTE = 2000


def check(data: bytes) -> None:
    tracemalloc.start()
    try:
        _check(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= MOST_BYTES + MOST_PER_BYTE * len(data), f"{most} bytes of memory for {len(data)} of input"


def _check(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(data)
        file = EventFile(path)
        found = list(file.read(ended=True))
        assert found == _expected(data), "an event was lost or invented"
        assert len(found) + file.left_out <= data.count(b"\n") + 1
        path.write_bytes(b"")
        assert _in_pieces(path, data) == found, "a file read while it grows gives other events"
    for event in found:
        again = parse(event.model_dump_json().encode())
        assert again == event, f"{event!r} does not survive being written"
    newest = last_attempt(found)
    assert all(math.isfinite(event.time) for event in newest)
    assert len({event.attempt for event in newest}) <= 1


def _expected(data: bytes) -> list[Event]:
    """Each line by itself, which is all that the format promises."""
    events = (parse(line) for line in data.split(b"\n"))
    return [event for event in events if event is not None]


def _in_pieces(path: Path, data: bytes) -> list[Event]:
    """Read after each third, as a watcher does."""
    file, found = EventFile(path), []
    third = len(data) // 3
    for piece in (data[:third], data[third : 2 * third], data[2 * third :]):
        with path.open("ab") as out:
            out.write(piece)
        found += file.read()
    return [*found, *file.read(ended=True)]


def inputs() -> st.SearchStrategy[bytes]:
    """Files of valid lines, of such lines damaged, and of anything."""
    bodies: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("best"), "step": _steps(), "metric": st.text(), "value": _numbers()}
        ),
        st.fixed_dictionaries({"type": st.just("applied"), "key": st.text(), "value": _values()}),
        st.fixed_dictionaries(
            {
                "type": st.just("evaluated"),
                "step": _steps(),
                "metrics": st.dictionaries(st.text(), _numbers()),
                "seconds": _numbers(),
            }
        ),
        st.fixed_dictionaries({"type": st.just("warning"), "code": st.text(), "message": st.text()}),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["started", "progress", "", "other"]), "step": _values()}
        ),
    )
    events = st.fixed_dictionaries(
        {
            "time": st.one_of(_numbers(), st.floats(1.7e9, 1.8e9)),
            "attempt": st.one_of(st.integers(0, 3), _values()),
            "body": bodies,
        }
    )
    lines = events.map(lambda event: json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    damaged = st.builds(_damage, lines, st.integers(0, 200), st.binary(max_size=3))
    any_line = st.one_of(lines, lines, damaged, st.binary(max_size=40))
    ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"", b"\x00"])
    return st.lists(st.tuples(any_line, ends), max_size=12).map(
        lambda parts: b"".join(a + b for a, b in parts)
    )


def _steps() -> st.SearchStrategy[int]:
    return st.one_of(st.integers(0, 100), st.sampled_from([-1, 2**63, 2**64 - 1, 2**64]))


def _numbers() -> st.SearchStrategy[float]:
    return st.floats()


def _values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
    return st.recursive(
        leaves, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)), max_leaves=6
    )


def _damage(line: bytes, at: int, piece: bytes) -> bytes:
    at = min(at, len(line))
    return line[:at] + piece + line[at + len(piece) :]
