"""The router of a shelf's files: what it reads, how it is kept, and what it says."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from routing.routed_shelf import routed_expert, shelf_of, written_expert

from expert_worker.errors import BadInput
from expert_worker.routing.__main__ import main
from expert_worker.routing.models import RouteRequest, Shelf
from expert_worker.routing.router import everyday_prompts
from expert_worker.routing.shelf import open_router

EXPERTS = Path(__file__).parents[3] / "experts"
SQL = [f"CREATE TABLE t{n} (id INT, price INT);\nShow the price of t{n} above {n}." for n in range(30)]
POEMS = [
    f"Write a poem of {n} lines about the {what}." for n in range(4, 12) for what in ("sea", "moon", "rain")
]


def messages(prompt: str) -> dict[str, object]:
    turns = [("system", "Answer briefly."), ("user", prompt), ("assistant", "yes")]
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


@pytest.fixture
def two(tmp_path) -> Shelf:
    sql = written_expert(tmp_path, "sql", [messages(prompt) for prompt in SQL], [messages(SQL[0])])
    poems = written_expert(tmp_path, "poems", [{"instruction": prompt, "output": "..."} for prompt in POEMS])
    return shelf_of(tmp_path, sql, poems)


def test_it_is_learnt_once_and_measured(two):
    first = open_router(two)
    assert first.learnt
    assert not first.warnings
    assert [(it.name, it.rows, it.right) for it in first.record.experts] == [("sql", 1, 1), ("poems", 0, 0)]
    assert first.record.none.rows == 100
    assert first.record.none.right >= 90
    second = open_router(two)
    assert not second.learnt
    assert second.record == first.record
    assert second.router.route(SQL[0]) == first.router.route(SQL[0])


@pytest.mark.parametrize("harm", ["cut", "other experts", "no record"])
def test_a_file_that_does_not_fit_is_learnt_again(two, harm):
    path, opened = Path(two.file), open_router(two)
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    elif harm == "no record":
        replace(opened.router, notes={}).save(path)
    else:
        open_router(Shelf(experts=two.experts[:1], file=two.file))
    assert open_router(two).learnt
    assert not open_router(two).learnt


def test_rows_that_cannot_be_read_are_left_out_and_system_messages_are_not_read(tmp_path):
    rows = [messages(prompt) for prompt in SQL]
    odd = ["not json\n", {"messages": []}, {"other": 1}, {"prompt": " ", "completion": "x"}]
    clean = open_router(shelf_of(tmp_path / "a", written_expert(tmp_path, "sql", rows))).router
    with_odd = open_router(shelf_of(tmp_path / "b", written_expert(tmp_path, "sql", [*rows, *odd]))).router
    no_system = [{"prompt": prompt, "completion": "yes"} for prompt in SQL]
    plain = open_router(shelf_of(tmp_path / "c", written_expert(tmp_path, "sql", no_system))).router
    for prompt in (SQL[1], "hello", "CREATE TABLE x"):
        assert clean.route(prompt) == with_odd.route(prompt) == plain.route(prompt)


def test_an_expert_without_a_readable_prompt_is_named(tmp_path):
    empty = written_expert(tmp_path, "empty", [{"text": "only text"}])
    with pytest.raises(BadInput, match=r"empty has no row with a prompt in train\.jsonl"):
        open_router(shelf_of(tmp_path, empty))


def test_experts_with_the_same_rows_are_warned_of(tmp_path):
    rows = [messages(prompt) for prompt in SQL]
    same = shelf_of(
        tmp_path, written_expert(tmp_path, "one", rows), written_expert(tmp_path, "two", rows[:20])
    )
    for _ in range(2):
        (warning,) = open_router(same).warnings
        assert warning.startswith("one and two have 100% of their prompts in common")


def test_an_expert_that_gets_few_of_its_rows_is_warned_of(tmp_path):
    everyday = [{"prompt": prompt, "completion": "..."} for prompt in everyday_prompts("train")]
    general = written_expert(tmp_path, "general", everyday[::2], everyday[1::2])
    sql = written_expert(tmp_path, "sql", [messages(prompt) for prompt in SQL])
    (warning,) = open_router(shelf_of(tmp_path, general, sql)).warnings
    assert warning.startswith("the router sends only ")
    assert "test rows of general to it" in warning


def test_a_home_that_is_a_file_is_a_warning(two):
    Path(two.file).parent.write_text("a file")
    (warning,) = open_router(two).warnings
    assert "cannot be kept" in warning


def test_old_routers_are_removed(two):
    folder = Path(two.file).parent
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.safetensors").write_bytes(b"")
        os.utime(folder / f"{number}.safetensors", (number, number))
    open_router(two)
    left = {path.name for path in folder.iterdir()}
    assert len(left) == 16
    assert {"router.safetensors", "29.safetensors"} <= left


def test_the_command_answers_in_json(two, tmp_path, capsys):
    request = RouteRequest(shelf=two, prompts=(SQL[0], "What is the capital of Norway?"))
    path = tmp_path / "request.json"
    path.write_text(request.model_dump_json())
    assert main([str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [route["expert"] for route in found["routes"]] == ["sql", None]
    assert found["learnt"]


def shipped(folder: Path) -> Shelf:
    splits = ("train", "test")
    experts = (
        routed_expert(it.name, {split: it / "datasets" / f"{split}.jsonl" for split in splits})
        for it in sorted(EXPERTS.iterdir())
    )
    return shelf_of(folder, *experts)


def test_the_shipped_experts_get_their_own_rows_and_their_people(tmp_path):
    opened = open_router(shipped(tmp_path))
    for share in opened.record.experts:
        assert share.rows == 400
        assert share.right >= 0.97 * share.rows, share.name
    assert opened.record.none.right >= 90
    for folder in sorted(EXPERTS.iterdir()):
        lines = (folder / "datasets" / "people.jsonl").read_text().splitlines()
        prompts = [json.loads(line)["messages"] for line in lines]
        asked = ["\n".join(turn["content"] for turn in turns if turn["role"] == "user") for turns in prompts]
        right = sum(opened.router.route(prompt).expert == folder.name for prompt in asked)
        assert right >= 0.9 * len(asked), folder.name
