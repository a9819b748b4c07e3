"""Rows shown as they will be learned."""

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pretokenize.test_data import PLAIN, texts
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.pretokenize.stage import run


def test_rows_are_shown_with_what_is_learned(workshop: Workshop) -> None:
    path = workshop.jsonl([{"prompt": "Q1", "completion": "A1"}, {"prompt": "Q2", "completion": "é 2"}] * 3)
    request = {"stage": "pretokenize", "force": False, "preview": 2}
    events, memory = Events.in_memory("pretokenize")
    result = run(workshop.plan(path, {"request": request}), events)
    assert isinstance(result, dict)
    shown = result["preview"]
    assert isinstance(shown, list) and len(shown) == 2
    spans = json.loads(json.dumps(shown[1]))["spans"]
    assert spans == [
        {"text": "<|im_start|>user\nQ2<|im_end|>\n<|im_start|>assistant\n", "learned": False},
        {"text": "é 2<|im_end|>\n", "learned": True},
    ]
    said = [(getattr(line.body, "source", None), getattr(line.body, "text", None)) for line in memory.events]
    assert ("learned", "A1<|im_end|>\n") in said


def test_bytes_are_refused_as_the_build_refuses_them(workshop: Workshop) -> None:
    path = workshop.folder / "rows.parquet"
    rows = [
        {"prompt": "Q", "completion": "A", "img": b"\xff"},
        {"prompt": "Q", "completion": b"\xe9", "img": b""},
    ]
    table = {name: pa.array([row[name] for row in rows], pa.binary()) for name in rows[0]}
    pq.write_table(pa.table(table), path)
    request = {"stage": "pretokenize", "force": False, "preview": 2}
    changes = {"request": request, "recipe.data.on_bad_row": "skip"}
    result = run(workshop.plan(path, changes), Events.in_memory("pretokenize")[0])
    assert isinstance(result, dict)
    first, second = result["preview"]
    assert "error" not in first
    assert second["error"] == 'the column "completion": byte 1 is not UTF-8'


def test_a_row_that_would_be_left_out_says_why(workshop: Workshop) -> None:
    prompts = ["Q " * 300, "Q", "Q"]
    answers = ["A", "A", "enough"]
    path = workshop.jsonl(
        [{"prompt": prompt, "completion": answer} for prompt, answer in zip(prompts, answers, strict=True)]
    )
    request = {"stage": "pretokenize", "force": False, "preview": 3}
    changes = {"request": request, "recipe.data.min_length": 5}
    result = run(workshop.plan(path, changes), Events.in_memory("pretokenize")[0])
    assert isinstance(result, dict)
    shown = result["preview"]
    assert isinstance(shown, list)
    said = [row.get("error") for row in shown]
    assert said == ["the row is left out: unsupervised", "the row is left out: short", None]


