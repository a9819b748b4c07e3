"""Rows shown as they will be learned."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from pretokenize.workshop import Workshop

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
