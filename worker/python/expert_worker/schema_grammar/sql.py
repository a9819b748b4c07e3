"""A grammar of one SQLite query over the tables of a prompt.

A query of one table may name that table's columns only, and one of several tables any of theirs: the grammar
has a scope for each, and an answer's FROM decides which one holds. What follows WITH is free, because its
names are made up in the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .ddl_names import Name, NamedTable, tables_of
from .links import links
from .rules import Rules, literal, template

# Beyond this number of tables all of them share one scope.
MOST_SCOPES = 12
TERMINALS = frozenset(["sp", "ident", "alias", "number", "string", "quoted", "digits"])


def rules(prompt: str) -> Rules:
    """Without a schema in the prompt, names are free."""
    tables = tables_of(prompt)
    return Rules(_with_names(tables) if tables else _free(["free"], ["free"]), TERMINALS)


def _free(choices: Sequence[str], nested: Sequence[str]) -> dict[str, str]:
    """The rules without any table: only what follows WITH, or every query."""
    common, scope = template("sql.txt")
    alias = "(sp (AS sp)? name)?"
    return {
        **common,
        "select": " | ".join(f"select-{choice}" for choice in choices),
        "select-nested": " | ".join(f"select-{choice}" for choice in nested),
        **scope("free"),
        "inner-free": "compound | compound-free",
        "column-free": "name",
        "pair-free": 'name "." (name | "*")',
        "from-free": f"source-free {alias} (join source-free {alias} on-free?){{0,8}}",
        "on-free": 'sp ON sp expr-free | sp USING sp? "(" name ")"',
        "source-free": 'name | "(" (compound | compound-free) ")"',
    }


def _with_names(tables: Sequence[NamedTable]) -> dict[str, str]:
    _, scope = template("sql.txt")
    single = range(1, len(tables) + 1) if len(tables) <= MOST_SCOPES else range(0)
    found = _free(
        ["joined", *map(str, single), "derived"], ["joined", *(f"nested-{number}" for number in single)]
    )
    alias = "(sp (AS sp)? alias)?"
    pairs = " | ".join(f'{_name(table.name)} "." ({_names(table.columns)} | "*")' for table in tables)
    found |= {
        "table": _names(table.name for table in tables),
        "column": _names(column for table in tables for column in table.columns),
        "pair": f'{pairs} | alias "." (column | "*")',
        **scope("joined"),
        "column-joined": "column",
        "pair-joined": "pair",
        "from-joined": f"table {alias} (join table {alias} on-joined?){{{1 if single else 0},8}}",
        "on-joined": f'{_on(tables)} | sp USING sp? "(" column ")"',
    }
    for number in single:
        table = tables[number - 1]
        name = _name(table.name)
        own = f'({name} | alias) "." (column-{number} | "*")'
        # A query inside of another may name the columns of the other's tables.
        for kind, pair in ((f"{number}", own), (f"nested-{number}", "pair")):
            found |= {
                **scope(kind),
                f"column-{kind}": _names(table.columns),
                f"pair-{kind}": pair,
                f"from-{kind}": f"{name} {alias}",
            }
    # FROM (SELECT ...): made-up names stand in its functions only, so that no other query begins with one.
    derived = scope("derived")
    return {
        **found,
        **derived,
        "call-derived": derived["call-derived"] + ' | function "(" made-up ")"',
        "column-derived": "column",
        "pair-derived": 'alias "." column',
        "from-derived": '"(" compound ")" (sp (AS sp)? name)?',
    }


def _on(tables: Sequence[NamedTable]) -> str:
    """A join compares the columns of a foreign key first, where the schema's keys can be recognised."""
    known = links(tables)
    if known is None:
        return "sp ON sp expr-joined"
    sides = [
        (_qualified(tables[it.table], it.column), _qualified(tables[it.other], it.other_column))
        for it in known
    ]
    pairs = dict.fromkeys(
        f"{left} compare {right}" for one, two in sides for left, right in ((one, two), (two, one))
    )
    return f"sp ON sp ({' | '.join(pairs)}) (logic expr-joined)?"


def _qualified(table: NamedTable, column: Name) -> str:
    return f'(({_name(table.name)} | alias) ".")? {_name(column)}'


def _names(names: Iterable[Name]) -> str:
    return "(" + " | ".join(dict.fromkeys(_name(name) for name in names)) + ")"


def _name(name: Name) -> str:
    """As the statement writes it, and in quotes, as a name may always be written."""
    ways = dict.fromkeys(literal(way) for way in name.written)
    return "(" + " | ".join(ways) + ")"
