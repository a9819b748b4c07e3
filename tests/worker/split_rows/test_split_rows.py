"""One file of rows in three: of any format, with copies on one side, and nothing lost."""

import csv
import errno
import json
import os
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from expert_worker._native import compare
from expert_worker.base.embedded import embedded_tokenizer
from expert_worker.errors import BadInput, ExpertError
from expert_worker.evaluate.authoring.write import SPLITS
from expert_worker.evaluate.rows import dotted
from expert_worker.pretokenize.template import renderer
from expert_worker.process.work_folder import create_work_folder
from expert_worker.split_rows.__main__ import main
from expert_worker.split_rows.answers import Answers
from expert_worker.split_rows.parts import Groups, assign
from expert_worker.split_rows.split import Request, Written, split

LABELS = ("refund", "shipping", "login", "billing")
THINGS = ("grinder", "lamp", "phone", "shirt", "book", "kettle", "chair")
FIELDS = {"prompt": "ticket", "completion": "category"}


def tickets(count: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [
        {
            "ticket": f"{draw.choice(THINGS)} {draw.randrange(10**6)} bought in {draw.choice(THINGS)} town "
            f"{draw.randrange(10**6)} by {draw.choice(THINGS)} {draw.randrange(10**6)}",
            "category": LABELS[at % 4 if at % 10 else 0],
            "customer": at % 40,
        }
        for at in range(count)
    ]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def divided(folder: Path, *data: Path, **options: Any) -> tuple[Written, dict[str, list[dict[str, Any]]]]:
    output = folder / "out"
    written = split(Request(data, output, **{"field_mapping": FIELDS, **options}))
    found = {name: output / f"{name}.jsonl" for name in SPLITS}
    read = {
        name: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for name, path in found.items()
    }
    assert sorted(path.name for path in output.iterdir()) == sorted(
        path.name for path in found.values() if path.exists()
    )
    assert {name: len(rows) for name, rows in read.items()} == written.rows
    return written, read


def test_every_row_is_in_one_file_in_its_order_and_each_label_has_its_share(tmp_path: Path) -> None:
    rows = tickets(400)
    written, found = divided(tmp_path, lines(tmp_path / "t.jsonl", rows))
    assert written.rows == {"train": 320, "validation": 40, "test": 40}
    places = {json.dumps(row): at for at, row in enumerate(rows)}
    for part in found.values():
        assert (order := [places.pop(json.dumps(row)) for row in part]) == sorted(order)
    assert not places
    whole = Counter(row["category"] for row in rows)
    for name in ("validation", "test"):
        counts = Counter(row["category"] for row in found[name])
        assert all(abs(counts[label] - whole[label] / 10) <= 1 for label in LABELS), counts
    assert (written.scorer, written.labels) == ("classification", tuple(sorted(LABELS)))


def test_what_a_killed_division_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    killed = create_work_folder(".split-", tmp_path / "out")
    assert killed._handle is not None
    os.close(killed._handle)
    # Looks at what is in the folder.
    divided(tmp_path, lines(tmp_path / "t.jsonl", tickets(40)))


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_label_is_tested_in_place_of_a_row_of_another(seed: int) -> None:
    answers: list[str | None] = ["ok"] * 190 + ["fraud"] * 4 + ["lost"] * 3 + [None] * 3
    random.Random(seed).shuffle(answers)
    parts = assign(Groups(200), answers, (20, 20), seed)
    tested = Counter(answer for answer, part in zip(answers, parts, strict=True) if part == 2)
    assert tested["fraud"] >= 1 and tested["ok"] > 10
    assert parts.count(2) == 20 and parts.count(1) == 20
    assert "fraud" in [answer for answer, part in zip(answers, parts, strict=True) if part == 0]


def test_the_only_row_of_a_label_stays_in_the_test_rows() -> None:
    """With more labels than test rows, none is taken from one for another."""
    answers = [f"label {at % 50}" for at in range(200)]
    parts = assign(Groups(200), answers, (20, 20), 1)
    tested = [answer for answer, part in zip(answers, parts, strict=True) if part == 2]
    assert len(tested) == len(set(tested)) == 20


def test_the_same_seed_divides_alike_and_another_one_does_not(tmp_path: Path) -> None:
    data = lines(tmp_path / "t.jsonl", tickets(100))
    for name in ("one", "two", "other"):
        (tmp_path / name).mkdir()
    one = divided(tmp_path / "one", data)[1]
    assert divided(tmp_path / "two", data)[1] == one
    assert divided(tmp_path / "other", data, seed=2)[1] != one


def test_short_answers_that_all_differ_are_divided_by_the_seed(tmp_path: Path) -> None:
    rows = [{**row, "category": f"ticket {at}"} for at, row in enumerate(tickets(200))]
    data = lines(tmp_path / "t.jsonl", rows)
    tested = []
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        _, found = divided(tmp_path / str(seed), data, seed=seed)
        tested.append([int(row["category"].split()[1]) for row in found["test"]])
        assert len({later - place for place, later in pairwise(tested[-1])}) > 2, "not each tenth row"
    assert tested[0] != tested[1] and len(tested[0]) == len(tested[1]) == 20


def test_no_row_of_one_file_copies_a_row_of_another(tmp_path: Path) -> None:
    rows = tickets(200)
    # Some in three forms: as it is, in capital letters, and with a further word.
    rows += [{**row, "ticket": row["ticket"].upper()} for row in rows[:60]]
    rows += [{**row, "ticket": row["ticket"] + " Thanks"} for row in rows[30:90]]
    written, found = divided(tmp_path, lines(tmp_path / "t.jsonl", rows))
    assert written.exact + written.near == 120
    sources = [[(name, str(tmp_path / "out" / f"{name}.jsonl"))] for name in SPLITS]
    again = compare(renderer("", {}, FIELDS), sources, 1, lambda *_: True)
    assert again.rows() == [len(found[name]) for name in SPLITS]
    assert again.across() == []
    # Held out at random, copies would be on both sides.
    assert 15 <= written.rows["validation"] <= 35 and 15 <= written.rows["test"] <= 35


@pytest.mark.parametrize("flag", [{"weight": 0}, {"train": False}, {"loss": False}])
def test_copies_among_dialogues_with_answers_that_are_not_learned_stay_together(
    tmp_path: Path, flag: dict[str, Any]
) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi", **flag},
                {"role": "user", "content": row["ticket"]},
                {"role": "assistant", "content": row["category"]},
            ]
        }
        for row in tickets(60)
    ]
    written, found = divided(tmp_path, lines(tmp_path / "t.jsonl", rows * 2), field_mapping={})
    assert written.exact == 60
    asked = [{row["messages"][2]["content"] for row in found[name]} for name in SPLITS]
    assert sum(map(len, asked)) == 60


