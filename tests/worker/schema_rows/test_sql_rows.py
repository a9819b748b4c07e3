"""Rows made from a schema alone: executed, reproducible, held apart."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.scorers.sql import SqlScorer, database, query
from expert_worker.schema_rows import make
from expert_worker.schema_rows.__main__ import main
from expert_worker.schema_rows.columns import spoken_table
from expert_worker.schema_rows.copies import without_copies
from expert_worker.schema_rows.ddl import read_ddl
from expert_worker.schema_rows.scenes import Database
from expert_worker.schema_rows.sql_rows import SqlRows, contradicts_itself
from expert_worker.schema_rows.through import junctions
from expert_worker.schema_rows.turns import LONGEST
from expert_worker.schema_rows.vocabulary import Synonyms, words_of

DDL = Path(__file__).parent / "ddl"
SCHEMAS = ("music_shop", "orders", "film_rental")
# A hundred rows of each take two seconds of processor time.
SAMPLE = [pytest.param(name, marks=[pytest.mark.full] if name != "film_rental" else []) for name in SCHEMAS]


def made_from(
    text: str, count: int, split: str = "test", seed: int = 1, **words: list[str]
) -> list[dict[str, Any]]:
    schema = read_ddl(text.encode(), "schema.sql")
    return list(SqlRows(Database(schema, Synonyms(words)), 1).rows(split, count))


@cache
def made(name: str, split: str, count: int = 100) -> list[dict[str, Any]]:
    return made_from((DDL / f"{name}.sql").read_text(encoding="utf-8"), count, split)


@pytest.mark.parametrize("name", SAMPLE)
def test_every_query_gives_rows_on_each_database_and_is_right_by_the_scorer(
    name: str, every_trial: bool
) -> None:
    scorer = SqlScorer()
    for row in made(name, "test") if every_trial else made(name, "test")[::3]:
        answer = row["messages"][-1]["content"]
        for place in range(3):
            assert query(database(row, f"{row['seed']}/{place}"), answer)
        assert scorer.judge({**row, "completion": answer}, answer).correct


@pytest.mark.parametrize("name", SAMPLE)
def test_training_rows_are_conversations_that_fit(name: str) -> None:
    rows = made(name, "train")
    assert len(rows) == 100
    assert all(sum(len(it["content"]) for it in row["messages"]) <= LONGEST for row in rows)
    assert sum(len(row["messages"]) > 3 for row in rows) > 30
    assert len({row["messages"][1]["content"] for row in rows}) == 100


@pytest.mark.parametrize("name", SAMPLE)
def test_easy_questions_are_the_most_and_every_table_is_asked_about(name: str) -> None:
    rows = made(name, "train", 100)
    answers = [it["content"] for row in rows for it in row["messages"] if it["role"] == "assistant"]
    schema = read_ddl((DDL / f"{name}.sql").read_bytes(), name)
    spoken = Database(schema, Synonyms({})).spoken
    # Of a table with a name alone there is little to ask.
    for table in (name for name, found in spoken.items() if len(found.columns) > 1):
        assert any(re.search(rf"\b{re.escape(table)}\b", answer) for answer in answers), table
    levels = Counter(row["level"] for row in made(name, "test"))
    assert levels[1] > 30 and levels[2] > 0 and levels[3] > 0
    assert any(" JOIN " in answer for answer in answers)
    tags = Counter(row["tags"][0] for row in rows)
    assert min(tags["tables-shown"], tags["question-only"]) > 25


@pytest.mark.parametrize("name", SAMPLE)
def test_tables_that_only_link_two_others_are_gone_through(name: str) -> None:
    linking = {"music_shop": "playlist_track", "orders": "Order Details", "film_rental": "film_actor"}[name]
    rows = [row for row in made(name, "test") if row["tags"][1].startswith("through")]
    assert len(rows) > 3
    assert all(linking in row["messages"][-1]["content"] for row in rows)
    assert "through-group" in {row["tags"][1] for row in rows}


def test_a_question_without_tables_names_what_it_is_about() -> None:
    for row in made("music_shop", "test"):
        question = row["messages"][1]["content"]
        assert ("CREATE TABLE" in question) == (row["tags"][0] == "tables-shown")


def test_values_of_held_out_rows_are_not_those_of_training_rows() -> None:
    def persons(split: str) -> set[str]:
        rows = made("music_shop", split)
        answers = " ".join(turn["content"] for row in rows for turn in row["messages"][2::2])
        return set(re.findall(r"composer (?:=|<>) '([^']+)'", answers))

    assert persons("train") and persons("test")
    assert not persons("train") & persons("test")


def test_the_users_words_are_said() -> None:
    text = (DDL / "music_shop.sql").read_text(encoding="utf-8")
    plain, given = made("music_shop", "test"), made_from(text, 50, tracks=["ditty"], composer=["tunesmith"])
    said = json.dumps([row["messages"][1]["content"] for row in given])
    assert "ditt" in said and "tunesmith" in said
    assert "ditt" not in json.dumps(plain) and "tunesmith" not in json.dumps(plain)


def test_names_that_sql_reserves_hold_spaces_or_are_not_english() -> None:
    text = (
        'CREATE TABLE "select" (id INTEGER PRIMARY KEY, "group" TEXT, "two words" INT, "order" DATE);'
        'CREATE TABLE "größen" (id INTEGER PRIMARY KEY, name TEXT, länge REAL,'
        ' "select" INT REFERENCES "select"(id), parent INT REFERENCES "größen"(id));'
    )
    answers = [row["messages"][-1]["content"] for row in made_from(text, 30)]
    assert len(answers) == 30
    assert any('"two words"' in answer for answer in answers)
    assert any('"größen"' in answer for answer in answers)


def questions(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each question of each row, in small letters, with its query."""
    turns = [row["messages"][1:] for row in rows]
    texts = [[it["content"] for it in turn] for turn in turns]
    return [
        (asked.splitlines()[-1].lower(), answered)
        for some in texts
        for asked, answered in zip(some[::2], some[1::2], strict=True)
    ]


