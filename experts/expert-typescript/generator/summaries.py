"""Functions that add up, sort, index or change what is in an array."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .functions import Function
from .kinds import Kind
from .lists import mapped
from .over_list import capital, composed, list_name, many, over_list, plural_of
from .task import Composition


def summed(kind: Kind, draw: Draw) -> Function:
    xs, x, prop = list_name(kind, draw), kind.one, kind.amount(draw)
    total = f"{xs}.reduce((sum, {x}) => sum + {x}.{prop.name}, 0)"
    if draw.chance(0.3):
        told = draw.one(
            [f"returns the average {prop.spaced}", f"computes the mean {prop.spaced} of the {kind.nouns}"]
        )
        return over_list(
            kind,
            draw,
            "average" + capital(prop.name),
            "number",
            f"{total} / {xs}.length",
            told,
            3,
            "average",
            {prop.name},
            given=xs,
        )
    told = draw.one([f"adds up the {prop.spaced} of all {kind.nouns}", f"returns the total {prop.spaced}", f"sums the {prop.spaced} of the {kind.nouns}",
                     f"computes the sum of {prop.spaced} over all {kind.nouns}"])  # fmt: skip
    other = f"{xs}.reduce((sum, {x}) => {x}.{prop.name} + sum, 0)"
    return over_list(
        kind,
        draw,
        draw.one(["total", "sum", "sumOf"]) + capital(prop.name),
        "number",
        total,
        told,
        2,
        "sum",
        {prop.name},
        (),
        (other,),
        given=xs,
    )


def extreme(kind: Kind, draw: Draw) -> Function:
    xs, x, prop, most = list_name(kind, draw), kind.one, kind.amount(draw), draw.chance(0.6)
    word = draw.one(["highest", "largest", "maximum"] if most else ["lowest", "smallest", "minimum"])
    told = draw.one(
        [f"returns the {word} {prop.spaced}", f"finds the {word} {prop.spaced} of all {kind.nouns}"]
    )
    body = f"Math.{'max' if most else 'min'}(...{xs}.map(({x}) => {x}.{prop.name}))"
    return over_list(
        kind, draw, f"{word}{capital(prop.name)}", "number", body, told, 3, "maximum", {prop.name}, given=xs
    )


def ordered(kind: Kind, draw: Draw) -> Function:
    xs, prop, down = list_name(kind, draw), kind.pick(draw, "number", "string", "Date"), draw.chance(0.4)
    first, second = ("b", "a") if down else ("a", "b")
    compare, low, high = {
        "number": (f"{first}.{prop.name} - {second}.{prop.name}", "lowest first", "highest first"),
        "string": (f"{first}.{prop.name}.localeCompare({second}.{prop.name})", "from A to Z", "from Z to A"),
        "Date": (
            f"{first}.{prop.name}.getTime() - {second}.{prop.name}.getTime()",
            "oldest first",
            "newest first",
        ),
    }[prop.type]
    way = (
        draw.one([high, "descending", "in descending order"])
        if down
        else draw.one([low, "ascending", "in ascending order"])
    )
    told = draw.one([f"returns a copy sorted by {prop.spaced}, {way}", f"sorts the {kind.nouns} by {prop.spaced} ({way}) without changing the array",
                     f"returns the {kind.nouns} sorted by {prop.spaced}, {way}, as a new array"])  # fmt: skip
    name = draw.one(["sortBy", "orderBy", f"sort{capital(kind.plural)}By"]) + capital(prop.name)
    sorting = f".sort((a, b) => {compare})"
    if prop.type == "number" and draw.chance(0.25):
        told = draw.one(
            [
                f"returns the top count {kind.nouns} by {prop.spaced}",
                f"returns the count {kind.nouns} with the highest {prop.spaced}, highest first",
            ]
        )
        sorting = f".sort((a, b) => b.{prop.name} - a.{prop.name}).slice(0, count)"
        return over_list(
            kind,
            draw,
            f"top{capital(kind.plural)}",
            f"{kind.name}[]",
            f"[...{xs}]{sorting}",
            told,
            3,
            "top",
            {prop.name},
            (("count", "number"),),
            (f"{xs}.slice(){sorting}",),
            given=xs,
        )
    return over_list(
        kind,
        draw,
        name,
        f"{kind.name}[]",
        f"[...{xs}]{sorting}",
        told,
        2,
        "sort",
        {prop.name},
        (),
        (f"{xs}.slice(){sorting}", f"{xs}.toSorted((a, b) => {compare})"),
        given=xs,
    )


def distinct(kind: Kind, draw: Draw) -> Function:
    xs, x, prop = list_name(kind, draw), kind.one, kind.pick(draw, "string", "number")
    several = many(prop)
    told = draw.one(
        [
            f"returns the distinct {several} using a Set",
            f"returns all different {several}, without duplicates (Set)",
            f"lists the unique {several}, using a Set",
        ]
    )
    body = f"{xs}.map(({x}) => {x}.{prop.name})"
    return over_list(
        kind,
        draw,
        draw.one(["unique", "distinct", "different"]) + capital(plural_of(prop.name)),
        f"{prop.type}[]",
        f"[...new Set({body})]",
        told,
        3,
        "unique",
        {prop.name},
        (),
        (f"Array.from(new Set({body}))",),
        given=xs,
    )


def flattened(kind: Kind, draw: Draw) -> Function:
    found = kind.of("string[]", "number[]")
    if not found:
        return mapped(kind, draw)
    xs, x, prop = list_name(kind, draw), kind.one, draw.one(found)
    told = draw.one(
        [
            f"returns all {prop.spaced} of all {kind.nouns} in one array",
            f"collects the {prop.spaced} of every {kind.noun} into a flat array",
        ]
    )
    return over_list(
        kind,
        draw,
        f"all{capital(prop.name)}",
        prop.type,
        f"{xs}.flatMap(({x}) => {x}.{prop.name})",
        told,
        3,
        "flat-map",
        {prop.name},
        (),
        (f"{xs}.map(({x}) => {x}.{prop.name}).flat()",),
        given=xs,
    )


def by_key(kind: Kind, draw: Draw) -> Function:
    xs, x, prop = list_name(kind, draw), kind.one, kind.pick(draw, "string")
    if draw.chance(0.5):
        told = draw.one(
            [
                f"builds a Map from {prop.spaced} to {kind.noun}",
                f"returns a Map of the {kind.nouns} keyed by {prop.spaced}",
            ]
        )
        return over_list(
            kind,
            draw,
            f"{kind.plural}By{capital(prop.name)}",
            f"Map<string, {kind.name}>",
            f"new Map({xs}.map(({x}) => [{x}.{prop.name}, {x}]))",
            told,
            4,
            "index",
            {prop.name},
            given=xs,
        )
    told = draw.one(
        [
            f"builds an object from {prop.spaced} to {kind.noun} with Object.fromEntries",
            f"indexes the {kind.nouns} by {prop.spaced} using Object.fromEntries",
        ]
    )
    return over_list(
        kind,
        draw,
        f"index{capital(kind.plural)}",
        f"Record<string, {kind.name}>",
        f"Object.fromEntries({xs}.map(({x}) => [{x}.{prop.name}, {x}]))",
        told,
        4,
        "index",
        {prop.name},
        given=xs,
    )


def replaced(kind: Kind, draw: Draw) -> Function:
    """Immutable changes of a list, as state is kept in user interfaces."""
    xs, x = list_name(kind, draw), kind.one
    key = next((prop for prop in kind.props if prop.name == "id"), kind.pick(draw, "string"))
    same = f"{x}.{key.name} === {key.name}"
    booleans = kind.of("boolean")
    if booleans and draw.chance(0.5):
        flag = draw.one(booleans)
        told = draw.one(
            [
                f"toggles {flag.name} of the {kind.noun} with this {key.spaced} and returns a new array",
                f"returns a new array in which {flag.name} of the {kind.noun} with the given {key.spaced} is flipped",
            ]
        )
        body = f"{xs}.map(({x}) => ({same} ? {{ ...{x}, {flag.name}: !{x}.{flag.name} }} : {x}))"
        return over_list(
            kind,
            draw,
            f"toggle{capital(flag.name)}",
            f"{kind.name}[]",
            body,
            told,
            4,
            "immutable-update",
            {key.name, flag.name},
            ((key.name, key.type),),
            given=xs,
        )
    told = draw.one(
        [
            f"returns a new array in which the {kind.noun} with this {key.spaced} has the changes applied",
            f"applies changes to the {kind.noun} with the given {key.spaced} without mutation",
        ]
    )
    body = f"{xs}.map(({x}) => ({same} ? {{ ...{x}, ...changes }} : {x}))"
    return over_list(
        kind,
        draw,
        f"update{kind.name}",
        f"{kind.name}[]",
        body,
        told,
        4,
        "immutable-update",
        {key.name},
        ((key.name, key.type), ("changes", f"Partial<{kind.name}>")),
        given=xs,
    )


SUMMARIES: list[tuple[Composition, int]] = [
    (composed(maker), weight)
    for maker, weight in (
        (summed, 3), (extreme, 1), (ordered, 3), (distinct, 1), (flattened, 1), (by_key, 1), (replaced, 2),
    )
]  # fmt: skip