def test_copies_among_texts_that_are_dialogues_stay_together(tmp_path: Path) -> None:
    rows = [
        {"text": f"### Human: {row['ticket']}\n### Assistant: {row['category']}", "label": 1}
        for row in tickets(60)
    ]
    written, found = divided(tmp_path, lines(tmp_path / "t.jsonl", rows * 2), field_mapping={})
    assert written.exact == 60
    assert sum(len({row["text"] for row in rows}) for rows in found.values()) == 60


def test_rows_that_resemble_each_other_in_a_chain_stay_together(tmp_path: Path) -> None:
    """The ends of a chain do not copy each other, and each row is of the next."""
    rows = tickets(200)
    for row in rows[:40]:
        words = row["ticket"].split()
        for at in range(5):
            words = [*words, f"further{at}"]
            rows.append({**row, "ticket": " ".join(words)})
    random.Random(2).shuffle(rows)
    written, _ = divided(tmp_path, lines(tmp_path / "t.jsonl", rows))
    sources = [[(name, str(tmp_path / "out" / f"{name}.jsonl"))] for name in SPLITS]
    assert compare(renderer("", {}, FIELDS), sources, 1, lambda *_: True).across() == []
    assert 20 <= written.rows["validation"] <= 50 and 20 <= written.rows["test"] <= 50


def test_rows_of_one_customer_stay_together(tmp_path: Path) -> None:
    _, found = divided(tmp_path, lines(tmp_path / "t.jsonl", tickets(400)), by="customer")
    customers = [{row["customer"] for row in found[name]} for name in SPLITS]
    assert sum(map(len, customers)) == 40 and all(customers)