TEAMS = """
CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE matches (id INTEGER PRIMARY KEY, stadium TEXT NOT NULL, attendance INTEGER,
  home_team_id INTEGER REFERENCES teams(id), away_team_id INTEGER REFERENCES teams(id),
  team_id INTEGER REFERENCES teams(id), booked_by INTEGER REFERENCES teams(id));
"""


def test_of_two_keys_to_one_table_the_question_says_which() -> None:
    seen = set()
    for text, sql in questions(made_from(TEAMS, 120, "train")):
        assert "booked_by" not in sql
        for side in ("home", "away"):
            by_side = re.search(rf"{side}_team_id (=|FROM)", sql)
            # Typing errors stay inside longer words.
            assert not by_side or side in text, (text, sql)
            seen |= {side} if by_side else set()
        if re.search(r"\bteam_id (=|FROM)", sql):
            assert "home team" not in text and "away team" not in text
    assert seen == {"home", "away"}


def test_a_word_for_one_key_is_not_said_of_another_tables_key() -> None:
    text = """
    CREATE TABLE employees (id INTEGER PRIMARY KEY, name TEXT NOT NULL, salary INT NOT NULL);
    CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT NOT NULL, budget INT,
      lead_id INT REFERENCES employees(id));
    CREATE TABLE shifts (id INTEGER PRIMARY KEY, hours INT, employee_id INT REFERENCES employees(id));
    """
    found = [it for it in questions(made_from(text, 150, "train")) if re.search(r"\blead", it[0])]
    assert found
    assert all("lead_id" in sql and "shifts" not in sql for _, sql in found), found


def test_times_in_text_columns_are_compared_by_their_day() -> None:
    text = """CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL,
    joined_on TEXT, founded DATE NOT NULL);"""
    asked = questions(made_from(text, 120, "train"))
    compared = [sql for _, sql in asked if re.search(r"created_at\)? (<|>)", sql)]
    assert compared and all("date(created_at)" in sql for sql in compared)
    assert any(re.search(r"(?<!\()joined_on (<|>)", sql) for _, sql in asked)
    said = " ".join(text for text, _ in asked)
    assert "founded" in said and not re.search("a founded(?! date)", said)


def test_a_column_of_both_signs_is_asked_about_on_both() -> None:
    text = """CREATE TABLE places (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
    lat DECIMAL(8,5) CHECK (lat BETWEEN -90 AND 90), chill INT CHECK (chill < -5));"""
    asked = questions(made_from(text, 80, "train"))
    numbers = [int(it) for _, sql in asked for it in re.findall(r"lat (?:<|>)=? (-?\d+)", sql)]
    assert min(numbers) < 0 < max(numbers) and all(-90 <= it <= 90 for it in numbers)
    chill = [int(it) for _, sql in asked for it in re.findall(r"chill (?:<|>)=? (-?\d+)", sql)]
    assert chill and all(it <= -5 for it in chill)


