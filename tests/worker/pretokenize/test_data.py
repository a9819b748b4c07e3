"""What stands in data files: shapes, faults, formats."""

import csv
import datetime
import decimal
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer, processors

from expert_worker.errors import BadInput, Missing
from expert_worker.evaluate.rows import rows_of
from expert_worker.plan import Source
from expert_worker.pretokenize import Cache, build, coder

PLAIN = {"recipe.batch.packing": False, "recipe.batch.max_seq_length": 512}


def texts(workshop: Workshop, cache: Cache, split: str = "train") -> list[tuple[str, str]]:
    """Each row as its whole text and its learned text."""
    reference = Tokenizer.from_file(str(workshop.base / "tokenizer.json"))
    rows = getattr(cache, split)
    out = []
    for index in range(len(rows)):
        ids, labels, _ = rows.row(index)
        learned = [int(label) for label in labels if label != -100]
        out.append(
            (
                reference.decode(ids.tolist(), skip_special_tokens=False),
                reference.decode(learned, skip_special_tokens=False),
            )
        )
    return out


def turn(user: str, assistant: str, system: str | None = None) -> str:
    start = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    return f"{start}<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n{assistant}<|im_end|>\n"


SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}, turn("Q", "A")),
    ({"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]}, turn("Q", "A")),
    ({"conversations": [{"from": "Human", "value": "Q"}, {"from": "AI", "value": "A"}]}, turn("Q", "A")),
    ({"messages": [{"role": "USER", "content": "Q"}, {"role": "Bot", "content": "A"}]}, turn("Q", "A")),
    (
        {
            "system": "S",
            "messages": [
                {"role": "System", "content": "S"},
                {"role": "User", "content": "Q"},
                {"role": "Assistant", "content": "A"},
            ],
        },
        turn("Q", "A", "S"),
    ),
    ({"prompt": "Q", "completion": "A"}, turn("Q", "A")),
    (
        {"prompt": [{"role": "user", "content": "Q"}], "completion": [{"role": "assistant", "content": "A"}]},
        turn("Q", "A"),
    ),
    ({"instruction": "Q", "input": "", "output": "A"}, turn("Q", "A")),
    ({"instruction": "Q", "input": "I", "output": "A"}, turn("Q\n\nI", "A")),
    ({"instruction": "Q", "response": "A", "system": "S"}, turn("Q", "A", "S")),
    ({"task": "t", "input": {"instruction": "Q", "broken": "{"}, "output": "{}"}, turn("Q\n\n{", "{}")),
    (
        {"task": "t", "input": {"schema": "S", "question": "Q"}, "output": "A"},
        turn("schema:\nS\n\nquestion:\nQ", "A"),
    ),
    ({"question": "Q", "input": {"a": "x", "b": "y"}, "answer": "A"}, turn("Q\n\na:\nx\n\nb:\ny", "A")),
    ({"prompt": "Q", "input": {"a": "x"}, "output": "A"}, turn("Q\n\nx", "A")),
    ({"instruction": "Q", "output": {"a": [1, None]}}, turn("Q", '{"a":[1,null]}')),
]


@pytest.mark.parametrize(("row", "expected"), SHAPES)
def test_shapes(workshop: Workshop, row: dict[str, Any], expected: str) -> None:
    cache = workshop.build(workshop.jsonl([row]), PLAIN)
    answer = expected.rsplit("<|im_start|>assistant\n", 1)[1]
    assert texts(workshop, cache) == [(expected, answer)]


def test_a_bare_text_is_learned_whole_and_ends_with_eos(workshop: Workshop) -> None:
    cache = workshop.build(workshop.jsonl([{"text": "plain words"}]), PLAIN)
    assert texts(workshop, cache) == [("plain words<|im_end|>", "plain words<|im_end|>")]
    assert cache.ledger()["eos_added"] == 1


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="asks Linux what is mapped")
def test_no_rows_are_mapped_when_others_take_their_place(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows neither empties nor removes a mapped file."""
    mapped = []

    def is_mapped() -> bool:
        lines = Path("/proc/self/maps").read_text().splitlines()
        return any("spill.bin" in line and str(workshop.folder) in line for line in lines)

    def ingest(*given: Any) -> Any:
        mapped.append(is_mapped())
        return original(*given)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == "spill.bin":
            mapped.append(is_mapped())
        remove(path, missing_ok)

    original, remove = build.ingest, Path.unlink
    monkeypatch.setattr(build, "ingest", ingest)
    monkeypatch.setattr(Path, "unlink", unlink)
    rows = [{"prompt": "Q", "completion": "A"}]
    places = [workshop.jsonl(rows), workshop.jsonl(rows, "held.jsonl")]
    held = {"name": "held.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    data = {
        "machine.paths.data": {path.name: str(path) for path in places},
        "recipe.data.validation": [held],
    }
    workshop.build(places[0], {**PLAIN, **data})
    assert mapped == [False, False, False]


@pytest.mark.parametrize("is_native", [True, False])
def test_a_bare_text_has_the_tokens_around_it_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    tokenizer = llama3_like()
    begin, end = "<|endoftext|>", "<|im_end|>"
    ids = [(text, tokenizer.token_to_id(text)) for text in (begin, end)]
    tokenizer.post_processor = processors.TemplateProcessing(f"{begin} $A {end}", special_tokens=ids)
    workshop.base = write_base(workshop.folder / "framed", tokenizer)
    if not is_native:
        monkeypatch.setattr(coder, "_compiled", lambda *_: "not compiled")
    rows = ["words", f"{begin}words", f"words{end}", f"{begin}words{end}", f"words{begin}"]
    cache = workshop.build(workshop.jsonl([{"text": text} for text in rows]), PLAIN)
    whole = f"{begin}words{end}"
    expected = [*[whole] * 4, f"{begin}words{begin}{end}"]
    assert texts(workshop, cache) == [(text, text) for text in expected]
    assert (cache.description.encoder == "native") == is_native


DIALOGUES = [
    "<|system|>\nS\n<|end|>\n<|user|>\nQ\n<|end|>\n<|assistant|>\nA\n<|end|>",
    "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n",
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>"
    "\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>",
    "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST] A </s>",
]


@pytest.mark.parametrize("text", DIALOGUES)
def test_a_text_that_is_a_rendered_dialogue_is_rendered_again(workshop: Workshop, text: str) -> None:
    cache = workshop.build(workshop.jsonl([{"text": text}]), PLAIN)
    assert texts(workshop, cache) == [(turn("Q", "A", "S"), "A<|im_end|>\n")]
    assert cache.ledger()["parsed_dialogues"] == 1
    assert "dialogues-parsed" in {getattr(line, "code", None) for line in workshop.said}
    raw = workshop.build(workshop.jsonl([{"text": text}]), {**PLAIN, "recipe.data.text_dialogue": "raw"})
    assert texts(workshop, raw)[0][0].startswith(text)


def test_field_mapping_follows_dotted_paths(workshop: Workshop) -> None:
    row = {"in": {"q": "Q"}, "out": [1], "answer": {"sql": "A"}}
    mapping = {"recipe.data.field_mapping": {"prompt": "in.q", "completion": "answer.sql"}}
    assert texts(workshop, workshop.build(workshop.jsonl([row]), {**PLAIN, **mapping}))[0][0] == turn(
        "Q", "A"
    )
    with pytest.raises(BadInput, match=r'train.jsonl:1: the row has no field "in.nothing"'):
        wrong = {"recipe.data.field_mapping": {"prompt": "in.nothing", "completion": "answer.sql"}}
        workshop.build(workshop.jsonl([row]), {**PLAIN, **wrong})


GOOD = '{"prompt": "Q", "completion": "A"}'
FAULTS = [
    ('{"prompt": "Q"', "not valid JSON"),
    ("[1, 2]", "the row is a list, not an object"),
    ('{"prompt": [5], "completion": "A"}', 'the field "prompt" is a list, not text'),
    ('{"prompt": "Q", "completion": ""}', 'the field "completion" is empty'),
    ('{"instruction": "Q"}', 'the row has "instruction" and no "output"'),
    ('{"ask": "Q"}', 'no known shape fits the fields "ask"'),
    ('{"messages": [{"role": "assistant"}]}', 'message 1 has no "content"'),
    ('{"messages": "hi"}', 'the field "messages" is text, not a list'),
    ('{"text": "  "}', 'the field "text" is empty'),
]


def test_every_fault_is_named_with_its_line(workshop: Workshop) -> None:
    path = workshop.folder / "train.jsonl"
    lines = [line for fault, _ in FAULTS for line in (GOOD, fault)]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        workshop.build(path)
    for number, (_, message) in enumerate(FAULTS):
        assert f"train.jsonl:{2 * number + 2}: {message}" in caught.value.message
    skipped = workshop.build(path, {"recipe.data.on_bad_row": "skip"})
    assert skipped.ledger()["used"] == skipped.ledger()["bad"] == len(FAULTS)


CURES = [
    ("  \f" + GOOD[:-1] + ", x} ", None),
    ('{"prompt": "Q", "completion": 1e400}', None),
    (GOOD + ",", "remove the comma"),
    ('{"prompt": "Q", "completion": NaN}', "NaN and Infinity are not JSON"),
    ('{"prompt": "Q", "completion": -Infinity}', "NaN and Infinity are not JSON"),
    ('{"prompt": "Q", "completion": None}', "json.dumps"),
    ("{'prompt': 'Q', 'completion': 'A'}", "json.dumps"),
]


@pytest.mark.parametrize(("line", "hint"), CURES)
def test_rows_that_are_almost_json_have_a_hint_as_training_and_as_test_rows(
    workshop: Workshop, line: str, hint: str | None
) -> None:
    path = workshop.folder / "train.jsonl"
    path.write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"train\.jsonl:2: not valid JSON") as trained:
        workshop.build(path)
    source = Source(name=path.name, format="jsonl", weight=1.0, task=None)
    with pytest.raises(BadInput) as scored:
        rows_of([source], {}, {path.name: str(path)})
    assert hint is None or hint in str(trained.value.hint)
    assert (scored.value.message, scored.value.hint) == (trained.value.message, trained.value.hint)


def test_a_row_within_blanks_is_read_as_a_test_row_too(workshop: Workshop) -> None:
    path = workshop.folder / "train.jsonl"
    path.write_bytes(b"\xef\xbb\xbf \x0c" + GOOD.encode() + b"\t\r\n")
    source = Source(name=path.name, format="jsonl", weight=1.0, task=None)
    assert workshop.build(path, PLAIN).ledger()["used"] == 1
    assert len(rows_of([source], {}, {path.name: str(path)})) == 1


def test_one_name_of_a_field_that_is_a_question_is_not_a_missing_header(workshop: Workshop) -> None:
    row = {"Question": "Q", "Reply": "A", "Was this helpful?": "yes"}
    with pytest.raises(BadInput, match="no known shape") as caught:
        workshop.build(workshop.jsonl([row]))
    assert "header" not in str(caught.value.hint)


def test_a_table_without_a_header_has_a_hint(workshop: Workshop) -> None:
    path = workshop.folder / "train.csv"
    path.write_text('"Meet Ada on Monday at 08:00.","{""action"": ""add""}"\nB,b\n', encoding="utf-8")
    with pytest.raises(BadInput, match="no known shape") as caught:
        workshop.build(path)
    assert "write a header above it" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"recipe.data.max_length": 1}, "max_length"),
        ({"recipe.data.min_length": 9000}, "min_length"),
        ({"recipe.batch.max_seq_length": 8, "recipe.data.overlong": "drop"}, "overlong"),
    ],
)
def test_where_nothing_is_left_the_setting_that_dropped_it_is_named(
    workshop: Workshop, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadInput, match="nothing to learn from") as caught:
        workshop.build(workshop.jsonl([json.loads(GOOD)]), changes)
    assert named in str(caught.value.hint)


def test_of_a_mixture_the_task_that_has_no_row_left_is_named(workshop: Workshop) -> None:
    long = workshop.jsonl(
        [{"prompt": f"{i} 2 3 4 " * 100, "completion": "A"} for i in range(3)], "long.jsonl"
    )
    short = workshop.jsonl([{"prompt": f"Q{i}", "completion": "A"} for i in range(5)], "short.jsonl")
    changes = {
        "recipe.data.train": [
            {"name": path.name, "format": "jsonl", "weight": 0.5, "task": path.stem} for path in (short, long)
        ],
        "machine.paths.data": {path.name: str(path) for path in (long, short)},
        "recipe.data.overlong": "drop",
    }
    said = r"The task of long\.jsonl has no row left \(dropped overlong 3\)"
    with pytest.raises(BadInput, match=said) as caught:
        workshop.build(short, changes)
    hint = str(caught.value.hint)
    assert "Raise max_seq_length" in hint and "a weight of 0 in training.dataset.weights" in hint


def test_bytes_that_are_not_utf8(workshop: Workshop) -> None:
    path = workshop.folder / "train.jsonl"
    path.write_bytes(GOOD.encode() + b'\n{"text": "\xff"}\n')
    with pytest.raises(BadInput, match=r"train\.jsonl:2: byte 11 of the row is not UTF-8"):
        workshop.build(path)


def test_bom_crlf_and_empty_lines_are_accepted(workshop: Workshop) -> None:
    path = workshop.folder / "train.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n" + GOOD.encode() + b"\r\n\r\n  \n" + GOOD.encode())
    cache = workshop.build(path, PLAIN)
    assert [text for text, _ in texts(workshop, cache)] == [turn("Q", "A")] * 2


def test_a_row_of_many_megabytes_is_a_named_fault(workshop: Workshop) -> None:
    path = workshop.folder / "train.jsonl"
    path.write_text(
        GOOD + "\n" + json.dumps({"text": "x" * (17 << 20)}) + "\n" + GOOD + "\nbroken\n", encoding="utf-8"
    )
    with pytest.raises(BadInput) as caught:
        workshop.build(path)
    assert "train.jsonl:2: the row is 17.8 MB long; 16 MiB is the most" in caught.value.message
    assert "train.jsonl:4: not valid JSON" in caught.value.message


def test_real_broken_rows_are_all_named(workshop: Workshop, real: Callable[[str], Path]) -> None:
    with pytest.raises(BadInput) as caught:
        workshop.build(real("json_repair_with_broken_rows.jsonl"))
    lines = [671, 696, 701, 703, 705, 707, 710, 773, 784, 791]
    assert caught.value.message.startswith("10 rows are broken:")
    assert "json_repair_with_broken_rows.jsonl:671: not valid JSON" in caught.value.message
    for line in lines:
        assert re.search(rf"\b{line}\b", caught.value.message)


def test_a_git_lfs_pointer_says_what_to_run(workshop: Workshop) -> None:
    path = workshop.folder / "train.jsonl"
    path.write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 900\n", encoding="utf-8"
    )
    with pytest.raises(BadInput, match="Git LFS pointer") as caught:
        workshop.build(path)
    assert caught.value.hint is not None and "git lfs pull" in caught.value.hint


ROWS = [{"prompt": f"Q{i}", "completion": f'A, "{i}"\nline'} for i in range(5)]


def write_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, ["prompt", "completion"])
        writer.writeheader()
        writer.writerows(ROWS)


FORMATS: dict[str, Callable[[Path], Any]] = {
    "rows.json": lambda path: path.write_text(json.dumps(ROWS), encoding="utf-8"),
    "nested.json": lambda path: path.write_text(json.dumps({"data": ROWS, "version": 1}), encoding="utf-8"),
    "rows.csv": write_csv,
    "rows.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path),
}


@pytest.mark.parametrize("name", ["rows.json", "nested.json", "rows.csv", "rows.parquet"])
def test_every_format_gives_the_same_rows(workshop: Workshop, name: str) -> None:
    path = workshop.folder / name
    FORMATS[name](path)
    cache = workshop.build(path, PLAIN)
    assert [text for text, _ in texts(workshop, cache)] == [
        turn(row["prompt"], row["completion"]) for row in ROWS
    ]


def test_saved_data_sets_give_the_same_rows(workshop: Workshop) -> None:
    import datasets

    folder = workshop.folder / "saved"
    datasets.Dataset.from_list(
        [
            {
                "messages": [
                    {"role": "user", "content": r["prompt"]},
                    {"role": "assistant", "content": r["completion"]},
                ]
            }
            for r in ROWS
        ]
    ).save_to_disk(folder)
    cache = workshop.build(folder, PLAIN)
    assert [text for text, _ in texts(workshop, cache)] == [
        turn(row["prompt"], row["completion"]) for row in ROWS
    ]


def saved_rows(workshop: Workshop, name: str = "saved", shards: int = 1) -> Path:
    import datasets

    folder = workshop.folder / name
    datasets.Dataset.from_list(ROWS).save_to_disk(folder, num_shards=shards)
    return folder


def used_rows(workshop: Workshop, path: Path) -> list[str]:
    return [text for text, _ in texts(workshop, workshop.build(path, PLAIN))]


def test_what_the_library_leaves_in_a_saved_data_set_is_not_read(workshop: Workshop) -> None:
    import datasets

    folder = saved_rows(workshop)
    before = workshop.build(folder, PLAIN)
    changed = datasets.load_from_disk(folder)
    changed = changed.map(lambda row: {"prompt": row["prompt"].upper(), "n": 1})
    changed.shuffle(seed=1).filter(lambda row: row["n"] == 1)
    assert len(list(folder.glob("cache-*.arrow"))) >= 2
    again = workshop.build(folder, PLAIN)
    assert again.existed and again.key == before.key
    assert used_rows(workshop, folder) == [turn(row["prompt"], row["completion"]) for row in ROWS]


def test_columns_of_a_saved_data_set_are_matched_by_name(workshop: Workshop) -> None:
    folder = saved_rows(workshop, shards=2)
    last = folder / "data-00001-of-00002.arrow"
    rows = pa.ipc.open_stream(last.read_bytes()).read_all()
    with pa.ipc.new_stream(last, (swapped := rows.select(rows.schema.names[::-1])).schema) as writer:
        writer.write_table(swapped)
    assert used_rows(workshop, folder) == [turn(row["prompt"], row["completion"]) for row in ROWS]


def write_state(folder: Path, **changes: Any) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, **changes}))


def add_numbers(folder: Path) -> None:
    last = folder / "data-00001-of-00002.arrow"
    rows = pa.ipc.open_stream(last.read_bytes()).read_all()
    rows = rows.set_column(0, "prompt", pa.array(range(len(rows))))
    with pa.ipc.new_stream(last, rows.schema) as writer:
        writer.write_table(rows)


SAVED_FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "numbers": (add_numbers, "00001-of-00002.arrow are not those of .*: prompt is int64 instead of string"),
    "absent": (
        lambda folder: (folder / "data-00001-of-00002.arrow").unlink(),
        "names data-00001-of-00002.arrow",
    ),
    "elsewhere": (
        lambda folder: write_state(folder, _data_files=[{"filename": "../a.arrow"}]),
        "names a.arrow",
    ),
    "without-files": (lambda folder: write_state(folder, _data_files=None), "does not name the files"),
    "without-rows": (lambda folder: write_state(folder, _data_files=[]), "without rows"),
    "broken": (lambda folder: (folder / "state.json").write_text("["), "does not name the files"),
    "selection": (
        lambda folder: write_state(folder, _indices_files=[{"filename": "i.arrow"}]),
        "is a selection",
    ),
}


@pytest.mark.parametrize("name", SAVED_FAULTS)
def test_a_saved_data_set_that_is_not_whole_is_refused(workshop: Workshop, name: str) -> None:
    harm, reason = SAVED_FAULTS[name]
    folder = saved_rows(workshop, shards=2)
    harm(folder)
    with pytest.raises(BadInput, match=reason) as refused:
        workshop.build(folder, PLAIN)
    assert refused.value.hint


def test_duplicates_and_lengths(workshop: Workshop) -> None:
    rows = [{"prompt": "Q", "completion": "A" * size} for size in (1, 5, 5, 50, 1)]
    changes = {
        **PLAIN,
        "recipe.data.deduplicate": True,
        "recipe.data.min_length": 3,
        "recipe.data.max_length": 20,
    }
    ledger = workshop.build(workshop.jsonl(rows), changes).ledger()
    assert (ledger["used"], ledger["dropped_duplicate"]) == (1, 1)
    assert (ledger["dropped_short"], ledger["dropped_long"]) == (2, 1)


@pytest.mark.parametrize(
    ("policy", "documents"), [("truncate", 1), ("keep_end", 1), ("split", 3), ("drop", 0)]
)
def test_rows_that_are_too_long(workshop: Workshop, policy: str, documents: int) -> None:
    rows = [{"text": "1 2 3 4 5 6 7 8 9 " * 19}, {"text": "short"}]
    reference = Tokenizer.from_file(str(workshop.base / "tokenizer.json"))
    length = len(reference.encode(rows[0]["text"], add_special_tokens=False).ids) + 1
    assert 256 < length <= 384
    changes = {
        "recipe.batch.packing": False,
        "recipe.batch.max_seq_length": 128,
        "recipe.data.overlong": policy,
    }
    cache = workshop.build(workshop.jsonl(rows), changes)
    assert len(cache.train) == documents + 1
    ledger = cache.ledger()
    assert ledger["truncated"] == (policy in ("truncate", "keep_end"))
    assert ledger["split_rows"] == (policy == "split")
    assert ledger["dropped_overlong"] == (policy == "drop")
    if policy == "split":
        # Each piece begins with the last token of the one before, from which its first is predicted.
        assert cache.train.row_lengths()[:3] == [128, 128, length - 254]
        assert ledger["supervised_tokens"] == length + cache.train.row_lengths()[3]
    with pytest.raises(BadInput, match=rf"train\.jsonl:1: the row is {length} tokens long"):
        workshop.build(workshop.jsonl(rows), {"recipe.data.overlong": "error"})


def test_a_long_question_loses_its_beginning_and_keeps_its_answer(workshop: Workshop) -> None:
    rows = [{"prompt": "1 2 3 4 " * 100, "completion": "A B C"}, {"prompt": "Q", "completion": "A"}]
    changes = {**PLAIN, "recipe.batch.max_seq_length": 64, "recipe.data.overlong": "keep_end"}
    cache = workshop.build(workshop.jsonl(rows), changes)
    ledger = cache.ledger()
    assert (ledger["used"], ledger["truncated"], ledger["dropped_unsupervised"]) == (2, 1, 0)
    assert cache.train.row_lengths()[0] == 64
    whole = workshop.build(workshop.jsonl(rows), PLAIN | {"recipe.batch.max_seq_length": 2048})
    assert [learned for _, learned in texts(workshop, cache)] == [
        learned for _, learned in texts(workshop, whole)
    ]
    for (cut, _), (text, _) in zip(texts(workshop, cache), texts(workshop, whole), strict=True):
        assert text.endswith(cut)


def test_a_piece_without_anything_learned_is_dropped_and_counted(workshop: Workshop) -> None:
    rows = [{"prompt": "1 2 3 4 " * 100, "completion": "A"}, {"prompt": "Q", "completion": "A"}]
    ledger = workshop.build(workshop.jsonl(rows)).ledger()
    assert (ledger["used"], ledger["dropped_unsupervised"]) == (1, 1)
    with pytest.raises(BadInput, match="nothing to learn from"):
        workshop.build(workshop.jsonl(rows[:1]))


def test_pieces_of_a_split_row_without_anything_learned_are_counted(workshop: Workshop) -> None:
    long, short = {"prompt": "1 2 3 4 " * 80, "completion": "A"}, {"prompt": "Q", "completion": "A"}
    whole = workshop.build(workshop.jsonl([long, short]), {"recipe.batch.max_seq_length": 4096}).ledger()
    split = {"recipe.batch.max_seq_length": 128, "recipe.data.overlong": "split"}
    ledger = workshop.build(workshop.jsonl([long, short]), split).ledger()
    assert (ledger["used"], ledger["split_rows"]) == (2, 1)
    assert ledger["dropped_pieces"] == (whole["tokens"] - 2) // 127
    # The last token of the pieces that are dropped is also the first of the one that is learned.
    assert ledger["dropped_tokens"] == 1 + 127 * ledger["dropped_pieces"]
    assert ledger["tokens"] + ledger["dropped_tokens"] == whole["tokens"] + 1
    assert ledger["supervised_tokens"] == whole["supervised_tokens"]


def test_pieces_of_rows_that_a_mixture_leaves_out_are_not_counted(workshop: Workshop) -> None:
    first = workshop.jsonl([{"prompt": "1 2 3 4 " * 80, "completion": "A"}] * 4, "first.jsonl")
    second = workshop.jsonl([{"prompt": "Q", "completion": "A"}], "second.jsonl")
    sources = [
        {"name": path.name, "format": "jsonl", "weight": weight, "task": path.stem}
        for path, weight in ((first, 0.5), (second, 0.5))
    ]
    changes = {
        "recipe.data.train": sources,
        "machine.paths.data": {path.name: str(path) for path in (first, second)},
        "recipe.data.overlong": "split",
        "recipe.batch.max_seq_length": 128,
    }
    ledger = workshop.build(first, changes).ledger()
    assert (ledger["used"], ledger["dropped_mixture"], ledger["split_rows"]) == (2, 3, 1)
    assert ledger["dropped_pieces"] * 127 + 1 == ledger["dropped_tokens"] > 1
    alone = {**changes, "recipe.data.train": [{**sources[0], "weight": 1.0}]}
    assert workshop.build(first, alone).ledger()["dropped_pieces"] == 4 * ledger["dropped_pieces"]


ANSWERED = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


WITH_TOOLS = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize("more", [{}, {"tools": [{"name": "look"}]}], ids=["plain", "tools"])
def test_messages_after_the_last_answer_are_counted(workshop: Workshop, more: dict[str, Any]) -> None:
    changes = {**PLAIN, "recipe.template": {"kind": "custom", "source": WITH_TOOLS}}
    rows: list[dict[str, Any]] = [{"messages": ANSWERED, **more}]
    rows += [
        {"messages": [*ANSWERED, {"role": "user", "content": f"{number}?"}], **more} for number in range(20)
    ]
    path = workshop.jsonl(rows)
    cache = workshop.build(path, changes)
    assert (cache.ledger()["used"], cache.ledger()["unanswered"]) == (21, 20)
    assert all("?" not in text for text, _ in texts(workshop, cache))
    warned = [body for body in workshop.said if getattr(body, "code", None) == "messages-unanswered"]
    assert [body.message for body in warned] == [
        "20 rows end with messages that have no answer; these messages are left out. "
        "The first is train.jsonl:2"
    ]
    whole = workshop.build(path, {**changes, "recipe.data.train_on": "all"})
    assert whole.ledger()["unanswered"] == 0 and "0?" in texts(workshop, whole)[1][0]
    assert "messages-unanswered" not in {getattr(body, "code", None) for body in workshop.said}


# As templates of thinking models do, only the last answer is printed with its thoughts.
LAST_THOUGHT = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% if message.role == 'assistant' and not loop.last %}{{ message.content.split('</think>')[-1] }}"
    "{% else %}{{ message.content }}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def thinking(*thoughts: str) -> list[dict[str, str]]:
    """A dialogue whose answers have these thoughts."""
    turns: list[dict[str, str]] = []
    for place, thought in enumerate(thoughts):
        answer = f"<think>{thought}</think>answer {place}" if thought else f"answer {place}"
        turns += [{"role": "user", "content": f"{place}?"}, {"role": "assistant", "content": answer}]
    return turns


@pytest.mark.parametrize("train_on", ["completions", "assistant", "all"])
@pytest.mark.parametrize("more", [{}, {"tools": [{"name": "look"}]}], ids=["plain", "tools"])
def test_thoughts_that_the_template_leaves_out_are_counted(
    workshop: Workshop, more: dict[str, Any], train_on: str
) -> None:
    changes = {
        **PLAIN,
        "recipe.template": {"kind": "custom", "source": LAST_THOUGHT},
        "recipe.data.train_on": train_on,
    }
    whole = [thinking("only here"), thinking("", "here too"), thinking("", ""), thinking(" ", "last")]
    without = [thinking(f"thought {number}", "the last one") for number in range(3)]
    path = workshop.jsonl([{"messages": messages, **more} for messages in (*whole, *without)])
    cache = workshop.build(path, changes)
    assert (cache.ledger()["used"], cache.ledger()["thoughts_left_out"]) == (7, 3)
    warned = [body for body in workshop.said if getattr(body, "code", None) == "thoughts-left-out"]
    assert [body.message for body in warned] == [
        "3 rows have thoughts (<think>) in answers that the chat template leaves out: prompts and learned "
        "answers are without them. The first is train.jsonl:5"
    ]
    printed = {**changes, "recipe.template": {"kind": "custom", "source": WITH_TOOLS}}
    assert workshop.build(path, printed).ledger()["thoughts_left_out"] == 0
    assert "thoughts-left-out" not in {getattr(body, "code", None) for body in workshop.said}


@pytest.mark.parametrize("key", ["unanswered", "thoughts_left_out"])
def test_rows_that_a_mixture_leaves_out_are_not_counted(workshop: Workshop, key: str) -> None:
    messages = [*thinking("thought", "last"), {"role": "user", "content": "?"}]
    rows = [{"messages": messages}] * 4
    first, second = workshop.jsonl(rows, "first.jsonl"), workshop.jsonl(rows[:1], "second.jsonl")
    changes = {
        "recipe.template": {"kind": "custom", "source": LAST_THOUGHT},
        "recipe.data.train": [
            {"name": path.name, "format": "jsonl", "weight": 0.5, "task": path.stem}
            for path in (first, second)
        ],
        "machine.paths.data": {path.name: str(path) for path in (first, second)},
    }
    ledger = workshop.build(first, changes).ledger()
    assert (ledger["used"], ledger["dropped_mixture"], ledger[key]) == (2, 3, 2)


def test_a_mixture_takes_shares(workshop: Workshop) -> None:
    first = workshop.jsonl([{"text": f"first {i}"} for i in range(30)], "first.jsonl")
    second = workshop.jsonl([{"text": f"second {i}"} for i in range(100)], "second.jsonl")
    sources = [
        {"name": path.name, "format": "jsonl", "weight": weight, "task": path.stem}
        for path, weight in ((first, 0.75), (second, 0.25))
    ]
    changes = {
        **PLAIN,
        "recipe.data.train": sources,
        "machine.paths.data": {"first.jsonl": str(first), "second.jsonl": str(second)},
    }
    cache = workshop.build(first, changes)
    words = [text.split()[0] for text, _ in texts(workshop, cache)]
    assert (words.count("first"), words.count("second")) == (30, 10)
    assert cache.ledger()["dropped_mixture"] == 90
    whole = [{**source, "weight": 1.0} for source in sources]
    cache = workshop.build(first, {**changes, "recipe.data.train": whole})
    assert len(texts(workshop, cache)) == 130, "a mixture without weights"


def _two_tasks(workshop: Workshop, small: int, large: int, weight: float) -> tuple[Path, dict[str, Any]]:
    """The small task has this weight, and the strategy repeats its rows."""
    paths = [
        workshop.jsonl([{"text": f"{name} {i}"} for i in range(count)], f"{name}.jsonl")
        for name, count in (("small", small), ("large", large))
    ]
    sources = [
        {"name": path.name, "format": "jsonl", "weight": share, "task": path.stem}
        for path, share in zip(paths, (weight, 1.0 - weight), strict=True)
    ]
    return paths[0], {
        **PLAIN,
        "recipe.data.train": sources,
        "recipe.data.stopping_strategy": "all_exhausted",
        "machine.paths.data": {path.name: str(path) for path in paths},
    }


def test_rows_of_small_tasks_are_repeated(workshop: Workshop) -> None:
    first, changes = _two_tasks(workshop, 7, 100, 0.25)
    cache = workshop.build(first, changes)
    learned = Counter(text for text, _ in texts(workshop, cache))
    times = {name: [n for text, n in learned.items() if text.startswith(name)] for name in ("small", "large")}
    # 100 rows are three quarters of 133, so that 33 are of the small task: each row 4 or 5 times.
    assert times["large"] == [1] * 100
    assert (len(times["small"]), sum(times["small"]), set(times["small"])) == (7, 33, {4, 5})
    ledger = cache.ledger()
    assert (ledger["used"], ledger["repeated"], ledger["dropped_mixture"]) == (107, 26, 0)
    counts = {source.name: source.repeated for source in cache.description.sources}
    assert counts == {"small.jsonl": 26, "large.jsonl": 0}
    assert cache.description.splits["train"].documents == 133
    assert ledger["tokens"] == cache.description.splits["train"].tokens
    assert ledger["supervised_tokens"] == cache.description.splits["train"].supervised_tokens
    packed = workshop.build(first, {**changes, "recipe.batch.packing": True}).description.splits["train"]
    assert (packed.documents, packed.tokens) == (133, ledger["tokens"])
    fewer = workshop.build(first, {**changes, "recipe.data.stopping_strategy": "first_exhausted"})
    assert len(texts(workshop, fewer)) == 28 and fewer.key != cache.key


def test_held_out_rows_are_not_among_the_repeated(workshop: Workshop) -> None:
    first, changes = _two_tasks(workshop, 20, 100, 0.5)
    cache = workshop.build(first, {**changes, "recipe.data.validation_split": 0.25})
    assert cache.validation is not None
    held_out = {text for text, _ in texts(workshop, cache, "validation")}
    learned = Counter(text for text, _ in texts(workshop, cache))
    assert len(held_out) == 30 and not held_out & set(learned)
    small, large = (
        [n for text, n in learned.items() if text.startswith(name)] for name in ("small", "large")
    )
    assert set(large) == {1} and sum(small) == len(large) > len(small)
    assert cache.ledger()["repeated"] == sum(small) - len(small)


def test_a_task_of_one_row_keeps_it_where_rows_are_held_out(workshop: Workshop) -> None:
    first, changes = _two_tasks(workshop, 1, 40, 0.5)
    for seed in range(12):
        cache = workshop.build(first, {**changes, "recipe.data.validation_split": 0.5, "recipe.seed": seed})
        learned = [text for text, _ in texts(workshop, cache)]
        assert sum(text.startswith("small") for text in learned) * 2 == len(learned), seed


def test_weights_that_ask_for_endless_repeats_are_refused(workshop: Workshop) -> None:
    first, changes = _two_tasks(workshop, 1, 30, 0.99)
    with pytest.raises(BadInput, match=r"each of the 1 rows of small\.jsonl 2,970 times") as caught:
        workshop.build(first, changes)
    assert "stopping_strategy" in str(caught.value.hint)
    long = workshop.jsonl([{"text": "2 3 4 " * 500}], "small.jsonl")
    with pytest.raises(BadInput, match=r"small\.jsonl has no row left \(dropped overlong 1\), and none"):
        workshop.build(long, {**changes, "recipe.data.overlong": "drop"})


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_a_table_before_lines_has_its_share(workshop: Workshop, share: float) -> None:
    rows = [{"prompt": f"table {i}", "completion": "A"} for i in range(30)]
    first = workshop.folder / "first.parquet"
    pq.write_table(pa.Table.from_pylist(rows), first)
    second = workshop.jsonl(
        [{"prompt": f"line {i}", "completion": "A " * 9} for i in range(20)], "second.jsonl"
    )
    sources = [
        {"name": first.name, "format": "parquet", "weight": 1.0 - share, "task": "first"},
        {"name": second.name, "format": "jsonl", "weight": share, "task": "second"},
    ]
    paths = {path.name: str(path) for path in (first, second)}
    changes = {**PLAIN, "recipe.data.train": sources, "machine.paths.data": paths}
    cache = workshop.build(first, changes)
    counted = {source.name: source.used for source in cache.description.sources}
    assert counted == ({first.name: 20, second.name: 20} if share else {first.name: 30, second.name: 0})
    assert sum("line" in text for text, _ in texts(workshop, cache)) == counted[second.name]
    split = cache.description.splits["train"]
    ledger = cache.ledger()
    assert (ledger["tokens"], ledger["supervised_tokens"]) == (split.tokens, split.supervised_tokens)


def test_a_cut_row_without_a_share_is_not_counted_as_cut(workshop: Workshop) -> None:
    first = workshop.jsonl([{"text": "Q " * 900}] * 4, "first.jsonl")
    second = workshop.jsonl([{"text": "Q"}], "second.jsonl")
    sources = [
        {"name": path.name, "format": "jsonl", "weight": weight, "task": path.stem}
        for path, weight in ((first, 0.6), (second, 0.4))
    ]
    paths = {path.name: str(path) for path in (first, second)}
    for policy, counted in (("truncate", "truncated"), ("split", "split_rows")):
        changes = {"recipe.data.train": sources, "machine.paths.data": paths, "recipe.data.overlong": policy}
        ledger = workshop.build(first, {**PLAIN, **changes}).ledger()
        assert (ledger["used"], ledger["dropped_mixture"], ledger[counted]) == (3, 2, 2)


def pictures(workshop: Workshop) -> Path:
    """Two rows with a picture each, as `datasets` saves them."""
    rows = [
        {"prompt": "Q", "completion": "A", "img": {"bytes": b"\xff\xd8", "path": "cat.jpg"}},
        {"prompt": "Q", "completion": "B", "img": {"bytes": b"\xff\xd9", "path": "dog.jpg"}},
    ]
    path = workshop.folder / "pictures.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_bytes_that_no_row_is_read_from_are_an_unused_column(workshop: Workshop) -> None:
    path = pictures(workshop)
    for mapping in ({}, {"prompt": "prompt", "completion": "completion"}):
        cache = workshop.build(path, {**PLAIN, "recipe.data.field_mapping": mapping})
        assert [text for text, _ in texts(workshop, cache)] == [turn("Q", "A"), turn("Q", "B")]
        assert cache.description.sources[0].unused_fields == {"img": 2}
    part = {"prompt": "prompt", "completion": "img.path"}
    cache = workshop.build(path, {**PLAIN, "recipe.data.field_mapping": part})
    assert texts(workshop, cache)[1][0] == turn("Q", "dog.jpg")


def test_bytes_that_are_to_be_read_are_a_fault_without_a_command_for_texts(workshop: Workshop) -> None:
    path = pictures(workshop)
    for field in ("img", "img.bytes"):
        mapping = {"recipe.data.field_mapping": {"prompt": "prompt", "completion": field}}
        with pytest.raises(
            BadInput, match=r'row 1: the column "img": byte 1 is not UTF-8 \(2 rows'
        ) as caught:
            workshop.build(path, {**PLAIN, **mapping})
        assert "iconv" not in (caught.value.hint or "")


def test_an_unused_csv_column_may_be_in_another_encoding(workshop: Workshop) -> None:
    path = workshop.folder / "rows.csv"
    path.write_bytes("prompt,completion,note\nQ,A,été\n".encode("latin-1"))
    cache = workshop.build(path, PLAIN)
    assert texts(workshop, cache)[0][0] == turn("Q", "A")
    assert cache.description.sources[0].unused_fields == {"note": 1}


def test_typed_columns_are_read_as_text(workshop: Workshop) -> None:
    day = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    columns = {
        "prompt": pa.array(["Q"]).dictionary_encode(),
        "completion": pa.array([decimal.Decimal("1.50")]),
        "context": pa.array([day.date()]),
        "created": pa.array([day], pa.timestamp("us", "UTC")),
        "vector": pa.array([[0.5, 1.5]], pa.list_(pa.float32(), 2)),
        "facts": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "parts": pa.array([[{"day": day.date()}]], pa.list_(pa.struct([("day", pa.date32())]))),
    }
    path = workshop.folder / "typed.parquet"
    pq.write_table(pa.table(columns), path)
    cache = workshop.build(path, PLAIN)
    assert texts(workshop, cache)[0][0] == turn("Q\n\n2024-01-02", "1.50")
    unused = cache.description.sources[0].unused_fields
    assert set(unused) == {"created", "vector", "facts", "parts"}


def test_a_number_that_is_none_is_absent(workshop: Workshop) -> None:
    path = workshop.folder / "none.parquet"
    table = pa.table({"prompt": ["Q"], "completion": ["A"], "input": pa.array([float("nan")])})
    pq.write_table(table, path)
    assert texts(workshop, workshop.build(path, PLAIN))[0][0] == turn("Q", "A")


def test_two_columns_of_one_name_are_refused(workshop: Workshop) -> None:
    path = workshop.folder / "twice.csv"
    path.write_text("prompt,completion,completion\nQ,A,B\n")
    with pytest.raises(BadInput, match=r'two columns are named "completion"$') as refused:
        workshop.build(path, PLAIN)
    assert refused.value.hint == "Rename one of them."


ALONE: dict[str, tuple[Any, str]] = {
    "documents": ({"question": "Q", "answer": "A", "documents": [{"text": "one"}]}, turn("Q", "A")),
    "tools-unused": ({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}],
                      "parts": [{"x": 1}, {"x": 2}]}, turn("Q", "A")),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_an_object_that_asks_and_answers_is_one_row(workshop: Workshop, name: str, ending: str) -> None:
    row, expected = ALONE[name]
    path = workshop.folder / f"train.{ending}"
    path.write_text(json.dumps(row))
    assert [text for text, _ in texts(workshop, workshop.build(path, PLAIN))] == [expected]


def test_the_files_of_a_task_have_its_share_together(workshop: Workshop) -> None:
    counts = {"a": ("first", 10), "b": ("first", 20), "c": ("second", 60), "d": ("second", 40)}
    paths = {
        name: workshop.jsonl([{"text": f"{task} {name} {i}"} for i in range(count)], f"{name}.jsonl")
        for name, (task, count) in counts.items()
    }
    sources = [
        {"name": f"{name}.jsonl", "format": "jsonl", "weight": {"first": 0.75}.get(task, 0.25), "task": task}
        for name, (task, _) in counts.items()
    ]
    changes = {
        **PLAIN,
        "recipe.data.train": sources,
        "machine.paths.data": {path.name: str(path) for path in paths.values()},
    }
    cache = workshop.build(paths["a"], changes)
    words = [text.split()[:2] for text, _ in texts(workshop, cache)]
    tasks, files = [task for task, _ in words], [file for _, file in words]
    assert (tasks.count("first"), tasks.count("second")) == (30, 10), "75 and 25 of a hundred"
    assert files.count("c") and files.count("d"), "rows of every file"
    dropped = [source.dropped_mixture for source in cache.description.sources]
    assert dropped == [0, 0, 60 - files.count("c"), 40 - files.count("d")]
    # The same files and weights in other tasks are another mixture.
    alone = [{**source, "task": source["name"]} for source in sources]
    assert workshop.build(paths["a"], {**changes, "recipe.data.train": alone}).key != cache.key


def test_the_weights_of_a_mixture_leave_no_validation_row_out(workshop: Workshop) -> None:
    paths: dict[str, Path] = {}

    def source(name: str, rows: int, weight: float, task: str | None) -> dict[str, Any]:
        paths[name] = workshop.jsonl([{"text": f"{name} {i}"} for i in range(rows)], name)
        return {"name": name, "format": "jsonl", "weight": weight, "task": task}

    train = [source("a.jsonl", 30, 0.9, "a"), source("b.jsonl", 50, 0.1, "b")]
    validation = [
        source("a-held.jsonl", 12, 0.9, "a"),
        source("b-held.jsonl", 4, 0.1, "b"),
        source("held.jsonl", 30, 1.0, None),
    ]
    changes = {
        **PLAIN,
        "recipe.data.train": train,
        "recipe.data.validation": validation,
        "machine.paths.data": {name: str(path) for name, path in paths.items()},
    }
    cache = workshop.build(paths["a.jsonl"], changes)
    counts = cache.ledger("validation")
    assert (counts["read"], counts["used"], counts["dropped_mixture"]) == (46, 46, 0)
    assert cache.validation is not None and len(cache.validation) == 46
    # Shares of validation rows are not an input of the cache; those of training rows are.
    even = [{**held, "weight": 0.5} for held in validation]
    assert workshop.build(paths["a.jsonl"], {**changes, "recipe.data.validation": even}).key == cache.key


def test_separate_validation_data(workshop: Workshop) -> None:
    train, held_out = workshop.jsonl(ROWS), workshop.jsonl(ROWS[:2], "held_out.jsonl")
    changes = {
        **PLAIN,
        "recipe.data.validation": [{"name": held_out.name, "format": "jsonl", "weight": 1.0, "task": None}],
        # The file decides; a share is taken only where there is none.
        "recipe.data.validation_split": 0.5,
        "machine.paths.data": {train.name: str(train), held_out.name: str(held_out)},
    }
    cache = workshop.build(train, changes)
    assert cache.validation is not None
    assert (len(cache.train), len(cache.validation)) == (5, 2)
    assert cache.validation.row(1)[0].tolist() == cache.train.row(1)[0].tolist()
    assert {source.split: source.used for source in cache.description.sources} == {
        "train": 5,
        "validation": 2,
    }


def test_a_data_set_of_the_hub_by_name_and_split(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", workshop.folder / "hub")
    folder = workshop.folder / "owner"
    folder.mkdir()
    path = workshop.jsonl(ROWS[:3], "owner/test.jsonl")
    # A folder stands in for a name of the Hub: `datasets` loads either by the same call.
    name = f"{folder}::test"
    changes = {
        **PLAIN,
        "recipe.data.train": [{"name": name, "format": "huggingface", "weight": 1.0, "task": None}],
        "machine.paths.data": {},
    }
    cache = workshop.build(path, changes)
    assert [text for text, _ in texts(workshop, cache)] == [
        turn(row["prompt"], row["completion"]) for row in ROWS[:3]
    ]
    missing = {
        **changes,
        "recipe.data.train": [{**changes["recipe.data.train"][0], "name": "no/such::train"}],
    }
    # The library would take a folder here for it.
    monkeypatch.chdir(workshop.folder)
    Path("no/such").mkdir(parents=True)
    with pytest.raises(BadInput, match="The data set no/such of the Hub has the name of a folder here: /"):
        workshop.build(path, missing)
    Path("no/such").rmdir()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Missing, match="no/such::train is neither in the Hugging Face cache"):
        workshop.build(path, missing)