NAN, INFINITY = float("nan"), float("inf")
DAY = datetime.date(2024, 2, 29)
POINT = pa.struct([("x", pa.float32()), ("y", pa.float64()), ("raw", pa.binary())])
POINTS: list[Any] = [{"x": 0.1, "raw": b"r"}, {"y": NAN}, {"x": 1e30, "raw": b"\xff"}]
# Answers in the types of Arrow, by the test's name.
ANSWERS: dict[str, pa.Array] = {
    **{
        f"{kind}{bits}": pa.array(numbers, f"{kind}{bits}")
        for kind, numbers in {"int": [-7, 0, 100, None], "uint": [0, 7, 200, None]}.items()
        for bits in (8, 16, 32, 64)
    },
    "uint64-largest": pa.array([2**64 - 1], pa.uint64()),
    "float16": pa.array(np.array([0.5, 0.1, -2, NAN, INFINITY], np.float16)),
    "float32": pa.array([0.5, 0.1, 1e-7, 16777216, 3e38, NAN, -INFINITY], pa.float32()),
    "float64": pa.array([0.5, 0.1, 1e-7, 1e300, -0.0, NAN, INFINITY], pa.float64()),
    "decimal": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2)),
    "bool": pa.array([True, False, None]),
    "null": pa.nulls(2),
    **{
        str(kind): pa.array(["é \"quoted\"\n", "", "null", None], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): pa.array(["é".encode(), b"", b"a\xe9", None], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "fixed_size_binary": pa.array([b"abc", b"\xff\xfe\xfd"], pa.binary(3)),
    "dictionary": pa.array(["a", "b", "a", None]).dictionary_encode(),
    "date": pa.array([DAY, None]),
    "time": pa.array([datetime.time(7, 30), None]),
    "timestamp": pa.array([datetime.datetime(2024, 2, 29, 7, 30), None]),
    "timestamp-zone": pa.array([0, None], pa.timestamp("us", "UTC")),
    "duration": pa.array([datetime.timedelta(seconds=90), None]),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "struct": pa.array([*POINTS, {}, None], POINT),
    "struct-of-null": pa.array([{"a": None, "b": 1}], pa.struct([("a", pa.null()), ("b", pa.int64())])),
    **{
        str(kind): pa.array([[{"role": "assistant", "content": "A"}], [], None], kind)
        for inner in [pa.struct([("role", pa.string()), ("content", pa.string()), ("name", pa.string())])]
        for kind in (pa.list_(inner), pa.large_list(inner))
    },
    "fixed_size_list": pa.array([[1, 2], [3, None]], pa.list_(pa.int64(), 2)),
    "list-of-lists": pa.array(
        [{"in": [[0.1], [NAN, None], None]}], pa.struct([("in", pa.list_(pa.list_(pa.float32())))])
    ),
    "map": pa.array([[("a", 1), ("b", None)], None], pa.map_(pa.string(), pa.int64())),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_row_of_columns_is_the_one_that_training_reads(workshop: Workshop, name: str) -> None:
    answers = ANSWERS[name]
    path, good = workshop.folder / "rows.arrow", workshop.jsonl([{"prompt": "Q", "completion": "good"}])
    table = pa.table({"prompt": ["Q"] * len(answers), "completion": answers})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    source = {"weight": 1.0, "task": None}
    changes = {
        **PLAIN,
        "recipe.data.train": [
            {"name": path.name, "format": "arrow", **source},
            {"name": good.name, "format": "jsonl", **source},
        ],
        "machine.paths.data": {path.name: str(path), good.name: str(good)},
        "recipe.data.on_bad_row": "skip",
    }
    preview = {"request": {"stage": "pretokenize", "force": False, "preview": len(answers)}}
    result = run(workshop.plan(path, {**changes, **preview}), Events.in_memory("pretokenize")[0])
    assert isinstance(result, dict)
    shown = result["preview"]
    assert len(shown) == len(answers)

    def joined(spans: list[dict[str, Any]], *kinds: bool) -> str:
        return "".join(span["text"] for span in spans if span["learned"] in kinds)

    *learned, last = texts(workshop, workshop.build(path, changes))
    assert "good" in last[0]
    expected = [
        (joined(row["spans"], True, False), joined(row["spans"], True)) for row in shown if "error" not in row
    ]
    assert learned == expected
    errors = {row["error"] for row in shown if "error" in row}
    if errors:
        with pytest.raises(BadInput) as caught:
            workshop.build(path, {**changes, "recipe.data.on_bad_row": "error"})
        assert [error for error in errors if error not in caught.value.message] == []


def test_rows_that_another_tool_tokenized_are_shown_and_counted_themselves(workshop: Workshop) -> None:
    import datasets

    request = {"stage": "pretokenize", "force": False, "preview": 5}
    plan = workshop.plan(
        workshop.jsonl([{"prompt": "Never trained on", "completion": "no"}]), {"request": request}
    )
    tokenizer = Tokenizer.from_file(str(Path(str(plan.machine.paths.base)) / "tokenizer.json"))
    asked, said = (
        tokenizer.encode(text, add_special_tokens=False).ids for text in ("a question", " its answer")
    )
    rows = {"input_ids": [asked + said], "labels": [[-100] * len(asked) + said]}
    datasets.Dataset.from_dict(rows).save_to_disk(plan.machine.paths.cache)
    events, _ = Events.in_memory("pretokenize")
    result = run(plan, events)
    (shown,) = result["preview"]
    assert [(span["text"], span["learned"]) for span in shown["spans"]] == [
        ("a question", False),
        (" its answer", True),
    ]
    assert (shown["tokens"], shown["supervised_tokens"]) == (len(asked + said), len(said))
    counts = result["totals"]
    assert (counts["read"], counts["used"], counts["tokens"], counts["supervised_tokens"]) == (
        1,
        1,
        len(asked + said),
        len(said),
    )