def test_a_column_of_decimals_has_those_of_its_check() -> None:
    text = """CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
    discount REAL CHECK (discount >= 0 AND discount <= 1),
    rating DECIMAL(2,1) CHECK (rating BETWEEN 0.5 AND 5),
    points NUMERIC CHECK (points BETWEEN 0 AND 0.5), weight REAL CHECK (weight >= 0.5 AND weight < 120));"""
    table = spoken_table(read_ddl(text.encode(), "s").tables[0], Synonyms({}))
    ranges = {it.name: (it.low, round(it.high, 6), it.step) for it in table.columns if it.kind == "number"}
    assert ranges["discount"] == (0, 1, 0.05) and ranges["points"] == (0, 0.5, 0.05)
    assert ranges["rating"][0] == pytest.approx(0.5) and ranges["weight"] == (1, 120, 1)
    rows = made_from(text, 60)
    discount = next(it for it in rows[0]["schema"][0]["columns"] if it[0] == "discount")
    assert discount[1:3] == ["cat", [round(0.05 * it, 2) for it in range(21)]]
    asked = " ".join(sql for _, sql in questions(rows))
    discounts = [float(it) for it in re.findall(r"discount (?:[<>]=?|BETWEEN) (\d[\d.]*)", asked)]
    assert any(0 < it < 1 for it in discounts) and all(0 <= it <= 1 for it in discounts)
    assert not any("percent" in text for text, _ in questions(rows))


WIDE = ", ".join(f"measure_{chr(97 + n // 20)}{chr(97 + n % 20)} INT" for n in range(150))
WIDE = f"CREATE TABLE readings (id INTEGER PRIMARY KEY, name TEXT, {WIDE});"


def test_a_wide_table_is_shown_with_more_than_the_question_needs(every_trial: bool) -> None:
    for split, count in ("train", 40 if every_trial else 16), ("test", 40 if every_trial else 12):
        rows = made_from(WIDE, count, split)
        assert len(rows) == count
        shown = [row for row in rows if row["tags"][0] == "tables-shown"]
        places = set()
        for row in shown:
            table = row["messages"][1]["content"].splitlines()[0]
            columns = re.findall(r"(measure_\w+) INT", table)
            assert columns == sorted(columns) and len(columns) > 10
            places.update(columns)
            queries = [it["content"] for it in row["messages"][2::2]]
            named = set(re.findall(r"measure_\w+", " ".join(queries)))
            assert named <= set(columns) and len(columns) > len(named) + 5
            # Not one more would fit.
            left = LONGEST - sum(len(it["content"]) for it in row["messages"])
            assert 0 <= left < len(", measure_aa INTEGER")
        assert len(places) > 80
        if split == "train":
            assert any(len(row["messages"]) > 3 for row in shown)


def test_a_wide_table_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "held_out_rows", lambda rows: rows)
    for name, text, count in (("wide", WIDE, 1), ("narrow", FLAGS, None)):
        ddl = tmp_path / f"{name}.sql"
        ddl.write_text(text)
        assert main(["--ddl", str(ddl), "--output", str(tmp_path / name), "--rows", "20"]) == 0
        assert json.loads(capsys.readouterr().out)["ignored"].get("tables shown in part") == count


def test_near_copies_are_dropped_and_other_questions_stay() -> None:
    def row(question: str, answer: str) -> dict[str, Any]:
        texts = (("system", "s"), ("user", question), ("assistant", answer))
        return {"messages": [{"role": role, "content": text} for role, text in texts]}

    trained = [row("How many tracks are there in the whole shop today?", "SELECT COUNT(*) FROM tracks")]
    copy = row("how many tracks are there in the whole shop today", "SELECT COUNT(*) FROM tracks")
    other_words = row("Count the songs", "SELECT COUNT(*) FROM tracks")
    other_answer = row("How many albums are there in the whole shop today?", "SELECT COUNT(*) FROM albums")
    assert without_copies([copy, other_words, other_answer], trained) == [other_words, other_answer]


