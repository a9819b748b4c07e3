"""What is read from CREATE TABLE statements of four dialects, and what is refused in words."""

from pathlib import Path

import pytest

from expert_worker.errors import BadInput
from expert_worker.schema_rows.ddl import MOST_BYTES, MOST_COLUMNS, MOST_TABLES, Schema, read_ddl
from expert_worker.schema_rows.vocabulary import Synonyms, read_synonyms, table_words, words_of

DDL = Path(__file__).parent / "ddl"
SCHEMAS = ("music_shop", "orders", "film_rental")


def read(text: str) -> Schema:
    return read_ddl(text.encode(), "schema.sql")


def schema_of(name: str) -> Schema:
    path = DDL / f"{name}.sql"
    return read_ddl(path.read_bytes(), path.name)


def test_sqlite_tables_with_their_keys_and_checks() -> None:
    schema = schema_of("music_shop")
    assert [table.name for table in schema.tables][:3] == ["artists", "albums", "genres"]
    tracks, invoices = schema.table("tracks"), schema.table("invoices")
    assert tracks and invoices
    assert tracks.key == ("track_id",)
    assert tracks.links == {"album_id": "albums", "genre_id": "genres"}
    assert invoices.links == {"customer_id": "customers"}
    status, total = invoices.column("STATUS"), invoices.column("total")
    assert status and total
    assert status.values == ("paid", "open", "refunded")
    assert (total.kind, total.type, total.nullable) == ("real", "NUMERIC(10,2)", True)
    assert schema.ignored == {"CREATE INDEX": 1}


def test_a_mysql_dump() -> None:
    schema = schema_of("orders")
    assert len(schema.tables) == 6
    products, orders = schema.table("Products"), schema.table("Orders")
    assert products and orders
    assert products.key == ("ProductID",)
    assert products.links == {"SupplierID": "Suppliers", "CategoryID": "Categories"}
    flag, state = products.column("Discontinued"), orders.column("State")
    assert flag and state
    assert (flag.kind, flag.nullable) == ("bool", False)
    assert state.values == ("new", "shipped", "returned")
    assert schema.ignored == {"DROP TABLE": 1, "INSERT": 1, "CREATE TRIGGER": 1}


def test_a_postgresql_dump() -> None:
    schema = schema_of("film_rental")
    film, customer, cast = schema.table("film"), schema.table("customer"), schema.table("film_actor")
    assert film and customer and cast
    assert film.key == ("film_id",)
    assert film.links == {"language_id": "language"}
    rating, length, year = (film.column(it) for it in ("rating", "length", "release_year"))
    assert rating and length and year
    assert rating.values == ("everyone", "teens", "adults")
    assert (length.low, length.high) == (10, 240)
    assert year.kind == "int"
    chosen = customer.column("plan")
    assert chosen and chosen.values == ("basic", "gold")
    # Nothing declares these: the names say it.
    assert cast.links == {"actor_id": "actor", "film_id": "film"}
    assert {"COPY", "GRANT", "CREATE FUNCTION"} <= set(schema.ignored)


