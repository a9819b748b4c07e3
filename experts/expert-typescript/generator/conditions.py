"""What a property of a kind is tested for, as code and in words."""

from __future__ import annotations

from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .kinds import Kind, Prop

NUMBERS = {
    ">": ("whose {w} is above {v}", "with a {w} over {v}", "with {w} greater than {v}", "with {w} > {v}", "where {w} is more than {v}", "with more than {v} as {w}"),
    "<": ("whose {w} is below {v}", "with a {w} under {v}", "with {w} less than {v}", "with {w} < {v}", "where {w} is lower than {v}"),
    ">=": ("whose {w} is at least {v}", "with a {w} of {v} or more", "with {w} >= {v}", "where {w} is {v} or higher"),
    "<=": ("whose {w} is at most {v}", "with a {w} of {v} or less", "with {w} <= {v}", "where {w} is up to {v}"),
}  # fmt: skip
TEXTS = ("Oslo", "Lima", "north", "alpha", "B12", "Nora", "Kim", "blue", "beta", "Porto", "main", "Ivy")


@dataclass(frozen=True)
class Condition:
    """`clause` stands after a plural (`whose price is above 5`); `adjective`, if any, before it."""

    code: str
    clause: str
    adjective: str
    used: str


def condition(kind: Kind, draw: Draw, variable: str) -> Condition:
    sort = draw.weighted(("number", "boolean", "choice", "string", "list"), (5, 6, 4, 2, 1))
    found = kind.of({"list": "string[]"}.get(sort, sort)) or kind.of("number", "boolean")
    prop = draw.one([prop for prop in found if prop.name != "id"] or kind.of("boolean"))
    if prop.type == "boolean":
        return _boolean(prop, draw, variable)
    if prop.words:
        word = draw.one(prop.words)
        said = draw.one(
            [
                f"with {prop.spaced} {word}",
                f"whose {prop.spaced} is {word}",
                f'with {prop.spaced} "{word}"',
                f"where {prop.spaced} is '{word}'",
            ]
        )
        return Condition(f'{variable}.{prop.name} === "{word}"', said, "", prop.name)
    if prop.type == "string[]":
        word = draw.one(TEXTS)
        said = draw.one(
            [
                f'whose {prop.spaced} include "{word}"',
                f"with '{word}' among their {prop.spaced}",
                f"whose {prop.spaced} contain '{word}'",
            ]
        )
        return Condition(f'{variable}.{prop.name}.includes("{word}")', said, "", prop.name)
    if prop.type == "string":
        return _string(prop, draw, variable)
    sign, value = (
        draw.one([">", ">", "<", ">=", "<="]),
        draw.one([draw.between(1, 20), 10 * draw.between(2, 30), 0, 100, 1000]),
    )
    if value == 0:
        sign = ">"
    clause = draw.one(NUMBERS[sign][:5]).format(w=prop.spaced, v=value)
    return Condition(f"{variable}.{prop.name} {sign} {value}", clause, "", prop.name)


def _boolean(prop: Prop, draw: Draw, variable: str) -> Condition:
    name, words = f"{variable}.{prop.name}", prop.spaced
    if draw.chance(0.65):
        if prop.adjective:
            return Condition(
                name,
                draw.one([f"that are {words}", f"where {words} is true", f"which are {words}"]),
                words,
                prop.name,
            )
        return Condition(
            name,
            draw.one([f"where {words} is true", f"with {words} set", f"whose {words} is true"]),
            "",
            prop.name,
        )
    if prop.adjective:
        return Condition(
            f"!{name}",
            draw.one([f"that are not {words}", f"where {words} is false", f"which are not {words}"]),
            "",
            prop.name,
        )
    return Condition(
        f"!{name}", draw.one([f"where {words} is false", f"whose {words} is false"]), "", prop.name
    )


def _string(prop: Prop, draw: Draw, variable: str) -> Condition:
    word = draw.one(TEXTS)
    name, said = f"{variable}.{prop.name}", prop.spaced
    test = draw.one(["equal", "equal", "start", "contain", "end"])
    if test == "equal":
        return Condition(
            f'{name} === "{word}"',
            draw.one([f'whose {said} is "{word}"', f"with {said} {word}", f"where {said} equals '{word}'"]),
            "",
            prop.name,
        )
    if test == "start":
        return Condition(
            f'{name}.startsWith("{word}")',
            draw.one([f'whose {said} starts with "{word}"', f"with a {said} that begins with '{word}'"]),
            "",
            prop.name,
        )
    if test == "end":
        return Condition(f'{name}.endsWith("{word}")', f'whose {said} ends with "{word}"', "", prop.name)
    return Condition(
        f'{name}.includes("{word}")',
        draw.one([f'whose {said} contains "{word}"', f"with '{word}' in the {said}"]),
        "",
        prop.name,
    )


def those(kind: Kind, found: Condition, draw: Draw) -> str:
    """`paid invoices` or `invoices whose amount is above 10`."""
    if found.adjective and draw.chance(0.6):
        return f"{found.adjective} {kind.nouns}"
    return f"{kind.nouns} {found.clause}"


def a_one(kind: Kind, found: Condition, draw: Draw) -> str:
    """One of them: `invoice whose amount is above 10`."""
    clause = (
        found.clause.replace("that are ", "that is ")
        .replace("which are ", "which is ")
        .replace("among their", "among its")
    )
    if found.adjective and draw.chance(0.4):
        return f"{found.adjective} {kind.noun}"
    return f"{kind.noun} {clause}"