def run(folder: Path, *more: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["--ddl", str(DDL / "music_shop.sql"), "--output", str(folder), *more])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_files_are_the_same_bytes_again_and_others_for_another_seed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    every_trial: bool,
) -> None:
    assert [make.held_out_rows(rows) for rows in (60, 1000, 50_000)] == [40, 100, 400]
    count, held_out = (60, 40) if every_trial else (20, 20)
    monkeypatch.setattr(make, "held_out_rows", lambda rows: held_out)
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        code, out, _ = run(tmp_path / folder, "--rows", str(count), "--seed", seed, capsys=capsys)
        assert code == 0
        assert json.loads(out)["rows"] == {"train": count, "validation": held_out, "test": held_out}
    for name in ("train.jsonl", "validation.jsonl", "test.jsonl"):
        first, again, other = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert first == again != other
    asked = [json.loads(line)["messages"][1]["content"] for line in (tmp_path / "a/test.jsonl").open()]
    assert len(set(asked)) == held_out
    trained = [json.loads(line) for line in (tmp_path / "a/train.jsonl").open()]
    written = [row["messages"][1]["content"] for row in trained if row["tags"] == ["written"]]
    assert len(written) == count // 3
    # They ask about separate tables, which they show.
    own = (tmp_path / "a/tables.sql").read_text()
    assert not any(line in own for text in written for line in text.splitlines()[:-1] if "(" in line)


def test_words_for_nothing_and_for_a_key_are_distinguished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "held_out_rows", lambda _: 20)
    words = tmp_path / "words.json"
    words.write_text(
        '{"Album_ID": ["disc"], "tracks.track_id": ["number"], "albums.tracks": ["x"], "tracks": ["tune"]}'
    )
    code, out, _ = run(tmp_path / "a", "--rows", "20", "--words", str(words), capsys=capsys)
    said = json.loads(out)
    assert (code, said["unused_words"]) == (0, ["albums.tracks"])
    assert said["unasked_words"] == ["album_id", "tracks.track_id"]


def test_files_that_are_there_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.jsonl").write_text("mine")
    code, _, err = run(tmp_path, capsys=capsys)
    assert code == 2
    assert "is there already" in err and "hint: " in err
    assert (tmp_path / "train.jsonl").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]


def test_a_schema_with_too_little_to_ask_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ddl = tmp_path / "schema.sql"
    ddl.write_text("CREATE TABLE a (b_id INT, c_id INT);")
    code = main(["--ddl", str(ddl), "--output", str(tmp_path / "out")])
    assert code == 2
    assert "rows can be made of this schema" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


FLAGS = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
  is_active CHAR(1) NOT NULL CHECK (is_active IN ('N','Y')), has_newsletter ENUM('yes','no') NOT NULL,
  verified ENUM('0','1') NOT NULL, is_member VARCHAR(9) CHECK (is_member IN ('gold','silver','no')),
  is_vip VARCHAR(5), is_blocked INT CHECK (is_blocked IN (0,1)), tested BIT NOT NULL);
