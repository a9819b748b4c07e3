"""Functions that select, find, test, map or count the things in an array."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .conditions import a_one, condition, those
from .functions import Function
from .kinds import Kind
from .over_list import capital, composed, list_name, many, over_list, plural_of
from .task import Composition


def selected(kind: Kind, draw: Draw) -> Function:
    xs, x = list_name(kind, draw), kind.one
    found = condition(kind, draw, x)
    told = draw.one(
        ["returns the {}", "returns only {}", "keeps {}", "filters for {}", "gets all {}", "returns all {}"]
    ).format(those(kind, found, draw))
    name = draw.one(["filter", "select", "only", "get", "pick"]) + capital(kind.plural)
    return over_list(
        kind,
        draw,
        name,
        f"{kind.name}[]",
        f"{xs}.filter(({x}) => {found.code})",
        told,
        1,
        "filter",
        {found.used},
        given=xs,
    )


def mapped(kind: Kind, draw: Draw) -> Function:
    xs, x, prop = list_name(kind, draw), kind.one, kind.pick(draw, "string", "number", "Date")
    several = many(prop)
    told = draw.one(
        [f"returns the {prop.spaced} of each {kind.noun}", f"returns the {several} of all {kind.nouns}", f"lists all {several}",
         f"maps {kind.nouns} to their {prop.spaced}", f"collects the {several}", f"gets an array with the {prop.spaced} of every {kind.noun}"]
    )  # fmt: skip
    name = draw.one(
        [
            kind.one + capital(plural_of(prop.name)),
            "list" + capital(plural_of(prop.name)),
            "get" + capital(plural_of(prop.name)),
        ]
    )
    return over_list(
        kind,
        draw,
        name,
        f"{prop.type}[]",
        f"{xs}.map(({x}) => {x}.{prop.name})",
        told,
        1,
        "map",
        {prop.name},
        given=xs,
    )


def found_first(kind: Kind, draw: Draw) -> Function:
    xs, x = list_name(kind, draw), kind.one
    found = condition(kind, draw, x)
    told = draw.one(
        ["returns the first {}", "finds the first {}", "finds any one {}", "gets the first {}"]
    ).format(a_one(kind, found, draw))
    name = draw.one(["find", "first", "get"]) + kind.name
    return over_list(
        kind,
        draw,
        name,
        f"{kind.name} | undefined",
        f"{xs}.find(({x}) => {found.code})",
        told,
        1,
        "find",
        {found.used},
        given=xs,
    )


def found_by(kind: Kind, draw: Draw) -> Function:
    """By the value of a parameter."""
    xs, x, prop = list_name(kind, draw), kind.one, kind.pick(draw, "string", "number")
    told = draw.one([f"finds the {kind.noun} with the given {prop.spaced}", f"finds {kind.noun} by {prop.spaced}",
                     f"returns the {kind.noun} that has this {prop.spaced}, or undefined", f"looks up a {kind.noun} by its {prop.spaced}"])  # fmt: skip
    name = draw.one(
        [
            f"find{kind.name}",
            f"get{kind.name}By{capital(prop.name)}",
            f"findBy{capital(prop.name)}",
            f"lookUp{kind.name}",
        ]
    )
    return over_list(kind, draw, name, f"{kind.name} | undefined", f"{xs}.find(({x}) => {x}.{prop.name} === {prop.name})", told, 1, "find",
                 {prop.name}, ((prop.name, prop.type),), (f"{xs}.find(({x}) => {prop.name} === {x}.{prop.name})",), given=xs)  # fmt: skip


def selected_by(kind: Kind, draw: Draw) -> Function:
    xs, x, prop = list_name(kind, draw), kind.one, kind.pick(draw, "string", "number")
    sign, param, told = draw.one(
        [("===", prop.name, f"returns the {kind.nouns} with the given {prop.spaced}"), ("===", prop.name, f"filters {kind.nouns} by {prop.spaced}"),
         ("!==", prop.name, f"removes the {kind.noun} with this {prop.spaced}"), ("!==", prop.name, f"returns all {kind.nouns} except those with this {prop.spaced}"),
         (">", "min", f"returns the {kind.nouns} whose {prop.spaced} is greater than min"), ("<", "max", f"returns the {kind.nouns} whose {prop.spaced} is less than max")][: 6 if prop.type == "number" else 4]
    )  # fmt: skip
    verb = "remove" if "removes" in told else draw.one(["filter", "select", "get"])
    name = f"{verb}{capital(kind.plural)}" + (f"By{capital(prop.name)}" if sign == "===" else "")
    return over_list(kind, draw, name, f"{kind.name}[]", f"{xs}.filter(({x}) => {x}.{prop.name} {sign} {param})", told, 2, "filter",
                 {prop.name}, ((param, prop.type),), given=xs)  # fmt: skip


def tested(kind: Kind, draw: Draw) -> Function:
    xs, x, every = list_name(kind, draw), kind.one, draw.chance(0.45)
    found = condition(kind, draw, x)
    if every:
        told = draw.one(["checks that all items are {}", "returns true if all of them are {}"]).format(
            those(kind, found, draw)
        )
        if found.adjective:
            told = draw.one(["checks whether all {} are {}", "returns true if all {} are {}"]).format(
                kind.nouns, found.adjective
            )
    else:
        told = draw.one(
            [
                "checks if there is any {}",
                "returns true if at least one {} exists",
                "checks whether some {} exists",
            ]
        )
        told = told.format(a_one(kind, found, draw))
    name = ("all" if every else draw.one(["any", "has", "some"])) + capital(
        kind.plural if every else kind.name
    )
    return over_list(kind, draw, name, "boolean", f"{xs}.{'every' if every else 'some'}(({x}) => {found.code})", told, 1 if not every else 2,
                 "every" if every else "some", {found.used}, given=xs)  # fmt: skip


def counted(kind: Kind, draw: Draw) -> Function:
    xs, x = list_name(kind, draw), kind.one
    found = condition(kind, draw, x)
    told = draw.one(["counts the {}", "returns how many {} there are", "returns the number of {}"]).format(
        those(kind, found, draw)
    )
    name = draw.one(["count", "numberOf", "total"]) + capital(kind.plural)
    return over_list(
        kind,
        draw,
        name,
        "number",
        f"{xs}.filter(({x}) => {found.code}).length",
        told,
        2,
        "count",
        {found.used},
        given=xs,
    )


def since(kind: Kind, draw: Draw) -> Function:
    """By a date in a parameter."""
    dates = kind.of("Date")
    if not dates:
        return selected_by(kind, draw)
    xs, x, prop, after = list_name(kind, draw), kind.one, draw.one(dates), draw.chance(0.5)
    word, sign, param = ("after", ">", "since") if after else ("before", "<", "limit")
    told = draw.one(
        [
            f"returns the {kind.nouns} whose {prop.name} is {word} {param}",
            f"keeps {kind.nouns} with {prop.name} {word} {param}",
        ]
    )
    body = f"{xs}.filter(({x}) => {x}.{prop.name} {sign} {param})"
    other = f"{xs}.filter(({x}) => {x}.{prop.name}.getTime() {sign} {param}.getTime())"
    return over_list(
        kind,
        draw,
        f"{kind.plural}{capital(word)}",
        f"{kind.name}[]",
        body,
        told,
        2,
        "filter",
        {prop.name},
        ((param, "Date"),),
        (other,),
        given=xs,
    )


def chained(kind: Kind, draw: Draw) -> Function:
    """Select, then map."""
    xs, x, prop = list_name(kind, draw), kind.one, kind.pick(draw, "string", "number")
    found, several = condition(kind, draw, x), many(prop)
    told = draw.one(
        [
            "returns the {} of the {}",
            "lists the {} of all {}",
            "gets the {} of {}",
            "collects the {} of the {}",
        ]
    ).format(several, those(kind, found, draw))
    name = draw.one(["get", "list", "select"]) + capital(plural_of(prop.name))
    body = f"{xs}.filter(({x}) => {found.code}).map(({x}) => {x}.{prop.name})"
    return over_list(
        kind, draw, name, f"{prop.type}[]", body, told, 2, "filter-map", {found.used, prop.name}, given=xs
    )


LISTS: list[tuple[Composition, int]] = [
    (composed(maker), weight)
    for maker, weight in (
        (selected, 6), (mapped, 6), (found_first, 4), (found_by, 4), (selected_by, 2), (tested, 3), (counted, 3), (chained, 3), (since, 1),
    )
]  # fmt: skip