def test_columns_whose_names_have_dots_are_found(tmp_path: Path) -> None:
    rows = tickets(200)
    for row in rows:
        row["customer.id"], row["text.en"] = row.pop("customer"), row.pop("ticket")
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    mapping = {"prompt": "text.en", "completion": "category"}
    _, found = divided(tmp_path, path, field_mapping=mapping, by="customer.id")
    customers = [{row["customer.id"] for row in found[name]} for name in SPLITS]
    assert sum(map(len, customers)) == 40 and all(customers)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"a": {"b": {"c": 1}}}, 1),
        ({"a": {"b.c": 2, "b": {"c": 1}}}, 2),
        ({"a.b.c": None, "a": {"b": {"c": 1}}}, None),
        ({"a": {"b": 1}}, None),
        ({"a": 1}, None),
    ],
)
def test_a_path_is_read_as_in_training(row: dict[str, Any], found: Any) -> None:
    assert dotted(row, "a.b.c") == found


def test_tables_and_several_files_are_read(tmp_path: Path) -> None:
    rows = tickets(60)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows[:30])
    other = lines(tmp_path / "t.jsonl", rows[30:])
    written, found = divided(tmp_path, tmp_path / "t.csv", other, validation=0.2, test=15)
    assert (written.rows["validation"], written.rows["test"]) == (12, 15)
    read = sorted(row["ticket"] for part in found.values() for row in part)
    assert read == sorted(row["ticket"] for row in rows)


def test_bytes_of_a_column_that_is_not_read_are_left_out_and_counted(tmp_path: Path) -> None:
    rows, path = tickets(40), tmp_path / "t.parquet"
    for place, row in enumerate(rows):
        row["photo"] = {"name": "x", "data": b"\xff\xd8"} if place < 30 else {"name": "x", "data": b"text"}
    parquet.write_table(pa.Table.from_pylist(rows), path)
    written, found = divided(tmp_path, path)
    assert written.left_out == {"photo": 30}
    divided_rows = [row for part in found.values() for row in part]
    assert sum("photo" in row for row in divided_rows) == 10
    assert all(row["ticket"] and row["category"] for row in divided_rows)
    assert "__broken__" not in "".join(file.read_text() for file in (tmp_path / "out").iterdir())
    with pytest.raises(BadInput, match="it has no 'photo'"):
        split(Request((path,), tmp_path / "other", by="photo", field_mapping=FIELDS))


def test_texts_without_questions_get_no_test_file(tmp_path: Path) -> None:
    rows = [{"text": f"Chapter {at}: {row['ticket']}"} for at, row in enumerate(tickets(50))]
    written, _ = divided(tmp_path, lines(tmp_path / "t.jsonl", rows), field_mapping={})
    assert (written.rows["test"], written.scorer) == (0, None)


def test_broken_rows_are_named_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    data = lines(tmp_path / "t.jsonl", tickets(30))
    data.write_text(
        data.read_text() + 'no\n{"a": 1}\n{"a": 2}\n' + '{"ticket": "\\ud800", "category": "x"}\n'
    )
    arguments = [str(data), "--output", str(tmp_path / "out"), "--map", "prompt=ticket"]
    assert main([*arguments, "--map", "completion=category"]) == 2
    said = capsys.readouterr().err
    assert "4 rows are broken" in said and f"{data}:31: not valid JSON" in said
    unmapped = [*arguments[:-1], "prompt=Ticket", "--map", "completion=category"]
    assert main(unmapped) == 2
    assert 'its fields are "ticket", "category"' in capsys.readouterr().err
    assert f"{data}:32: " in said and "(2 rows: 32, 33)" in said and f"{data}:34: " in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (5, {}, "5 rows are too few"),
        (30, {"validation": 20, "test": 10}, "cannot have 20 validation and 10 test rows"),
        (30, {"by": "shop"}, "it has no 'shop'"),
        (30, {"field_mapping": {**FIELDS, "completion": "answer"}}, "answer"),
        (40, {"by": "same"}, "too many rows have the same same"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    rows: int, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    data = lines(tmp_path / "t.jsonl", [{**row, "same": 1} for row in tickets(rows)])
    with pytest.raises(BadInput, match=said) as raised:
        split(Request((data,), tmp_path / "out", **{"field_mapping": FIELDS, **options}))
    assert raised.value.hint
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path: Path) -> None:
    folder, text = tmp_path / "rows", tmp_path / "rows.txt"
    folder.mkdir()
    text.write_text("x")
    for data, said in (
        (tmp_path / "no.csv", "no.csv is not there"),
        (folder, "rows is a folder"),
        (text, "The ending of rows.txt does not say its format"),
    ):
        with pytest.raises(BadInput, match=said) as raised:
            split(Request((data,), tmp_path / "out"))
        assert raised.value.hint and not (tmp_path / "out").exists()


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    data = lines(tmp_path / "t.jsonl", tickets(30))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "test.jsonl").write_text("mine")
    with pytest.raises(BadInput, match=r"test\.jsonl is there already"):
        split(Request((data,), tmp_path / "out", field_mapping=FIELDS))
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("answers", "scorer"),
    [
        ([f'{{"id": {at}}}' for at in range(40)], "json"),
        (["yes", "no"] * 20, "classification"),
        ([f"{at}.50 EUR" for at in range(40)], "exact"),
        (["yes"] * 40, "exact"),
        ([f"Dear customer {at}, we are sorry to hear about it. " * 3 for at in range(40)], "chrf"),
        ([*(f'{{"id": {at}}}' for at in range(40)), "I cannot say that in a line of JSON, so sorry"], "chrf"),
    ],
)
def test_the_scorer_is_chosen_by_the_answers(answers: list[str], scorer: str) -> None:
    found = Answers()
    for answer in answers:
        found.add(answer)
    assert found.scorer() == scorer
    assert found.is_free_text() == (scorer == "chrf")