"""


def test_flags_have_the_values_that_the_schema_gives_them() -> None:
    rows = made_from(FLAGS, 150)
    asked = questions(rows)
    compared: dict[str, set[str]] = {}
    for _, sql in asked:
        for column, value in re.findall(r"(\w+) (?:=|<>|LIKE|NOT LIKE) ('[^']*'|\d+)", sql):
            compared.setdefault(column, set()).add(value)
    assert compared["is_active"] == {"'Y'", "'N'"} and compared["has_newsletter"] == {"'yes'", "'no'"}
    assert compared["verified"] == {"'1'", "'0'"}
    assert compared["is_blocked"] == compared["tested"] == {"1", "0"}
    assert {"'gold'", "'no'"} <= compared["is_member"] <= {"'gold'", "'silver'", "'no'"}
    # Whether a text without a CHECK holds 'Y' or 'true' is not known, so nothing is compared with it.
    assert "is_vip" not in compared and any("is_vip" in sql for _, sql in asked)
    assert any("is_active = 'N'" in sql and "not active" in text for text, sql in asked)
    assert not any(re.search(r"\ban? (is|has)\b", text) for text, _ in asked)
    content = {it[0]: it[1:] for it in rows[0]["schema"][0]["columns"]}
    assert content["is_active"] == ["cat", ["Y", "N"], False] and content["tested"] == ["bool", False]


def test_blank_values_of_an_enumeration_are_not_said() -> None:
    text = """CREATE TABLE tickets (id INTEGER PRIMARY KEY, title TEXT NOT NULL,
    status ENUM('', 'new', ' ', 'late', '100%', 'done') NOT NULL, paid ENUM('', 'Y', 'N') NOT NULL);"""
    asked = questions(made_from(text, 80))
    assert any("status IN" in sql for _, sql in asked) and any("paid = 'Y'" in sql for _, sql in asked)
    assert not any(re.search(r"'\s*'", sql) for _, sql in asked)


def test_a_verb_or_an_adjective_is_said_of_one_column() -> None:
    text = """CREATE TABLE orders (id INTEGER PRIMARY KEY, title TEXT NOT NULL, order_date DATE NOT NULL,
    placed_at TIMESTAMP NOT NULL, ship_date DATE, shipped_on DATE, payment_date DATE, paying_date DATE,
    price INT NOT NULL, cost INT NOT NULL);"""
    table = read_ddl(text.encode(), "schema.sql").tables[0]
    found = {column.name: column for column in spoken_table(table, Synonyms({})).columns}
    assert {name: column.verb for name, column in found.items() if column.verb} == {
        "placed_at": "placed",
        "shipped_on": "shipped",
        "payment_date": "paid",
    }
    assert found["order_date"].nouns == ("date",) and found["ship_date"].nouns == ("ship date",)
    assert [name for name, column in found.items() if column.how == "expensive"] == ["price"]


def test_a_state_is_a_status_only_where_that_makes_sense() -> None:
    text = """CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, customer_state VARCHAR(20));
    CREATE TABLE orders (id INTEGER PRIMARY KEY, title TEXT, status TEXT, state TEXT);
    CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, state TEXT);
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, title TEXT, job_status TEXT);"""
    database = Database(read_ddl(text.encode(), "schema.sql"), Synonyms({}))
    found = {
        (table, column.name): column for table, spoken in database.spoken.items() for column in spoken.columns
    }
    for table, name in (("customers", "customer_state"), ("orders", "state")):
        assert "Texas" in found[table, name].pool and found[table, name].nouns == ("state",)
    assert "review" in found["tasks", "state"].values
    for table, name in (("orders", "status"), ("jobs", "job_status")):
        column = found[table, name]
        assert column.values and column.nouns[0] == "status"
        assert not any("state" in it for it in (*column.nouns, *column.after, *column.ask))
    alone = read_ddl(b"CREATE TABLE orders (id INT PRIMARY KEY, status TEXT, total INT);", "schema.sql")
    assert "state" in Database(alone, Synonyms({})).spoken["orders"].columns[0].nouns


def test_a_year_is_that_of_a_release_only_where_something_comes_out() -> None:
    text = """CREATE TABLE albums (id INTEGER PRIMARY KEY, title TEXT, year INT);
    CREATE TABLE budgets (id INTEGER PRIMARY KEY, title TEXT, year INT);"""
    database = Database(read_ddl(text.encode(), "schema.sql"), Synonyms({}))
    album, budget = (database.spoken[name].columns[1] for name in ("albums", "budgets"))
    assert album.nouns == ("year", "release year") and any("released" in it for it in album.more)
    assert budget.nouns == ("year",) and budget.is_year
    assert not any((budget.more, budget.less, budget.highest, budget.lowest, budget.ask))


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    """Raised in one of SQLite's calls back, an exception would be lost and a row with it."""
    ddl, out = str(DDL / "film_rental.sql"), str(tmp_path / "rows")
    command = [sys.executable, "-X", "importtime", "-m", "expert_worker.schema_rows", "--ddl", ddl]
    with subprocess.Popen([*command, "--output", out], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        last = next(line for line in process.stderr if line.endswith("expert_worker.schema_rows.make\n"))
        assert last
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == -signal.SIGINT and "Traceback" not in said
    assert not (tmp_path / "rows" / "train.jsonl").exists()


CLINIC = """
CREATE TABLE doctors (id int unsigned PRIMARY KEY, name varchar(60), salary decimal(10,2) unsigned);
CREATE TABLE patients (id int PRIMARY KEY, name varchar(60), phone_no varchar(20));
CREATE TABLE visits (doctor_id int, patient_id int, visited_at datetime,
  PRIMARY KEY (doctor_id, patient_id, visited_at),
  FOREIGN KEY (doctor_id) REFERENCES doctors (id), FOREIGN KEY (patient_id) REFERENCES patients (id));
CREATE TABLE referrals (doctor_id int, patient_id int, PRIMARY KEY (patient_id, doctor_id),
  FOREIGN KEY (doctor_id) REFERENCES doctors (id), FOREIGN KEY (patient_id) REFERENCES patients (id));
"""


def test_columns_of_unsigned_numbers_are_asked_about() -> None:
    schema = read_ddl(CLINIC.encode(), "clinic.sql")
    shown = Database(schema, Synonyms({})).statement("doctors")
    assert "salary DECIMAL(10,2)" in shown and "UNSIGNED" not in shown
    maker = SqlRows(Database(schema, Synonyms({})), 1)
    rows = list(maker.rows("test", 80))
    assert maker.asked == {"doctors", "patients", "visits", "referrals"}
    assert any("salary" in row["messages"][-1]["content"] for row in rows)
    assert not maker.dropped["refused by SQLite"]


def test_only_a_table_that_has_each_pair_once_is_counted_as_what_it_links() -> None:
    schema = read_ddl(CLINIC.encode(), "clinic.sql")
    assert [it.table for it in junctions(Database(schema, Synonyms({})))] == ["referrals"]


def test_a_number_is_called_so() -> None:
    assert words_of("line_no") == ["line", "number"] and words_of("PhoneNo") == ["phone", "number"]
    assert words_of("no") == ["no"] and words_of("no_show") == ["no", "show"]


@pytest.mark.parametrize(
    ("sql", "does"),
    [
        ("SELECT status, AVG(total) FROM orders WHERE total IS NULL GROUP BY status", True),
        ('SELECT a FROM t WHERE "Un it" IS NULL GROUP BY a ORDER BY SUM("Un it") DESC LIMIT 1', True),
        ("SELECT name FROM t WHERE t.total IS NULL ORDER BY t.total DESC LIMIT 1", True),
        ("SELECT c FROM t WHERE n IS NULL INTERSECT SELECT c FROM t WHERE n IS NULL", True),
        ("SELECT c FROM t WHERE n IS NULL EXCEPT SELECT c FROM t WHERE m IS NULL", False),
        ("SELECT status, AVG(total) FROM orders WHERE shipped IS NULL GROUP BY status", False),
        ("SELECT AVG(total) FROM orders WHERE total IS NOT NULL", False),
        ("SELECT COUNT(*) FROM orders WHERE total IS NULL", False),
    ],
)
def test_questions_that_contradict_themselves(sql: str, does: bool) -> None:
    assert contradicts_itself(sql) is does


SHORT = """
CREATE DOMAIN brief AS varchar(6);
CREATE TABLE patients (id int PRIMARY KEY, name varchar(11), gender char(1) NOT NULL, status brief,
  ward_code char(3), city nvarchar(5), email varchar(12), booked_on char(8),
  is_vip char(1), currency char(3));
CREATE TABLE visits (id int PRIMARY KEY, patient_id int REFERENCES patients (id),
  doctor character varying (9), remark varchar(4), supplier varchar(max),
  payment_method varchar(8) CHECK (payment_method IN ('cash', 'voucher')));
"""


def test_texts_are_as_short_as_their_columns() -> None:
    schema = read_ddl(SHORT.encode(), "short.sql")
    lengths = {column.name: column.length for table in schema.tables for column in table.columns}
    assert lengths["status"] == 6 and lengths["doctor"] == 9 and lengths["supplier"] is None
    compared: dict[str, set[str]] = {}
    for split in ("train", "test"):
        for row in made_from(SHORT, 60, split):
            for table in row.get("schema", []):
                for name, kind, *content in table["columns"]:
                    if kind in ("cat", "name") and lengths[name]:
                        assert all(len(word) <= lengths[name] for word in content[0]), name
            for turn in row["messages"][2::2]:
                for name, value in re.findall(r"(\w+) (?:=|<>|LIKE|NOT LIKE) '([^']*)'", turn["content"]):
                    compared.setdefault(name, set()).add(value.strip("%"))
    assert all(len(value) <= (lengths[name] or 99) for name, found in compared.items() for value in found)
    # Whether a text of one character holds 'f', 'F' or '2' is not known, so nothing is compared with it.
    assert not {"gender", "booked_on", "remark", "is_vip"} & compared.keys()
    assert compared["status"] <= {"open", "closed"} and compared["payment_method"] <= {"cash", "voucher"}
    assert {"name", "city", "ward_code", "currency", "supplier"} <= compared.keys()
