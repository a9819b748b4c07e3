"""A grammar of one SQLite query over the tables of a prompt.

A query of one table may name that table's columns only, and one that joins two by their key the columns of
these, with the table's name where both have the column: the grammar has a scope for each, and an answer's
FROM decides which one holds. A query with aliases, or of more tables, may name any column. What follows WITH
is free, because its names are made up in the answer; so are names in ORDER BY and HAVING after an AS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from .ddl_names import Name, NamedTable, tables_of
from .links import Link, links
from .rules import Rules, literal, template

# Beyond this number of tables and pairs of tables all joins share one scope, beyond this number of tables
# everything: a reader is in all scopes at once until FROM.
MOST_SCOPES = 12
TERMINALS = frozenset(
    "sp ident alias reserved position number string quoted digits made-word composed".split()  # noqa: SIM905
)


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
    known = links(tables)
    joins = _linked_pairs(tables, known)
    found = _free(
        ["joined", *map(_joined, joins), *map(str, single), "derived"],
        ["nested-joined", *(f"nested-{number}" for number in single)],
    )
    found |= {
        "table": _names(table.name for table in tables),
        "column": _names(column for table in tables for column in table.columns),
        "pair": f'{_pairs(tables)} | alias "." (column | "*")',
        "using": 'sp USING sp? "(" column (comma column){0,3} ")"',
        "on-keys": _on(tables, known),
        "on": "on-keys | using",
        "any-join": "join table as? on?",
        **scope("joined"),
        "from-joined": _from_joined(bool(joins), bool(single)),
        # A query inside of another may name the columns of the other's tables.
        **scope("nested-joined"),
        "from-nested-joined": f"table as? any-join{{{1 if single else 0},8}}",
    }
    found |= {f"{rule}-{kind}": rule for rule in ("column", "pair") for kind in ("joined", "nested-joined")}
    for both in joins:
        found |= _pair(tables, both, known)
    for number in single:
        table = tables[number - 1]
        name = _name(table.name)
        for kind, pair, shown in (
            (f"{number}", _pairs([table]), name),
            (f"nested-{number}", "pair", f"{name} as?"),
        ):
            found |= {
                **scope(kind),
                f"column-{kind}": _names(table.columns),
                f"pair-{kind}": pair,
                f"from-{kind}": shown,
            }
    # FROM (SELECT ...): made-up names stand in its functions only, so that no other query begins with one.
    derived = scope("derived")
    return {
        **found,
        **derived,
        "call-derived": derived["call-derived"] + ' | function "(" composed ")"',
        "column-derived": "column",
        "pair-derived": 'alias "." column',
        "from-derived": '"(" compound ")" (sp (AS sp)? name)?',
    }


def _from_joined(pairs: bool, single: bool) -> str:
    """What the scopes of one table and of two do not have: aliases, more tables, other ways to join them."""
    if not single:
        return "table as? any-join{0,8}"
    if not pairs:
        return "table (as any-join{0,8} | any-join{1,8})"
    return (
        "table (as any-join{0,8} | loose table as? on? any-join{0,8}"
        " | linked table (as on? any-join{0,8} | using any-join{0,8} | on-keys any-join{1,8}))"
    )


def _linked_pairs(tables: Sequence[NamedTable], known: Sequence[Link] | None) -> list[tuple[int, int]]:
    """The numbers of two tables that have a key in common; without any known key, of any two."""
    keys = None if known is None else {frozenset((it.table, it.other)) for it in known}
    found = [pair for pair in combinations(range(len(tables)), 2) if keys is None or frozenset(pair) in keys]
    return found if len(tables) + len(found) <= MOST_SCOPES else []


def _pair(
    tables: Sequence[NamedTable], pair: tuple[int, int], known: Sequence[Link] | None
) -> dict[str, str]:
    """Two tables joined by a key, without aliases: a column that both of them have needs its table's name."""
    _, scope = template("sql.txt")
    kind = _joined(pair)
    own = [tables[number] for number in pair]
    times = Counter(column.text.casefold() for table in own for column in table.columns)
    bare = [column for table in own for column in table.columns if times[column.text.casefold()] == 1]

    def compared(number: int, column: Name) -> str:
        alone = "?" if times[column.text.casefold()] == 1 else ""
        return f'({_name(tables[number].name)} "."){alone} {_name(column)}'

    sides = [
        (compared(it.table, it.column), compared(it.other, it.other_column))
        for it in known or ()
        if {it.table, it.other} == {*pair}
    ]
    on = f"sp ON sp ({_either_way(sides)}) (logic expr-{kind})?" if sides else f"sp ON sp expr-{kind}"
    one, two = (_name(table.name) for table in own)
    return {
        **scope(kind),
        f"column-{kind}": _names(bare) if bare else f"pair-{kind}",
        f"pair-{kind}": _pairs(own),
        f"from-{kind}": f"({one} linked {two} | {two} linked {one}) {on}",
    }


def _joined(pair: Sequence[int]) -> str:
    return "-".join(["join", *(str(number + 1) for number in pair)])


def _pairs(tables: Iterable[NamedTable]) -> str:
    return " | ".join(f'{_name(table.name)} "." ({_names(table.columns)} | "*")' for table in tables)


def _on(tables: Sequence[NamedTable], known: Sequence[Link] | None) -> str:
    """A join compares the columns of a foreign key first, where the schema's keys can be recognised."""
    if known is None:
        return "sp ON sp expr-joined"
    sides = [
        (_qualified(tables[it.table], it.column), _qualified(tables[it.other], it.other_column))
        for it in known
    ]
    return f"sp ON sp ({_either_way(sides)}) (logic expr-joined)?"


def _either_way(sides: Iterable[tuple[str, str]]) -> str:
    pairs = (f"{left} compare {right}" for one, two in sides for left, right in ((one, two), (two, one)))
    return " | ".join(dict.fromkeys(pairs))


def _qualified(table: NamedTable, column: Name) -> str:
    return f'(({_name(table.name)} | alias) ".")? {_name(column)}'


def _names(names: Iterable[Name]) -> str:
    return "(" + " | ".join(dict.fromkeys(_name(name) for name in names)) + ")"


def _name(name: Name) -> str:
    """As the statement writes it, and in quotes, as a name may always be written."""
    ways = dict.fromkeys(literal(way) for way in name.written)
    return "(" + " | ".join(ways) + ")"
