"""expert-sql's questions: many worlds, many wordings, and no table of one split in another."""

import importlib.util
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.authoring.rows import answer_of, within_tokens
from expert_worker.evaluate.authoring.sql import words
from expert_worker.evaluate.authoring.sql.skeleton import KEYWORDS

EXPERT = Path(__file__).resolve().parents[2] / "experts" / "expert-sql"
LONGEST = 1400
SPLITS = ("train", "validation", "test")
SIMPLE = tuple(f"simple/{split}" for split in SPLITS)
# What people ask most often.
COMMON = (
    "list", "columns", "with_columns", "star", "count", "average", "total", "maximum", "minimum", "top",
    "best", "ordered", "distinct", "lookup", "group_count", "group_value", "group_top", "join_list",
    "children_of",
)  # fmt: skip


@cache
def rows(split: str) -> list[dict[str, Any]]:
    text = (EXPERT / "datasets" / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def module(name: str) -> Any:
    """A module of this expert's generator: each expert has a package of that name."""
    package = "expert_sql_generator"
    if package not in sys.modules:
        folder = EXPERT / "generator"
        spec = importlib.util.spec_from_file_location(
            package, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec and spec.loader
        sys.modules[package] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[package])
    return importlib.import_module(f"{package}.{name}")


def everyday(split: str) -> list[dict[str, Any]]:
    return [row for row in rows(split) if row["tags"][0] != "literal"]


def by_generator(split: str) -> list[dict[str, Any]]:
    """Rows that are not written by hand."""
    return [row for row in everyday(split) if row["tags"] != ["written"]]


def turns(split: str, role: str, of: Callable[[str], list[dict[str, Any]]] = rows) -> list[str]:
    return [
        str(message["content"]) for row in of(split) for message in row["messages"] if message["role"] == role
    ]


def created(split: str) -> set[str]:
    """The names of all tables shown, without their style."""
    found = (re.findall(r"create table (\"[^\"]+\"|\w+)", text, re.I) for text in turns(split, "user"))
    return {re.sub(r"[\W_]", "", name).lower() for names in found for name in names}


def asked(split: str) -> list[str]:
    return [text.splitlines()[-1] for text in turns(split, "user", by_generator)]


def test_there_are_many_worlds_of_one_to_four_tables() -> None:
    worlds = module("worlds").worlds
    assert len(worlds("train")) >= 150
    assert len(worlds("validation")) >= 10 and len(worlds("test")) >= 10
    sizes = Counter(len(world) for split in SPLITS for world in worlds(split))
    assert {1, 2, 3} <= set(sizes) <= {1, 2, 3, 4}


def test_no_table_of_one_split_is_shown_in_another() -> None:
    tables = {split: created(split) | created(f"simple/{split}") for split in SPLITS}
    assert len(tables["train"]) > 300
    for split, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not tables[split] & tables[other]


@pytest.mark.parametrize("split", SIMPLE)
def test_simple_questions_are_about_one_table(split: str) -> None:
    found = rows(split)
    assert len(found) >= 60
    assert {row["level"] for row in found} == {1}
    for row in found:
        shown, *asked = (message["content"] for message in row["messages"] if message["role"] == "user")
        assert len(re.findall("create table", shown, re.I)) == 1
        assert not any(re.search("create table", text, re.I) for text in asked)
    assert not any(re.search(r"JOIN|GROUP BY|\(SELECT", answer) for answer in turns(split, "assistant"))


def test_simple_questions_are_of_many_kinds() -> None:
    tags = Counter(tag for row in rows("simple/test") for tag in row["tags"])
    assert len(tags) >= 12
    assert set(tags) <= {tag for row in rows("simple/train") for tag in row["tags"]}


def test_simple_questions_are_made_again_with_the_same_bytes(generated: Callable[[str], Any]) -> None:
    made = generated("expert-sql").folder
    for split in SIMPLE:
        again = (made / f"{split}.jsonl").read_bytes()
        assert again.count(b"\n") >= 10
        assert (EXPERT / "datasets" / f"{split}.jsonl").read_bytes().startswith(again)


def test_common_intents_have_many_wordings() -> None:
    found = words.wordings()
    assert all(len(found[intent]) >= 10 for intent in COMMON), {it: len(found[it]) for it in COMMON}
    assert sum(map(len, found.values())) > 500
    assert all(len(set(wordings)) == len(wordings) for wordings in found.values())


def test_some_wordings_are_never_trained() -> None:
    wordings = [wording for found in words.wordings().values() for wording in found]
    share = sum(map(words.is_held_out, wordings)) / len(wordings)
    assert 0.05 < share < 0.2


_KNOWN_TEXT = """
np s pred who_pred p one plural nm nm1 cols col1 n x xs y sup sup_who most most_who way other_way
way_who from_to ends direction falling how v verb yes no test word day k ks f a_f a_x a_p w d np_who pone
pplural pnm cnm cone prep prep2 pp gone mplural left_np right_np
"""


def test_every_wording_has_words_that_the_generator_knows() -> None:
    known = set(_KNOWN_TEXT.split())
    for wordings in words.wordings().values():
        for wording in wordings:
            assert words.fields(wording) <= known, wording


def test_questions_look_typed() -> None:
    texts = asked("train")
    share = {
        "small letters": sum(text[0].islower() for text in texts) / len(texts),
        "question mark": sum(text.endswith("?") for text in texts) / len(texts),
        "polite": sum(
            bool(re.search(r"\b(please|pls|thanks|thx|could you|can you)\b", text, re.I)) for text in texts
        )
        / len(texts),
        "short": sum(len(text.split()) <= 6 for text in texts) / len(texts),
    }
    assert all(value > 0.08 for value in share.values()), share
    openings = Counter(" ".join(text.lower().split()[:2]) for text in texts)
    assert len(openings) > 500
    assert openings.most_common(1)[0][1] < 0.1 * len(texts)


def test_columns_are_often_called_by_other_words() -> None:
    """At least a third of the answers need a name that does not stand in the question."""
    other = 0
    for text, answer in zip(asked("train"), turns("train", "assistant", by_generator), strict=True):
        question = re.sub(r"\W", "", text).lower()
        names = re.findall(r"(?<![\w'])[A-Za-z_]\w*(?![\w(])", re.sub(r"'[^']*'", "", answer))
        columns = {name.replace("_", "").lower() for name in names if name.lower() not in KEYWORDS}
        other += any(column.rstrip("s") not in question for column in columns)
    assert other > len(asked("train")) / 3


def test_most_training_rows_ask_several_questions_on_the_same_tables() -> None:
    counts = Counter(len(row["messages"]) // 2 for row in by_generator("train"))
    assert sum(count for number, count in counts.items() if number >= 3) > 0.5 * counts.total()
    assert 0.15 < counts[1] / counts.total() < 0.5
    assert max(counts) <= 7
    assert {len(row["messages"]) for split in ("validation", "test") for row in rows(split)} == {3}
    manifest = json.loads((EXPERT / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["training"]["dataset"]["train_on"] == "assistant"


def test_no_hard_answer_of_a_held_out_split_is_trained_under_other_names() -> None:
    build = module("build")
    trained = {build.skeleton(answer) for answer in turns("train", "assistant")}
    for split in ("validation", "test"):
        hard = {build.skeleton(answer_of(row)) for row in rows(split) if not build.by_name(row)}
        assert len(hard) >= 10
        assert not hard & trained


@pytest.mark.parametrize("split", ["validation", "test"])
def test_easy_questions_are_the_most(split: str) -> None:
    found = rows(split)
    levels = Counter(row["level"] for row in found)
    assert 0.45 < levels[1] / len(found) < 0.6
    assert 0.25 < levels[2] / len(found) < 0.5
    assert levels[4] > 0


# What people ask every day, and the least share of the training answers that shows it.
EVERYDAY = {
    "missing values": (r" IS NULL", 0.04),
    "an aggregate with a condition": (r"SELECT (COUNT|SUM|AVG|MIN|MAX)\([^()]*\) FROM .* WHERE ", 0.15),
    "no duplicates": (r"\bDISTINCT ", 0.05),
    "two tables": (r" JOIN ", 0.14),
    "groups of another table": (r" JOIN .* GROUP BY ", 0.08),
    "several columns": (r"SELECT [^(),]+, [^()]+ FROM ", 0.12),
    "true or false": (r" = [01]\b", 0.04),
    "dates": (r"'\d{4}(-\d\d)*'", 0.04),
}
RARE = re.compile(r"\bOVER \(|\bWITH |\bCASE |\b(UNION|INTERSECT|EXCEPT)\b|julianday|COALESCE")


@pytest.mark.parametrize("kind", EVERYDAY)
def test_everyday_kinds_are_often_trained(kind: str) -> None:
    form, least = EVERYDAY[kind]
    answers = turns("train", "assistant", by_generator)
    assert sum(bool(re.search(form, answer)) for answer in answers) / len(answers) > least


def test_rare_statements_are_few() -> None:
    answers = turns("train", "assistant", by_generator)
    assert 0 < sum(bool(RARE.search(answer)) for answer in answers) / len(answers) < 0.03


def test_tables_are_often_shown_over_several_lines_with_their_references() -> None:
    shown, generated = (
        [str(row["messages"][1]["content"]) for row in found]
        for found in (everyday("train"), by_generator("train"))
    )
    assert 0.3 < sum("(\n" in text for text in shown) / len(shown) < 0.8
    assert 0.3 < sum("(\n" in text for text in generated) / len(generated) < 0.7
    several = [text for text in shown if len(re.findall("create table", text, re.I)) > 1]
    assert sum("references" in text.lower() for text in several) / len(several) > 0.4


def test_answers_write_names_as_the_statements_do() -> None:
    """Where all names stand in quotes, the answers have them, too."""
    for row in rows("train"):
        shown = str(row["messages"][1]["content"])
        tables = re.findall(r'create table ("[^"]+"|\w+)', shown, re.I)
        for message in row["messages"]:
            if message["role"] == "assistant":
                used = re.findall(r'\b(?:FROM|JOIN) ("[^"]+"|\w+)', message["content"])
                assert set(used) - {"sums", "ranked"} <= set(tables)


def test_most_rows_show_several_tables_and_most_questions_are_about_one() -> None:
    shown, generated = (
        [len(re.findall("create table", str(row["messages"][1]["content"]), re.I)) for row in found]
        for found in (everyday("train"), by_generator("train"))
    )
    for tables, least in ((shown, 0.03), (generated, 0.05)):
        counts = Counter(tables)
        assert set(counts) == {1, 2, 3, 4}
        assert all(least < count / len(tables) < 0.5 for count in counts.values())
    of_several = [
        message["content"]
        for row, count in zip(everyday("train"), shown, strict=True)
        for message in row["messages"]
        if message["role"] == "assistant" and count > 1
    ]
    joined = sum(" JOIN " in answer or "(SELECT" in answer for answer in of_several)
    assert 0.1 < joined / len(of_several) < 0.35


@pytest.mark.parametrize("split", SPLITS)
def test_prompts_are_as_short_as_those_of_people(split: str) -> None:
    lengths = sorted(len(str(row["messages"][1]["content"])) for row in rows(split))
    assert lengths[len(lengths) // 2] < 420
    assert max(sum(len(it["content"]) for it in row["messages"]) for row in rows(split)) <= LONGEST


def test_every_training_row_fits_into_the_tokens_of_the_embedded_base(embedded_length: int) -> None:
    fits = within_tokens(embedded_length)
    assert all(fits(row["messages"]) for row in rows("train"))
    shorter = within_tokens(480)
    assert not all(shorter(row["messages"]) for row in rows("train"))
