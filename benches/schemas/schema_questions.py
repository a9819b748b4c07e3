"""Questions by people about three schemas: `schema.sql`, `content.json` and `questions.jsonl` of each folder.

They are written by hand. No generator reads them, and no row that `init --ddl` generates is a copy of one.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.schema_rows.ddl import read_ddl
from expert_worker.schema_rows.scenes import Database
from expert_worker.schema_rows.sql_rows import SYSTEM
from expert_worker.schema_rows.vocabulary import Synonyms

HERE = Path(__file__).resolve().parent
SCHEMAS = ("music_store", "order_entry", "film_rental")


def ddl_of(schema: str) -> Path:
    return HERE / schema / "schema.sql"


@cache
def statements(schema: str) -> dict[str, str]:
    """CREATE TABLE of each table, as the generated rows show it."""
    found = read_ddl(ddl_of(schema).read_bytes(), f"{schema}.sql")
    database = Database(found, Synonyms({}))
    return {table.name: database.statement(table.name) for table in found.tables}


@cache
def content(schema: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((HERE / schema / "content.json").read_text())
    return found


def rows(schema: str, *, shown: bool) -> list[dict[str, Any]]:
    """Test rows: below the tables that the reference names, or the question alone."""
    every = statements(schema)
    found = []
    for line in (HERE / schema / "questions.jsonl").read_text().splitlines():
        one = json.loads(line)
        used = [every[name] for name in every if re.search(rf"\b{name}\b", one["sql"])]
        asked = "\n".join([*used, one["question"]]) if shown else one["question"]
        found.append(
            {
                "messages": conversation(SYSTEM, asked, one["sql"]),
                "tags": ["people", schema],
                "level": one["level"],
                "schema": content(schema),
                "ddl": "\n".join(every.values()),
                "seed": one["seed"],
            }
        )
    return found
