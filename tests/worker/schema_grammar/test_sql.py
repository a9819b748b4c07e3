"""A query may use only the names that the prompt's CREATE TABLE statements define."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from schema_grammar.accepts import refused_at, stops_in

from expert_worker.schema_grammar.ddl_names import tables_of
from expert_worker.schema_grammar.links import links
from expert_worker.schema_grammar.rules import template
from expert_worker.schema_grammar.sql import MOST_SCOPES, rules
from expert_worker.schema_rows.ddl import read_ddl

ROOT = Path(__file__).parents[3]
SHOP = """CREATE TABLE customers (
  id INTEGER PRIMARY KEY, company VARCHAR(40) NOT NULL, "Signed Up" DATE, -- day
  city TEXT CHECK (city <> ''), FOREIGN KEY (id) REFERENCES x(id));
create table if not exists [Order Details] (
  order_no int, customer_id int references customers(id), amount decimal(10, 2) DEFAULT 1.5 /* euros, net */
);
which companies are based in Porto?"""

ACCEPTED = """
SELECT company FROM customers WHERE city = 'Porto'
select company from customers where city like '%o''s%' order by "Signed Up" desc limit 3;
SELECT COUNT(*), AVG(amount) AS mean FROM [Order Details]
SELECT "amount" FROM "Order Details" WHERE amount BETWEEN 3 AND 5.5 AND NOT order_no IN (1, 2)
SELECT c.company FROM customers AS c JOIN [Order Details] d ON d.customer_id = c.id GROUP BY c.id
SELECT company FROM customers WHERE id NOT IN (SELECT customer_id FROM [Order Details])
SELECT company FROM customers WHERE EXISTS (SELECT 1 FROM [Order Details] WHERE customer_id = customers.id)
SELECT city, COUNT(*) AS n FROM customers GROUP BY city ORDER BY n DESC
SELECT city FROM customers GROUP BY city HAVING COUNT(*) > 3
WITH sums AS (SELECT SUM(amount) AS value FROM [Order Details]) SELECT value FROM sums WHERE value > 3
SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM customers GROUP BY city)
SELECT city FROM customers UNION SELECT company FROM customers
SELECT company, RANK() OVER (PARTITION BY city ORDER BY "Signed Up") FROM customers
SELECT CASE WHEN amount > 3 THEN 'big' ELSE 'small' END FROM [Order Details]
SELECT company FROM customers WHERE strftime('%Y', "Signed Up") = '2024' AND city IS NOT NULL
"""
# Names that the answer makes up.
NAMED = """
SELECT city, COUNT(*) AS order_count FROM customers GROUP BY city ORDER BY order_count DESC, city
SELECT city, COUNT(*) AS per_city, id FROM customers GROUP BY city HAVING per_city > 2 AND id > 1 ORDER BY 1
SELECT amount * 2 AS "twice it" FROM [Order Details] ORDER BY "twice it" - 1 DESC NULLS LAST LIMIT 3
SELECT *, amount + 1 AS more FROM [Order Details] ORDER BY more
SELECT AVG(x) FROM (SELECT SUM(amount) AS x FROM [Order Details] GROUP BY customer_id)
SELECT MAX(order_count) FROM (SELECT COUNT(*) AS order_count FROM [Order Details] GROUP BY customer_id)
"""
# With the last word that is read of each.
REFUSED = {
    "SELECT companies FROM customers": "companies",
    "SELECT name FROM customers": "name",
    "SELECT company FROM clients": "clients",
    "SELECT company FROM customers WHERE amount > 3": "amount",
    "SELECT customers.amount FROM customers": "amount",
    "SELECT x FROM customers ORDER BY y": "x",
    "SELECT MAX(companies) FROM customers": "companies",
    "SELECT MAX(order_count) FROM customers": "customers",
    # Without a name that the answer gives there is none to sort by.
    "SELECT city FROM customers ORDER BY order_count": "order_count",
    "SELECT city FROM customers GROUP BY city HAVING per_city > 2": "per_city",
    "SELECT city AS town FROM customers WHERE town = 'x'": "town =",
    # SQLite refuses it.
    "SELECT city FROM customers HAVING id > 1": "HAVING",
    # A join along other columns than those of the foreign key.
    "SELECT c.company FROM customers c JOIN [Order Details] d ON d.order_no = c.id": "order_no",
    "DELETE FROM customers": "DELETE",
    "SELECT company FROM customers; DROP TABLE customers": " DROP",
}


@pytest.mark.parametrize("query", (ACCEPTED + NAMED).strip().replace("\n\n", "\n").splitlines())
def test_queries_over_the_schema_are_accepted(query: str) -> None:
    assert refused_at(rules(SHOP), query) is None


@pytest.mark.parametrize("query", REFUSED)
def test_other_names_and_statements_are_refused_at_once(query: str) -> None:
    assert stops_in(rules(SHOP), query, REFUSED[query])


@pytest.mark.parametrize(
    "query",
    ["SELECT company FROM ", "SELECT amount FROM customers", "SELECT customers.company FROM [Order Details]"],
)
def test_a_query_is_unfinished_without_the_table_of_its_columns(query: str) -> None:
    assert refused_at(rules(SHOP), query) == ""


CLINIC = """CREATE TABLE wards (id INT, name TEXT, floor INT);
CREATE TABLE doctors (id INT, name TEXT, ward_id INT, dob DATE);
CREATE TABLE visits (no INT, doctor_id INT, fee REAL);
which?"""
JOINS = """
SELECT wards.name, COUNT(*) FROM doctors JOIN wards ON doctors.ward_id = wards.id GROUP BY wards.id
SELECT floor, dob FROM wards LEFT JOIN doctors ON ward_id = wards.id AND floor > 3 WHERE dob IS NULL
SELECT doctors.* FROM visits JOIN doctors ON visits.doctor_id = doctors.id ORDER BY fee DESC LIMIT 1
SELECT d.name, w.name FROM doctors d JOIN wards w ON d.ward_id = w.id
SELECT d.name FROM doctors AS d WHERE d.dob > '1980-01-01'
SELECT a.name FROM doctors a JOIN doctors b ON a.ward_id = b.id
SELECT fee FROM visits, doctors WHERE doctor_id = doctors.id
SELECT fee, floor FROM visits JOIN doctors ON doctor_id = doctors.id JOIN wards ON doctors.ward_id = wards.id
SELECT name FROM doctors WHERE id IN (SELECT doctor_id FROM visits JOIN doctors ON doctor_id = doctors.id)
SELECT name FROM doctors NATURAL JOIN wards
SELECT name FROM doctors JOIN wards USING (id, name)
"""
# Answers that SQLite would not run, or that join what has no key in common.
UNJOINED = """
SELECT name FROM doctors JOIN wards ON doctors.ward_id = wards.id
SELECT fee, dob FROM doctors JOIN wards ON doctors.ward_id = wards.id
SELECT fee, floor FROM visits JOIN wards ON visits.no = wards.id
SELECT floor, dob FROM doctors JOIN wards ON doctors.id = wards.id
SELECT floor, dob FROM doctors JOIN wards
SELECT fee, dob FROM visits
SELECT wards.name FROM doctors
SELECT COUNT(*) FROM visits WHERE fee > 3 AND v.fee = 1
"""


@pytest.mark.parametrize("query", JOINS.strip().splitlines())
def test_joins_along_keys_are_accepted(query: str) -> None:
    assert refused_at(rules(CLINIC), query) is None


@pytest.mark.parametrize("query", UNJOINED.strip().splitlines())
def test_a_join_of_two_tables_names_their_columns_without_doubt(query: str) -> None:
    assert refused_at(rules(CLINIC), query) is not None


def test_columns_may_be_called_as_constraints_begin() -> None:
    schema = """CREATE TABLE access (key VARCHAR(20), period, index_no INT, PERIOD FOR span (a, b),
    KEY by_no (index_no), INDEX (index_no));\nall"""
    assert refused_at(rules(schema), "SELECT key, period FROM access WHERE index_no > 3") is None
    for name in ("span", "by_no"):
        assert refused_at(rules(schema), f"SELECT {name} FROM access") is not None


def test_without_a_schema_names_are_free() -> None:
    assert refused_at(rules("How many orders?"), "SELECT anything FROM it JOIN them ON a = b") is None
    assert refused_at(rules("How many orders?"), "DROP TABLE it") == "DROP TABLE it"


PLACES = (
    "SELECT 1 AS {0} FROM it",
    "SELECT 1 FROM it AS {0}",
    "SELECT 1 FROM it {0}",
    "SELECT {0} FROM it",
    "SELECT it.{0} FROM it",
    "SELECT 1 FROM {0}",
    "WITH {0} AS (SELECT 1 FROM it) SELECT 1 FROM it",
)


def test_a_free_name_is_one_that_sqlite_reads() -> None:
    """What the grammar takes parses; names that are words of SQLite only in other places stay."""
    free, shop = rules("How many orders?"), rules("CREATE TABLE it (id INT);\nhow many?")
    assert refused_at(free, "SELECT FROM OR\nSIGNING FROM orders") is not None
    words = re.findall('"([a-z]+)"i', template("sql.txt")[0]["reserved"])
    for word in words:
        assert not parses(f"SELECT 1 AS {word} FROM it"), word
    # Of the keywords of SQLite 3.40 that are not reserved.
    others = [
        "cast",
        "cross",
        "inner",
        "recursive",
        "true",
        "key",
        "end",
        "row",
        "desc",
        "replace",
        "if",
        "by",
    ]
    for word in (*words[::3], *others):
        for place in PLACES:
            for text in (place.format(word), place.format(word.title())):
                assert parses(text) or refused_at(free, text) is not None, text
    for word in ("key", "value", "end", "row", "selected", "orders", "_in", "or2"):
        for place in PLACES:
            assert refused_at(free, place.format(word)) is None, word
    for alias in ("as", "on", "or", "IN", "all"):
        text = f"SELECT {alias}.id FROM it AS {alias}"
        assert refused_at(shop, text) is not None, text
    assert refused_at(shop, "SELECT inner.id FROM it AS inner") is None


def parses(query: str) -> bool:
    """Whether the names exist is another question."""
    try:
        sqlite3.connect(":memory:").execute(f"EXPLAIN {query}")
    except sqlite3.OperationalError as error:
        return "no such" in str(error)
    return True


LINKED = {
    "CREATE TABLE shelves (id INT, d INT); CREATE TABLE book (shelf_id INT, dob INT)": [("shelf_id", "id")],
    "CREATE TABLE club (id INT, name TEXT); CREATE TABLE member (no INT, club_id INT)": [("club_id", "id")],
    "CREATE TABLE Cities (CityId INT); CREATE TABLE Flats (FlatId INT, CityId INT)": [("CityId", "CityId")],
    "CREATE TABLE people (person_no INT, a INT); CREATE TABLE pets (id INT, owner INT REFERENCES people)": [
        ("owner", "person_no")
    ],
    "CREATE TABLE a (x INT, y INT, FOREIGN KEY (y) REFERENCES b (z)); CREATE TABLE b (z INT)": [("y", "z")],
    "CREATE TABLE a (y INT, FOREIGN KEY k (y) REFERENCES b (z)); CREATE TABLE b (z INT)": [("y", "z")],
    "CREATE TABLE [s].[a] ([y] INT REFERENCES [s].[b] ([z])); CREATE TABLE [s].[b] ([z] INT)": [("y", "z")],
}


@pytest.mark.parametrize("ddl", LINKED)
def test_foreign_keys_are_read_or_recognised_by_their_names(ddl: str) -> None:
    found = links(tables_of(ddl))
    assert found is not None
    assert {frozenset((it.column.text, it.other_column.text)) for it in found} == {
        frozenset(pair) for pair in LINKED[ddl]
    }


ALTERED = {
    "ALTER TABLE ONLY public.b\n    ADD CONSTRAINT k FOREIGN KEY (x) REFERENCES public.a(id);": "x",
    "ALTER TABLE dbo.[B] WITH CHECK ADD CONSTRAINT k FOREIGN KEY([x])\nREFERENCES [dbo].[a] ([id])\nGO": "x",
    "ALTER TABLE `b` ADD PRIMARY KEY (`x`), ADD KEY k (`y`), ADD FOREIGN KEY (y) REFERENCES `a` (`id`);": "y",
    "ALTER TABLE b ADD COLUMN IF NOT EXISTS c INT REFERENCES a(id)\n\nwhich?": "c",
    "ALTER TABLE b ADD c INT, ADD FOREIGN KEY (c) REFERENCES a(id);": "c",
}


@pytest.mark.parametrize("altered", ALTERED)
def test_keys_and_columns_that_are_added_later(altered: str) -> None:
    prompt = f"CREATE TABLE a (id INT);\nCREATE TABLE b (x INT, y INT);\n{altered}\nhow many, of each?"
    (link,) = links(tables_of(prompt)) or ()
    assert (link.column.text, link.other_column.text) == (ALTERED[altered], "id")


def test_what_else_is_altered_adds_no_column() -> None:
    prompt = (
        "CREATE TABLE old (a INT);\nq\nSELECT a FROM old\nCREATE TABLE t (a INT);\n"
        "ALTER TABLE t OWNER TO app;"
        "ALTER TABLE t ALTER COLUMN a ADD GENERATED ALWAYS AS IDENTITY (START WITH 1);"
        "ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY;ALTER TABLE t ADD DEFAULT ((0)) FOR a;"
        "ALTER TABLE t ADD A TEXT; ALTER TABLE old ADD b INT; ALTER TABLE; ALTER TABLE t ADD"
    )
    assert [[column.text for column in table.columns] for table in tables_of(prompt)] == [["a"]]


def test_tables_without_a_recognised_key_are_joined_in_any_way() -> None:
    prompt = "CREATE TABLE cats (id INT, home INT); CREATE TABLE flats (id INT, floor INT)"
    assert links(tables_of(prompt)) is None
    assert refused_at(rules(prompt), "SELECT floor FROM cats JOIN flats ON home = flats.id") is None


def test_many_tables_share_a_scope() -> None:
    prompt = "".join(f"CREATE TABLE t{n} (a{n} INT, b{n} INT);\n" for n in range(MOST_SCOPES + 1))
    assert refused_at(rules(prompt), "SELECT a3 FROM t3 WHERE b3 = 1") is None
    assert stops_in(rules(prompt), "SELECT c FROM t3", "c")


def test_names_are_those_of_the_last_group_of_statements() -> None:
    found = tables_of("CREATE TABLE old (x INT);\nquestion?\nSELECT x FROM old\n" + SHOP)
    assert [(table.name.text, [column.text for column in table.columns]) for table in found] == [
        ("customers", ["id", "company", "Signed Up", "city"]),
        ("Order Details", ["order_no", "customer_id", "amount"]),
    ]


USERS = "CREATE TABLE users (id INT, name TEXT)"
ORDERS = "CREATE TABLE orders (id INT, user_id INT)"
BETWEEN = {
    "options of MySQL": " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='people; all';\n",
    "options of SQLite": " STRICT, WITHOUT ROWID;\n",
    "SQL Server": " ON [PRIMARY]\nGO\nSET ANSI_NULLS ON\nGO\n",
    "a heading": "\n\n## Table orders (what was bought?)\n",
    "an index": ";\nCREATE INDEX by_name ON users (name);\n",
    "rows": ";\nINSERT INTO users VALUES (1, 'Ann');\n",
    "rows of a query": ";\nINSERT INTO users (id, name)\nSELECT id, name FROM old;\n",
    "sample rows": ";\nSELECT * FROM users LIMIT 2;\nid  name\n1   Ann\n",
    "sample rows in a comment": ";\n/*\nSELECT name FROM users;\nAnn\n*/\n",
    "a view": ";\nCREATE VIEW names AS\nSELECT name FROM users;\n",
    "a table of a query": ";\nCREATE TABLE names AS\nSELECT name FROM users;\n",
    "a trigger": ";\nCREATE TRIGGER t AFTER INSERT ON users BEGIN\n  SELECT id FROM users;\nEND;\n",
    "SQL Server's scripts": "\nGO\nIF NOT EXISTS (SELECT * FROM sys.objects WHERE name = N'orders')\nBEGIN\n",
    "a dump's call": ";\nSELECT setval('users_id_seq', (SELECT MAX(id) FROM users));\n",
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_all_tables_of_a_schema_are_known(between: str) -> None:
    found = tables_of(f"{USERS}{between}{ORDERS};\nHow many users are there?")
    assert [table.name.text for table in found] == ["users", "orders"]


ANSWERED = {
    "chat": "\nlist names\nassistant\nSELECT name FROM users\nuser\n",
    "small letters": "\nlist names\nselect name from users\n",
    "labels": "\nQuestion: list names\nAnswer: select name from users\n",
    "a fence": "\nlist names\n```sql\nwith x as (select 1) select * from x\n```\n",
    "one line": " list names. The query is SELECT name FROM users. ",
}


@pytest.mark.parametrize("between", ANSWERED.values(), ids=ANSWERED)
def test_a_schema_ends_with_the_answer_to_a_question(between: str) -> None:
    found = tables_of(f"{USERS};{between}{ORDERS};\nHow many?")
    assert [table.name.text for table in found] == ["orders"]


def test_a_table_that_is_created_again_begins_another_schema() -> None:
    found = tables_of(f"{USERS};{ORDERS};\nnames\nCREATE TABLE Users (code TEXT);\ncodes")
    assert [[column.text for column in table.columns] for table in found] == [["code"]]
    found = tables_of("CREATE TABLE auth.users (mail TEXT); CREATE TABLE public.users (name TEXT);")
    assert [[column.text for column in table.columns] for table in found] == [["mail"], ["name"]]


def columns_of(prompt: str) -> dict[str, list[str]]:
    return {".".join(it.path): [column.text for column in it.columns] for it in tables_of(prompt)}


def test_a_table_that_inherits_has_the_columns_of_its_parents() -> None:
    prompt = (
        "CREATE TABLE app.parent (id INT, name TEXT); CREATE TABLE other (weight REAL, ID BIGINT);"
        "CREATE TABLE child () INHERITS (parent); CREATE TABLE both (extra INT)\nINHERITS (parent, other);"
        'CREATE TABLE grand () INHERITS ("child"); CREATE TABLE same (x INT, LIKE parent INCLUDING ALL);'
        "CREATE TABLE copy LIKE same; CREATE TABLE lost () INHERITS (auth.parent);"
        "CREATE TABLE p PARTITION OF parent FOR VALUES IN (1); ALTER TABLE parent ADD made DATE;"
        "\nhow many (all)?"
    )
    assert columns_of(prompt) == {
        "app.parent": ["id", "name", "made"],
        "other": ["weight", "ID"],
        "child": ["id", "name", "made"],
        "both": ["id", "name", "made", "weight", "extra"],
        "grand": ["id", "name", "made"],
        "same": ["x", "id", "name", "made"],
        "copy": ["x", "id", "name", "made"],
    }
    assert refused_at(rules(prompt), "SELECT name FROM grand WHERE made > '2024-01-01'") is None


ADDED_TO = {
    "auth.users": "auth.users",
    "public.users": "public.users",
    "users": "public.users",
    "[shop].[Public].[Users]": "public.users",
    "other.users": "",
    "pets": "shop.pets",
    "public.pets": "",
    "cats": "",
    "dogs": "dogs",
    "public.dogs": "dogs",
}


@pytest.mark.parametrize("named", ADDED_TO)
def test_a_column_is_added_to_one_table_of_its_name(named: str) -> None:
    names = ["auth.users", "public.users", "shop.pets", "a.cats", "b.cats", "dogs"]
    created = "".join(f"CREATE TABLE {name} (id INT);\n" for name in names)
    found = columns_of(f"{created}ALTER TABLE {named} ADD COLUMN zip TEXT;")
    assert [name for name, columns in found.items() if "zip" in columns] == [*filter(None, [ADDED_TO[named]])]


def test_a_key_refers_to_the_table_of_its_schema() -> None:
    prompt = (
        "CREATE TABLE auth.users (mail TEXT); CREATE TABLE public.users (name TEXT);"
        "CREATE TABLE posts (who TEXT REFERENCES auth.users, whose TEXT REFERENCES users);"
    )
    found = links(tables_of(prompt)) or ()
    assert [(it.column.text, it.other_column.text) for it in found] == [("who", "mail"), ("whose", "name")]


def test_statements_that_are_only_mentioned() -> None:
    prompt = (
        "-- CREATE TABLE old (x INT);\n/* CREATE TABLE older (x INT); ALTER TABLE t ADD b INT; */\n"
        "COMMENT ON TABLE t IS 'it''s (CREATE TABLE note (x INT))';\n"
        "CREATE FUNCTION f() RETURNS void AS $_$ CREATE TABLE inner_one (x INT); $_$ LANGUAGE sql;\n"
        "CREATE TABLE t (a TEXT DEFAULT '--'); CREATE TABLE u (c INT);"
    )
    assert columns_of(prompt) == {"t": ["a"], "u": ["c"]}
    assert columns_of("/*\nCREATE TABLE t (a INT);\n*/\nhow many?") == {"t": ["a"]}


def test_an_altered_table_ends_where_the_question_begins() -> None:
    prompt = (
        "CREATE TABLE t (a INT);\nALTER TABLE t ADD b TEXT DEFAULT ';', c INT\n\nwhich, date text or int?"
    )
    assert columns_of(prompt) == {"t": ["a", "b", "c"]}


DDL = sorted([*(ROOT / "tests/worker/schema_rows/ddl").glob("*.sql"), *ROOT.glob("benches/schemas/*/*.sql")])


@pytest.mark.parametrize("path", DDL, ids=[f"{path.parent.name}/{path.name}" for path in DDL])
def test_both_readers_find_the_same_in_a_file(path: Path) -> None:
    data = path.read_bytes()
    read = {table.name: [it.name for it in table.columns] for table in read_ddl(data, path.name).tables}
    assert read == {it.name.text: [column.text for column in it.columns] for it in tables_of(data.decode())}


def test_a_statement_in_the_question_takes_no_table_away() -> None:
    found = tables_of(f"{USERS};\nWhich names are there? Do not use CREATE TABLE tmp (x INT).")
    assert [table.name.text for table in found] == ["users", "tmp"]


READ = {
    "CREATE UNLOGGED TABLE t (a INT)": ["a"],
    "CREATE OR REPLACE GLOBAL TEMPORARY TABLE t (a INT)": ["a"],
    "CREATE VIRTUAL TABLE t USING fts5(a, b)": ["a", "b"],
    "CREATE TABLE t ('a b' INT, 'c' INT)": ["a b", "c"],
    r"CREATE TABLE t (a TEXT COMMENT 'user\'s name, plainly', b INT COMMENT 'x', c INT)": ["a", "b", "c"],
    r"CREATE TABLE t (a TEXT DEFAULT 'user\'s', b INT)": ["a", "b"],
    r"CREATE TABLE t (a TEXT DEFAULT '\', b INT, c TEXT DEFAULT 'x')": ["a", "b", "c"],
    "CREATE TABLE t (\n  a INT, # user's id\n  b INT, #age, in years\n  c INT # last\n)": ["a", "b", "c"],
    "CREATE TABLE t (a INT CHECK ((x #> '{y}') > 0), b INT)": ["a", "b"],
    "CREATE TABLE t (\n  a INT,\n  b INT # of a, net\n)": ["a", "b"],
    "CREATE TABLE t (a INT CHECK ((x # 3) > 0), b INT)": ["a", "b"],
    "CREATE TABLE t (a TEXT DEFAULT $$it's, ($$, b INT)": ["a", "b"],
    "CREATE TABLE t (a TEXT[] DEFAULT ARRAY['x', 'y'], b INT [3])": ["a", "b"],
    r"CREATE TABLE t (a TEXT DEFAULT E'it\'s, (', b TEXT DEFAULT q'[it's, (]', c INT)": ["a", "b", "c"],
    "CREATE TABLE [t] ([a] [int], INDEX [i] NONCLUSTERED ([a]), [2nd] int)": ["a", "2nd"],
    "CREATE TABLE shop..t (a INT)": ["a"],
    "CREATE TRANSIENT TABLE t (a INT)": ["a"],
    "CREATE VIRTUAL TABLE t USING fts5(a, content='docs', tokenize = 'porter')": ["a"],
    "CREATE TABLE t (a INT); ALTER TABLE t ADD b int NULL, [c] [xml], CONSTRAINT k CHECK (b > 3)": [
        "a",
        "b",
        "c",
    ],
    "CREATE TABLE t (a INT); ALTER TABLE t ADD (b DATE, c INT), DROP COLUMN d": ["a", "b", "c"],
}


@pytest.mark.parametrize("ddl", READ)
def test_columns_as_each_dialect_writes_them(ddl: str) -> None:
    (table,) = tables_of(ddl)
    assert (table.name.text, [column.text for column in table.columns]) == ("t", READ[ddl])


def test_a_table_that_nothing_closes_ends_before_the_next() -> None:
    assert columns_of("CREATE TABLE t (a INT, b TEXT; CREATE TABLE u (c INT), d INT)") == {"u": ["c"]}


def test_names_in_single_quotes_are_not_texts_of_a_query() -> None:
    prompt = "CREATE TABLE t ('a b' INT)"
    assert refused_at(rules(prompt), 'SELECT "a b" FROM t') is None


BROKEN = """
CREATE TABLE
CREATE TABLE t
CREATE TABLE t (
CREATE TABLE t (a INT
CREATE TABLE ()
CREATE TABLE t (')
CREATE TABLE 'a' (b INT)
CREATE TABLE a AS SELECT b FROM (SELECT 1)
CREATE TABLE #a (b INT)
"""


@pytest.mark.parametrize("broken", BROKEN.strip().splitlines())
def test_broken_statements_leave_names_free(broken: str) -> None:
    assert tables_of(broken) == []
    assert refused_at(rules(broken), "SELECT a FROM t") is None


def test_reserved_words_and_quotes_in_names() -> None:
    prompt = 'CREATE TABLE "a""b\\c" ("x ""y""" INT, `group` INT, "Größe" INT)'
    assert refused_at(rules(prompt), 'SELECT "x ""y""", "group", `group`, "Größe" FROM "a""b\\c"') is None


@pytest.mark.parametrize("name", ["validation", "test", "people", "unseen"])
def test_every_reference_of_the_expert_is_accepted(name: str) -> None:
    lines = (ROOT / f"experts/expert-sql/datasets/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines[::5]:
        asked, answer = json.loads(line)["messages"][-2:]
        assert refused_at(rules(asked["content"]), answer["content"]) is None, answer