@pytest.mark.parametrize("rows", ["Ann's place", "Ann's\nBob's (", "CREATE TABLE b (x INT);", "Ann"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_rows_of_a_dump_end_at_their_mark(rows: str, end: str) -> None:
    text = (
        "CREATE TABLE a (id int PRIMARY KEY); -- first\n"
        f"COPY public.a (name) FROM stdin;\n{rows}\n\\.\n"
        "CREATE TABLE b (id int PRIMARY KEY, city text);\n"
        "ALTER TABLE ONLY b ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES a(id);\n"
    )
    schema = read(text.replace("\n", end))
    assert [table.name for table in schema.tables] == ["a", "b"]
    assert schema.tables[1].links == {"id": "a"}
    assert schema.ignored == {"COPY": 1}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_script_of_sql_server(encoding: str) -> None:
    """As Management Studio writes it: UTF-16 and Windows' line ends."""
    text = (DDL / "workshop.sql").read_text(encoding="utf-8")
    schema = read_ddl(text.replace("\n", "\r\n").encode(encoding), "workshop.sql")
    assert [table.name for table in schema.tables] == ["Customers", "Jobs", "Parts Used", "Bays", "Tools"]
    customers, jobs, parts, bays, tools = schema.tables
    assert (customers.key, jobs.key, parts.key) == (("CustomerID",), ("JobID",), ("JobID", "LineNo"))
    assert jobs.links == {"CustomerID": "Customers", "BayID": "Bays"}
    assert parts.links == {"JobID": "Jobs"} and tools.links == {"BayID": "Bays"}
    kinds = {column.name: column.kind for table in schema.tables for column in table.columns}
    assert kinds["Company Name"] == "text" and kinds["IsActive"] == "bool" and kinds["Opened"] == "datetime"
    assert kinds["Estimate"] == "real" and kinds["Total"] == "other" and kinds["Token"] == "other"
    amount = parts.column("Quantity")
    assert amount and (amount.type, amount.low, amount.nullable) == ("decimal(18,2)", 0, False)
    length = bays.column("LengthCm")
    assert length and (length.low, length.high) == (300, 900)
    assert {"USE", "SET", "EXEC", "CREATE PROCEDURE", "IF", "GRANT"} == set(schema.ignored)


def test_keys_that_phpmyadmin_adds_together() -> None:
    schema = read(
        "CREATE TABLE album (id int(11) NOT NULL, artist int(11)) ENGINE=InnoDB;"
        "CREATE TABLE artist (id int(11) NOT NULL, rank int(11));"
        "ALTER TABLE artist ADD KEY r (rank), ADD PRIMARY KEY (id);"
        "ALTER TABLE album ADD PRIMARY KEY (id),\n ADD CONSTRAINT c CHECK (id BETWEEN 1 AND 9),\n"
        " ADD CONSTRAINT f FOREIGN KEY (artist) REFERENCES artist (id);"
        "ALTER TABLE album MODIFY id int(11) NOT NULL AUTO_INCREMENT;"
    )
    album, artist = schema.tables
    assert (album.key, artist.key, album.links) == (("id",), ("id",), {"artist": "artist"})
    first = album.column("id")
    assert first and (first.low, first.high) == (1, 9)
    assert schema.ignored == {"ALTER TABLE": 2}


def test_statements_without_an_end() -> None:
    schema = read(
        "CREATE SCHEMA shop CREATE TABLE a (id INT PRIMARY KEY) CREATE TABLE b (id INT, a_id INT)\n"
        "ALTER TABLE b ADD FOREIGN KEY (a_id) REFERENCES a(id) CREATE INDEX i ON b (id)\n/\n"
        "CREATE GLOBAL TEMPORARY TABLE c (x INT)\n/\nGRANT CREATE TABLE TO someone;"
        "CREATE TABLE d (x INT, y TEXT DEFAULT 'CREATE TABLE e (z INT)')"
    )
    assert [table.name for table in schema.tables] == ["a", "b", "c", "d"]
    assert schema.tables[1].links == {"a_id": "a"}
    assert schema.ignored == {"CREATE SCHEMA": 1, "GRANT": 1}


def test_tables_of_a_procedure_are_not_the_schemas() -> None:
    schema = read(
        "CREATE PROCEDURE p() BEGIN CREATE TEMPORARY TABLE t (x INT); DROP TABLE t; END;"
        "CREATE TABLE kept (id INT PRIMARY KEY);"
        "CREATE TRIGGER g AFTER INSERT ON kept BEGIN INSERT INTO kept VALUES (1); END;"
        "CREATE TABLE #session (x INT);"
    )
    assert [table.name for table in schema.tables] == ["kept"]
    assert schema.ignored == {"CREATE PROCEDURE": 1, "CREATE TRIGGER": 1, "CREATE TABLE #": 1}


DEFINED = "CREATE DEFINER=`root`@`localhost` PROCEDURE p(IN n INT)"


@pytest.mark.parametrize(
    "begun",
    [
        DEFINED,
        DEFINED.replace("`root`@`localhost`", "CURRENT_USER()"),
        DEFINED.replace("PROCEDURE p", "EVENT p"),
        "CREATE OR REPLACE ALGORITHM = MERGE DEFINER='a'@'b' SQL SECURITY INVOKER FUNCTION p(n INT)",
    ],
)
def test_tables_of_a_procedure_that_somebody_defined(begun: str) -> None:
    schema = read(
        f"CREATE TABLE kept (id INT PRIMARY KEY);\nDELIMITER ;;\n{begun}\nBEGIN\n"
        "  CREATE TEMPORARY TABLE t (x INT);\n  SELECT 1;\n  DROP TABLE t;\nEND ;;\nDELIMITER ;\n"
        "CREATE TEMPORARY TABLE session (x INT);"
    )
    assert [table.name for table in schema.tables] == ["kept"]
    kind = next(it for it in ("PROCEDURE", "EVENT", "FUNCTION") if it in begun)
    assert schema.ignored == {f"CREATE {kind}": 1, "CREATE TEMPORARY TABLE": 1}


def test_what_sqlite_keeps_for_itself_is_not_the_schemas() -> None:
    """As `sqlite3 FILE .schema` writes it, with single quotes around tables of full-text search."""
    schema = read(
        "CREATE TABLE docs(id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT);\n"
        "CREATE TABLE sqlite_sequence(name,seq);\n"
        "CREATE VIRTUAL TABLE docs_fts USING fts5(title)\n/* docs_fts(title) */;\n"
        "CREATE TABLE IF NOT EXISTS 'docs_fts_data'(id INTEGER PRIMARY KEY, block BLOB);\n"
        "CREATE TABLE IF NOT EXISTS 'docs_fts_idx'(segid, term, PRIMARY KEY(segid, term)) WITHOUT ROWID;\n"
        "CREATE TABLE docs_content(id INT, doc_id INT REFERENCES 'docs'(id));"
    )
    assert [table.name for table in schema.tables] == ["docs", "docs_content"]
    assert schema.tables[1].links == {"doc_id": "docs"}
    assert schema.ignored == {
        "CREATE TABLE sqlite_*": 1, "CREATE VIRTUAL TABLE": 1, "CREATE TABLE of a virtual table": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [
        "code TEXT REFERENCES countries(code)",
        "code TEXT, FOREIGN KEY (code) REFERENCES countries (code)",
        "code TEXT); ALTER TABLE ONLY cities ADD CONSTRAINT c FOREIGN KEY (code) REFERENCES countries(code",
    ],
)
def test_a_reference_to_a_column_that_is_not_the_key_is_not_a_link(said: str) -> None:
    countries = "CREATE TABLE countries (id INTEGER PRIMARY KEY, code CHAR(2) UNIQUE, name TEXT);"
    schema = read(f"{countries} CREATE TABLE cities (id INT PRIMARY KEY, {said});")
    assert schema.tables[1].links == {}
    assert schema.ignored == {"REFERENCES to a column that is not the key": 1}
    keyed = countries.replace("id INTEGER PRIMARY KEY", "id INT").replace("UNIQUE", "PRIMARY KEY")
    for parent in (keyed, keyed.replace("PRIMARY KEY", "UNIQUE")):
        schema = read(f"{parent} CREATE TABLE cities (id INT PRIMARY KEY, {said});")
        assert (schema.tables[0].key, schema.tables[1].links) == (("code",), {"code": "countries"})
        assert not schema.ignored


@pytest.mark.parametrize(
    ("check", "low", "high"),
    [
        ("x BETWEEN -90 AND 90", -90, 90),
        ("x >= -90 AND x <= 90", -90, 90),
        ("x > -50", -50, None),
        ("x < 1e3", None, 1000),
        ("x <= .5", None, 0.5),
        ("0 < t.x AND 10 >= x", 0, 10),
        ("(([x]>=(0) AND [x]<=(1)))", 0, 1),
        ("((x >= (0)::numeric) AND (x <= (500)::numeric(10,2)))", 0, 500),
        ("((x > ('-5'::integer)::double precision))", -5, None),
        ("((`x` >= -(40)) and (`x` <= 60))", -40, 60),
    ],
)
def test_ranges_as_each_system_writes_them(check: str, low: float | None, high: float | None) -> None:
    schema = read(f"CREATE TABLE t (id INT PRIMARY KEY, x NUMERIC CHECK ({check}))")
    column = schema.tables[0].column("x")
    assert column and (column.low, column.high) == (low, high)
    assert not schema.ignored


@pytest.mark.parametrize(
    ("check", "values"),
    [
        ("x IN (-1,0,1,0)", ("-1", "0", "1")),
        ("x IN (0.25, 1000000, NULL)", ("0.25", "1000000")),
        ("([x]='new' OR [x]='it''s')", ("new", "it's")),
        ("((x)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))", ("a", "b")),
        ("(`x` in (_utf8mb4'a',_utf8mb4'='))", ("a", "=")),
    ],
)
def test_values_as_each_system_writes_them(check: str, values: tuple[str, ...]) -> None:
    schema = read(f"CREATE TABLE t (id INT PRIMARY KEY, x TEXT, CONSTRAINT c CHECK ({check}))")
    column = schema.tables[0].column("x")
    assert column and column.values == values
    assert not schema.ignored


@pytest.mark.parametrize(
    "check",
    [
        "x <> 0", "abs(x) < 10", "length(x) IN (2,3)", "x % 2 = 0", "x > y", "x < 3 + 4",
        "x BETWEEN 60 AND -40", "x NOT IN (1)", "x NOT BETWEEN 1 AND 3", "NOT x > 3", "x IN (SELECT 1)",
        "x > 0x10", "x = 1 OR y = 2", "x > 1 OR x IS NULL", "x > 1e999", "z > 3", "x",
    ],
)  # fmt: skip
def test_a_check_that_says_something_else_is_counted(check: str) -> None:
    schema = read(f"CREATE TABLE t (id INT PRIMARY KEY, y INT, x INT CHECK ({check}))")
    assert [(it.values, it.low, it.high) for it in schema.tables[0].columns] == [((), None, None)] * 3
    assert schema.ignored == {"CHECK": 1}


def test_links_that_nothing_declares_need_a_name_and_a_type_that_say_so() -> None:
    schema = read(
        "CREATE TABLE schema_migrations (version varchar PRIMARY KEY);"
        "CREATE TABLE films (film_id INT PRIMARY KEY, version varchar);"
        "CREATE TABLE orders (order_code TEXT PRIMARY KEY, film_id, version varchar);"
        "CREATE TABLE lines (id INT, order_code TEXT, film_id TEXT);"
    )
    assert [table.links for table in schema.tables] == [
        {},
        {},
        {"film_id": "films"},
        {"order_code": "orders"},
    ]


def test_columns_that_are_added_and_types_with_a_schema() -> None:
    schema = read(
        "CREATE TABLE a (id INT PRIMARY KEY, mail public.citext, n pg_catalog.int4,"
        " [rv] [timestamp], t timestamp);"
        "ALTER TABLE a ADD COLUMN IF NOT EXISTS city text NOT NULL, ADD COLUMN city text;"
        "ALTER TABLE [dbo].[a] ADD [size] [int] NULL CHECK ([size]>(3));"
        "ALTER TABLE a ADD DEFAULT ((0)) FOR n; ALTER TABLE a ADD PARTITION (x); ALTER TABLE b ADD c INT;"
    )
    kinds = {column.name: column.kind for column in schema.tables[0].columns}
    assert kinds == {
        "id": "int", "mail": "text", "n": "int", "rv": "other", "t": "datetime", "city": "text",
        "size": "int",
    }  # fmt: skip
    city, size = schema.tables[0].columns[-2:]
    assert (city.nullable, size.low) == (False, 3)
    assert schema.ignored == {"ALTER TABLE": 3}


def test_columns_of_a_domain_have_its_type_and_its_checks() -> None:
    schema = read(
        "CREATE DOMAIN shop.state AS character varying(9) NOT NULL CONSTRAINT c CHECK ((VALUE)::text = ANY"
        " (ARRAY['new'::text, 'sent'::text]));"
        " CREATE DOMAIN stars integer CHECK (VALUE > 0) CHECK (VALUE < 6);"
        " CREATE DOMAIN odd AS pg_catalog.int4 CHECK (VALUE % 2 = 1);"
        " CREATE TABLE t (id int, value text, state shop.state, stars stars DEFAULT 3, odd odd);"
    )
    columns = {it.name: it for it in schema.tables[0].columns}
    assert (columns["state"].kind, columns["state"].values) == ("text", ("new", "sent"))
    assert (columns["stars"].kind, columns["stars"].low, columns["stars"].high) == ("int", 0, 6)
    assert (columns["odd"].kind, columns["value"].values) == ("int", ())
    assert schema.ignored == {"CHECK": 1}


def test_a_check_that_is_added_to_a_domain_is_one_of_its_columns() -> None:
    schema = read(
        "CREATE DOMAIN public.stars AS integer CHECK (VALUE > 0);"
        "ALTER DOMAIN public.stars OWNER TO postgres;"
        "CREATE TABLE t (id int, stars public.stars, value text);"
        "ALTER DOMAIN public.stars ADD CONSTRAINT most CHECK ((VALUE < 6)) NOT VALID;"
        "ALTER DOMAIN public.stars ADD CHECK (VALUE % 2 = 1);"
    )
    stars = schema.tables[0].columns[1]
    assert (stars.kind, stars.low, stars.high) == ("int", 0, 6)
    assert schema.ignored == {"ALTER": 1, "CHECK": 1}


def test_types_that_a_script_of_sql_server_names() -> None:
    schema = read(
        "CREATE TYPE [dbo].[Name] FROM [nvarchar](50) NULL\nGO\nCREATE TYPE dbo.Flag FROM bit NOT NULL\nGO\n"
        "CREATE TYPE [dbo].[Rows] AS TABLE ([id] [int])\nGO\n"
        "CREATE TABLE [Sales].[Person] ([id] [int], [FirstName] [dbo].[Name] NOT NULL, [Active] [dbo].[Flag])"
    )
    assert [it.kind for it in schema.tables[0].columns] == ["int", "text", "bool"]
    assert schema.ignored == {"CREATE TYPE": 1}


def test_names_of_every_kind() -> None:
    schema = read(
        'CREATE TABLE "select" ("group" TEXT, "two words" INT, [from] INT, `key` TEXT, größe INT, key2 TEXT);'
        "CREATE TABLE a.b.c (index TEXT, like INT, self INT REFERENCES c(index));"
        "CREATE TABLE d (key TEXT, period, a DATE, b DATE, PERIOD FOR span (a, b));"
    )
    assert [column.name for column in schema.tables[0].columns] == [
        "group", "two words", "from", "key", "größe", "key2",
    ]  # fmt: skip
    assert [column.name for column in schema.tables[1].columns] == ["index", "like", "self"]
    assert [column.name for column in schema.tables[2].columns] == ["key", "period", "a", "b"]


COLUMNS = {
    "CREATE TABLE t (\n id INT AUTO_INCREMENT, # it's the id\n a INT, #b\n c INT # last\n)": "id a c",
    "CREATE TABLE t (\n id INT, # the id, of a file without other signs of MySQL\n a INT)": "id a",
    "CREATE TABLE t (`id` INT DEFAULT '#', a INT)": "id a",
    "CREATE TABLE [t] ([ID] [int],\n\t[2FAEnabled] [bit],[#Orders] int, [$ Value] money)": (
        "ID 2FAEnabled #Orders $ Value"
    ),
    "CREATE TABLE t (['s] int, [2020] int CHECK ([2020]>(0) AND [2020]<(9)))": "'s 2020",
    "CREATE TABLE t (id INT); ALTER TABLE t ADD [1st] int, CONSTRAINT [%] CHECK ([1st]<(5))": "id 1st",
    "CREATE TABLE t (a int[3], b text [2], c int[] DEFAULT ARRAY[[1,2],[3,4]])": "a b c",
    "CREATE TABLE t (a text[] DEFAULT ARRAY['b'::text, 'c'::text], d int DEFAULT (ARRAY[1])[1])": "a d",
    "CREATE TABLE t ('id' INTEGER, 'full name' TEXT, like)": "id full name like",
    "CREATE TABLE t (a BLOB SUB_TYPE TEXT, b UNSIGNED BIG INT, c interval year to month)": "a b c",
    "CREATE TABLE t (a VARCHAR(9) COLLATE x CHARACTER SET y, b CHAR(3) FOR BIT DATA)": "a b",
    "CREATE TABLE t (a timestamp DEFAULT CURRENT TIMESTAMP, b text DEFAULT 'x'::character varying)": "a b",
    "CREATE TABLE t ([a] [int], INDEX [i] NONCLUSTERED ([a]), INDEX u UNIQUE CLUSTERED (a), [b] int)": "a b",
    "CREATE TABLE t (a int, KEY k USING BTREE (a), key uuid UNIQUE, index int)": "a key index",
    "CREATE TABLE t (a DATE, b DATE, PERIOD SYSTEM_TIME (a, b), c DATE)": "a b c",
    "CREATE TABLE t (a NUMBER(3), SUPPLEMENTAL LOG DATA (ALL) COLUMNS, b DATE)": "a b",
    r"CREATE TABLE t (a text DEFAULT E'it\'s, (', b text)": "a b",
    "CREATE TABLE t (a text DEFAULT q'[it's, (]', b text DEFAULT Nq'!it's!', c text)": "a b c",
    "CREATE TABLE t (\n a INT,\n b INT # it's of a, in c\n)": "a b",
    "CREATE TABLE t (\n a INT DEFAULT '1\nGO\n2', b INT)": "a b",
    "CREATE TABLE shop..t (a INT)": "a",
    "CREATE TABLE t (a INT); ALTER TABLE t ADD b nvarchar(9) NULL, c int, [d] [xml], e xml": "a b c d e",
    "CREATE TABLE t (a INT); ALTER TABLE t ADD (b INT, c NUMBER(3,1)), ADD COLUMN (d DATE)": "a b c d",
    "REM it's\nPROMPT the tables'\nCREATE TABLE t (\nrem int,\nprompt text)": "rem prompt",
    "CREATE TABLE t (a DATE DEFAULT date('now') NOT NULL, b text CONSTRAINT text NOT NULL)": "a b",
}


@pytest.mark.parametrize("ddl", COLUMNS)
def test_no_column_is_lost(ddl: str) -> None:
    schema = read(ddl)
    assert " ".join(column.name for column in schema.tables[0].columns) == COLUMNS[ddl]
    assert not schema.ignored


def test_the_values_of_an_escaped_text_have_no_backslash() -> None:
    schema = read(r"CREATE TABLE `t` (a enum('it\'s','a''b'), b text CHECK (b IN ('c\\d')))")
    assert [column.values for column in schema.tables[0].columns] == [("it's", "a'b"), ("c\\d",)]


def test_numbers_of_oracle_without_decimals() -> None:
    schema = read("CREATE TABLE t (a NUMBER(6), b NUMBER(6,0), c NUMBER(*,0), d NUMBER(6,2), e NUMBER)")
    assert [column.kind for column in schema.tables[0].columns] == ["int", "int", "int", "real", "real"]


def test_statements_that_end_at_another_mark() -> None:
    procedure = "DELIMITER $$\nCREATE PROCEDURE {} () BEGIN SELECT 1; END $$\nDELIMITER ;\n"
    schema = read(
        f"{procedure.format('p')}CREATE TABLE a (id INT);\n{procedure.format('q')}CREATE TABLE b (id INT);"
    )
    assert [table.name for table in schema.tables] == ["a", "b"]
    assert schema.ignored == {"CREATE PROCEDURE": 2}


@pytest.mark.parametrize("name", ["", "k", "`check`"])
def test_constraints_may_have_no_name(name: str) -> None:
    schema = read(
        "CREATE TABLE `a` (id INT); CREATE TABLE b (n INT, a_no INT,"
        f" CONSTRAINT {name} PRIMARY KEY (n), CONSTRAINT {name} FOREIGN KEY (a_no) REFERENCES a (id),"
        f" CONSTRAINT {name} CHECK (n > 3), CONSTRAINT {name} UNIQUE (a_no));"
    )
    table = schema.tables[1]
    assert (table.key, table.links, table.columns[0].low) == (("n",), {"a_no": "a"}, 3)
    assert not schema.ignored


def test_lengths_of_types_and_words_of_an_enumeration_in_double_quotes() -> None:
    table = read(
        'CREATE TABLE `t` (`id` int PRIMARY KEY, a enum("x","y") CHARACTER SET utf8mb4 NOT NULL,\n'
        "b enum('m','f') DEFAULT 'm', c char, d char(3), e character varying(20), f character varying,\n"
        "g varchar(9), h char character set utf8, i nchar, j text) ENGINE=InnoDB"
    ).tables[0]
    columns = {column.name: column for column in table.columns}
    assert (columns["a"].values, columns["b"].values) == (("x", "y"), ("m", "f"))
    lengths = [columns[name].length for name in "cdefghij"]
    assert lengths == [1, 3, 20, None, 9, 1, 1, None]


def test_names_in_brackets_begin_with_any_character() -> None:
    schema = read(
        "CREATE TABLE [dbo].[2020 Sales] ([ID] int PRIMARY KEY);\nGO\n"
        "CREATE TABLE [x] ([% Done] int REFERENCES [dbo].[2020 Sales] ([ID]));\nGO\n"
        "ALTER TABLE [x] ADD CONSTRAINT [1] CHECK ([% Done]>=(0) AND (100)>=[% Done])"
    )
    assert [table.name for table in schema.tables] == ["2020 Sales", "x"]
    assert schema.tables[1].links == {"% Done": "2020 Sales"}
    done = schema.tables[1].column("% Done")
    assert done and (done.low, done.high) == (0, 100)


def test_a_dump_of_postgresql_may_mention_signs_of_mysql() -> None:
    schema = read(
        "-- uses `x`, isn't it\nCOMMENT ON TABLE t IS 'ENGINE=x, # `y`';\n"
        "CREATE TABLE t (a text DEFAULT '\\', b text CHECK (b IN ('c', 'd')));"
    )
    assert [column.values for column in schema.tables[0].columns] == [(), ("c", "d")]


def test_temporary_tables_of_sql_server_begin_no_comment() -> None:
    schema = read("DROP TABLE #a, #b\nGO\nCREATE TABLE #x (id int, n int)\nGO\nCREATE TABLE t (id int)\nGO\n")
    assert [table.name for table in schema.tables] == ["t"]


def test_columns_of_other_tables_are_copied() -> None:
    schema = read(
        "CREATE TABLE a (id int PRIMARY KEY, name text NOT NULL, n int CHECK (n > 3));"
        "CREATE TABLE b (LIKE a, city text);"
        "CREATE TABLE c (state char(2), name varchar(9), CHECK (n < 9)) INHERITS (a, more);"
        "CREATE TABLE d (x int, LIKE public.a INCLUDING DEFAULTS INCLUDING INDEXES);"
        "CREATE TABLE e (LIKE nothing INCLUDING ALL, x int);"
        "CREATE TABLE f (CHECK (n < 100)) INHERITS (a);"
    )
    a, b, c, d, e = schema.tables
    assert [[column.name for column in table.columns] for table in (b, c, d, e)] == [
        ["id", "name", "n", "city"],
        ["id", "n", "state", "name"],
        ["x", "id", "name", "n"],
        ["x"],
    ]
    assert (a.key, b.key, c.key, d.key) == (("id",), (), (), ("id",))
    narrowed = [table.column("n") for table in (a, b, c)]
    assert [(it.low, it.high) for it in narrowed if it] == [(3, None), (3, None), (3, 9)]
    assert schema.ignored == {
        "INHERITS of a table that is not above it": 1,
        "LIKE of a table that is not above it": 1,
        "CREATE TABLE without columns": 1,
    }


def test_a_table_that_only_inherits_has_the_columns_of_its_parents() -> None:
    schema = read(
        "CREATE TABLE app.parent (id serial PRIMARY KEY, name text NOT NULL);"
        "CREATE TABLE other (weight real, ID bigint);"
        "CREATE TABLE child () INHERITS (app.parent);"
        "CREATE TABLE both (extra int) INHERITS (parent, other);"
        'CREATE TABLE keyed (PRIMARY KEY (id)) INHERITS ("child");'
        "CREATE TABLE part (CONSTRAINT y CHECK (id > 3)) INHERITS (parent);"
        "CREATE TABLE lost () INHERITS (auth.parent);"
        "ALTER TABLE app.parent ADD COLUMN made date;"
    )
    assert {table.name: [column.name for column in table.columns] for table in schema.tables} == {
        "parent": ["id", "name", "made"],
        "other": ["weight", "ID"],
        "child": ["id", "name", "made"],
        "both": ["id", "name", "weight", "extra", "made"],
        "keyed": ["id", "name", "made"],
    }
    assert [table.key for table in schema.tables] == [("id",), (), (), (), ("id",)]
    assert schema.ignored == {
        "CREATE TABLE without columns": 2, "INHERITS of a table that is not above it": 1,
    }  # fmt: skip


def test_tables_that_are_like_others() -> None:
    schema = read(
        "CREATE TABLE a (id int PRIMARY KEY, name text);"
        "CREATE TABLE b (LIKE a INCLUDING ALL);"
        "CREATE TABLE c (LIKE a INCLUDING ALL EXCLUDING INDEXES);"
        "CREATE TABLE IF NOT EXISTS d LIKE a;"
        "CREATE TABLE e LIKE nothing;"
    )
    assert [[column.name for column in table.columns] for table in schema.tables] == [["id", "name"]] * 4
    assert [table.key for table in schema.tables] == [("id",), ("id",), (), ("id",)]
    assert schema.ignored == {
        "LIKE of a table that is not above it": 1, "CREATE TABLE without columns": 1,
    }  # fmt: skip


def test_a_table_of_another_schema_is_another_table() -> None:
    schema = read(
        "CREATE TABLE public.users (id int PRIMARY KEY, name text);"
        "CREATE TABLE teams (id int PRIMARY KEY, boss int REFERENCES auth.users (id), lead int);"
        "ALTER TABLE auth.users ADD COLUMN mail text;"
        "ALTER TABLE users ADD COLUMN city text;"
        "ALTER TABLE shop.public.users ADD COLUMN zip text;"
        "ALTER TABLE public.teams ADD FOREIGN KEY (lead) REFERENCES public.users (id);"
        "CREATE TABLE more (LIKE auth.users);"
    )
    users, teams = schema.tables
    assert [column.name for column in users.columns] == ["id", "name", "city", "zip"]
    assert teams.links == {"lead": "users"}
    assert schema.ignored == {
        "ALTER TABLE": 1, "LIKE of a table that is not above it": 1, "CREATE TABLE without columns": 1,
        "REFERENCES to a table without such a key": 1,
    }  # fmt: skip


def test_partitions_are_not_tables() -> None:
    """As pg_dump writes them, and as people do."""
    schema = read(
        "CREATE TABLE public.orders (id int, day date NOT NULL) PARTITION BY RANGE (day);"
        "CREATE TABLE public.orders_2023 (id int, day date NOT NULL) PARTITION BY RANGE (day);"
        "CREATE TABLE old.orders_1 (id int, day date NOT NULL);"
        "CREATE TABLE public.orders_1 (id int, place text);"
        "ALTER TABLE ONLY public.orders ATTACH PARTITION public.orders_2023 FOR VALUES FROM ('1') TO ('2');"
        "ALTER TABLE ONLY public.orders_2023 ATTACH PARTITION old.orders_1 FOR VALUES FROM ('1') TO ('2');"
        "ALTER TABLE ONLY public.orders ADD CONSTRAINT k PRIMARY KEY (id);"
        "CREATE TABLE orders_2024 PARTITION OF orders FOR VALUES FROM ('2') TO ('3');"
        "CREATE TABLE orders_2025 PARTITION OF orders (CHECK (id > 3)) DEFAULT;"
    )
    assert [table.name for table in schema.tables] == ["orders", "orders_1"]
    assert [table.key for table in schema.tables] == [("id",), ()]
    assert schema.ignored == {"partition": 4}


def test_statements_that_could_do_harm_are_counted_and_never_executed(tmp_path: Path) -> None:
    schema = read(
        f"ATTACH DATABASE '{tmp_path}/x.db' AS x; SELECT load_extension('x'); PRAGMA writable_schema=1;"
        "CREATE TABLE t (a TEXT, b INT); CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END;"
        "CREATE VIRTUAL TABLE v USING fts5(x); CREATE TABLE u AS SELECT 1;"
    )
    assert [table.name for table in schema.tables] == ["t"]
    assert schema.ignored == {
        "ATTACH": 1, "SELECT": 1, "PRAGMA": 1, "CREATE TRIGGER": 1, "CREATE VIRTUAL TABLE": 1,
        "CREATE TABLE without columns": 1,
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


WIDE = ", ".join(f"c{number} INT" for number in range(10_000))
MOST = ", ".join(f"c{number} INT" for number in range(MOST_COLUMNS))
MANY = "".join(f"CREATE TABLE t{number} (a TEXT);" for number in range(MOST_TABLES + 1))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no CREATE TABLE"),
        (b"SELECT 1;", "no CREATE TABLE"),
        (b"CREATE TABLE t (a TEXT)\0", "NUL"),
        (b"CREATE TABLE caf\xe9 (x INT)", "line 1: not UTF-8"),
        (b"\xff\xfeC\x00R", "line 1: not UTF-16"),
        (b"-" * (MOST_BYTES + 1), "more than 8 MiB"),
        (b"CREATE TABLE t (\n a TEXT DEFAULT 'x\n);", "line 2: a quoted text or name has no end"),
        (b"CREATE TABLE t (a TEXT) /* ...", "a comment has no end"),
        (b"CREATE TABLE t (a TEXT, b INT", "a parenthesis has no end"),
        (b"CREATE TABLE t (a TEXT, A INT);", "two columns A"),
        (b"CREATE TABLE t (a INT,\n 2fa INT);", "line 2: the table t has '2 fa INT', which is neither"),
        (b"CREATE TABLE t (a INT,\n ... );", "line 2: the table t has '. . .', which is neither"),
        (
            b"CREATE TABLE t (a int primary key\n b text);",
            "line 2: in the table t a comma is missing before 'b'",
        ),
        (b"CREATE TABLE t (a int b text);", "a comma is missing before 'b'"),
        (b"CREATE TABLE t (a varchar(9) [b] [int]);", "a comma is missing before 'b'"),
        (b"CREATE TABLE t (a int DEFAULT 3 b text);", "a comma is missing before 'b'"),
        (
            f"CREATE TABLE a ({MOST}); CREATE TABLE b (x TEXT, LIKE a);".encode(),
            f"more than {MOST_COLUMNS} columns",
        ),
        (
            f"CREATE TABLE a ({MOST}); CREATE TABLE b (x TEXT) INHERITS (a);".encode(),
            "line 1: the table b has more",
        ),
        (
            b"CREATE TABLE t (a TEXT);\nCREATE TABLE T (b INT);",
            "line 2: the table 'T' is created twice, first in line 1",
        ),
        (
            b"CREATE TABLE a.t (a INT);\n\nDROP TABLE a.t; CREATE TABLE A.t (b INT);",
            "'A.t' is created twice, first",
        ),
        (
            b'CREATE TABLE auth.users (a INT);\nCREATE TABLE public."users" (b INT);',
            r"line 2: the tables 'public.users' and 'auth.users' \(line 1\) have the same name",
        ),
        ("CREATE TABLE t (größe INT);".encode("utf-16-le"), "UTF-16 without its byte-order mark"),
        ("CREATE TABLE t (größe INT);".encode("utf-16-be"), "UTF-16 without its byte-order mark"),
        ("CREATE TABLE t (größe INT);".encode("utf-32"), "is UTF-32"),
        (b"\0\0\xfe\xff" + "CREATE TABLE t (größe INT);".encode("utf-32-be"), "is UTF-32"),
        (b"SQLite format 3\0" + bytes(100), "NUL bytes"),
        (b"CREATE TABLE", "a name is missing"),
        (b'CREATE TABLE "a\nb" (x INT);', "cannot be used"),
        (b'CREATE TABLE "a""b" (x INT);', "cannot be used"),
        (b"CREATE TABLE " + b"x" * 2000 + b" (x INT);", "cannot be used"),
        (f"CREATE TABLE t ({WIDE});".encode(), f"more than {MOST_COLUMNS} columns"),
        (MANY.encode(), f"more than {MOST_TABLES} tables"),
        (b"/*" * 500_000, "a comment has no end"),
        (b"CREATE TABLE t (a TEXT DEFAULT q'[x]);", "a quoted text or name has no end"),
        (b"[a," * 500_000, "no CREATE TABLE"),
        (b"CREATE TABLE t (a INT CHECK " + b"(" * 20_000, "a parenthesis has no end"),
    ],
)
def test_hostile_and_broken_files_are_refused_with_what_to_do(data: bytes, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        read_ddl(data, "schema.sql")
    assert refused.value.hint
    assert "schema.sql" in refused.value.message


def test_identifiers_become_words() -> None:
    assert words_of("UnitPrice") == ["unit", "price"]
    assert words_of("cust_qty2") == ["customer", "quantity", "2"]
    assert words_of("HTTPStatusCode") == ["http", "status", "code"]
    assert words_of("größe") == ["größe"]
    assert words_of("annéeNaissance2") == words_of("Anne\u0301e_naissance2") == ["année", "naissance", "2"]
    assert words_of("ÉCOLEMère") == ["école", "mère"]
    assert words_of("città, имяФайла 名前 नाम") == ["città", "имя", "файла", "名前", "नाम"]
    assert table_words("tblOrderLines") == ["order", "line"]
    assert [table_words(name) for name in ("t1", "tbl_2", "t_10_orders")] == [
        ["t1"],
        ["tbl2"],
        ["t10", "order"],
    ]
    assert [table_words(name)[-1] for name in ("categories", "people", "addresses", "status", "movies")] == [
        "category", "person", "address", "status", "movie",
    ]  # fmt: skip


def test_synonyms_are_used_and_those_of_nothing_are_named(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    path.write_text('{"Tracks": ["tune"], "tracks.composer": ["songwriter"], "no_such": ["x"]}')
    words = read_synonyms(path)
    assert words.of_table("tracks") == ("tune",)
    assert words.of_column("tracks", "composer") == ("songwriter",)
    assert words.unused() == ["no_such"]
    assert Synonyms({}).of_table("tracks") == ()


@pytest.mark.parametrize("text", ["", "[1]", '{"a": "b"}', '{"a": ["{v}"]}', '{"a": [1]}', "[" * 100_000])
def test_a_broken_words_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "words.json"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_synonyms(path)
    assert refused.value.hint