def test_lengths_are_counted_and_not_guessed_from_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**row, "category": f"2024-10-{at % 28 + 1:02}T{at:06}Z"} for at, row in enumerate(tickets(40))]
    rows[7]["category"] += " is far longer than all other answers are, but of words"
    data = lines(tmp_path / "t.jsonl", rows)

    def lengths(name: str, **options: Any) -> tuple[int, int]:
        (tmp_path / name).mkdir()
        written, _ = divided(tmp_path / name, data, **options)
        return written.answer_tokens, written.row_tokens

    tokenizer = embedded_tokenizer()
    dialogues = [
        [{"role": "user", "content": row["ticket"]}, {"role": "assistant", "content": row["category"]}]
        for row in rows
    ]
    answers = [len(tokenizer.encode(row["category"])) + 1 for row in rows]
    whole = [len(tokenizer.apply_chat_template(it, return_dict=False)) for it in dialogues]
    assert lengths("all", lengths=True) == (max(answers), max(whole))
    assert lengths("nobody asked") == (0, 0)
    # Further rows are a sample, and of the answers the longest.
    monkeypatch.setattr("expert_worker.split_rows.split._MEASURED", 5)
    assert (some := lengths("some", lengths=True))[0] == max(answers) and some[1] in whole
    monkeypatch.setattr("expert_worker.base.embedded._PACKAGE", "not_installed")
    assert lengths("no base", lengths=True)[0] == max(len(row["category"]) for row in rows) + 1


def test_texts_are_measured_without_a_template(tmp_path: Path) -> None:
    rows = [{"text": f"Chapter {at}: {row['ticket']}"} for at, row in enumerate(tickets(50))]
    data = lines(tmp_path / "t.jsonl", rows)
    written, _ = divided(tmp_path, data, field_mapping={}, lengths=True)
    tokenizer = embedded_tokenizer()
    counts = [len(tokenizer.encode(row["text"])) for row in rows]
    assert written.answer_tokens == 0 and max(counts) <= written.row_tokens < max(counts) + 10


def test_groups_are_never_torn_apart() -> None:
    draw = random.Random(3)
    groups = Groups(500)
    pairs = [(draw.randrange(500), draw.randrange(500)) for _ in range(200)]
    groups.join(pairs)
    parts = assign(groups, [None] * 500, (50, 50), 1)
    assert all(parts[one] == parts[other] for one, other in pairs)
    assert set(parts) == {0, 1, 2}


def test_a_file_that_may_not_be_read_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "completion": "b"}\n')

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(rows))

    monkeypatch.setattr("expert_worker.split_rows.split._split", refuse)
    # Whoever runs the test as root may read everything.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadInput) as refused:
        split(Request((rows,), tmp_path / "out"))
    assert refused.value.message == f"Cannot read {rows}: Permission denied"
    assert refused.value.hint == "Make it readable for your user."


def test_a_folder_that_cannot_be_written_is_named_before_the_reason(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    (tmp_path / "file").write_text("")
    with pytest.raises(ExpertError) as refused:
        split(Request((tmp_path / "rows.jsonl",), tmp_path / "file" / "out"))
    assert refused.value.message == f"Cannot write the rows: {tmp_path / 'file' / 'out'}: Not a directory"
    # `init` names the folder with --parent, and `datasets split` with --output.
    assert refused.value.hint == "Choose another folder."
