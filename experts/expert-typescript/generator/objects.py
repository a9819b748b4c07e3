"""Small functions about one object of a kind, type guards for it, and classes."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .conditions import condition
from .functions import Function, asked
from .kinds import Kind, Prop
from .task import Composition, Task
from .wording import fields, phrase, typed

GUARD = (
    "[Write|Create|Make|I need] a type guard {signature} that checks {told}.",
    "Type guard {signature}: checks {told}",
    "Implement the type guard {signature}, [check|checking] {told}",
    "How do I write a type guard {signature} that checks {told}?",
    "type guard {signature}, true if {told_is}",
)
CLASS = (
    "[Write|Create|Make|I need] a class {name} with {what} {fields}, set in the constructor.",
    "Class {name} with {what} {fields}, [initialized|assigned] in the constructor",
    "class {name}: constructor takes {fields} and stores them as {what} properties",
    "How do I write a class {name} whose constructor sets the {what} properties {fields}?",
)
SHORT = (
    "[Write|Create|Make] a class {name} with constructor parameter properties: {what} {fields}.",
    "Class {name} using parameter properties ({what}): {fields}",
    "class {name} with {what} {fields}, use [parameter properties|the shorthand in the constructor]",
)


def is_true(kind: Kind, draw: Draw) -> Task:
    """Whether one object has some property."""
    x = draw.one([kind.one, kind.one, "item"])
    found = condition(kind, draw, x)
    if found.adjective:
        told = draw.one(
            [f"checks if the {kind.noun} is {found.adjective}", f"returns whether {x} is {found.adjective}"]
        )
    else:
        told = draw.one(["checks for {}", "returns true for {}"]).format(f"{kind.nouns} {found.clause}")
    name = draw.one(["is", "check", "accepts", "has"]) + draw.one(
        ["Ok", "Match", kind.name, "Relevant", "Allowed"]
    )
    made = Function(name, ((x, kind.name),), "boolean", (f"return {found.code};",), told, 1, ("predicate",),
                    context=kind.declared({prop.name for prop in kind.props}), shown=kind.declared({found.used} | {prop.name for prop in kind.simple() if draw.chance(0.2)}))  # fmt: skip
    return asked(made, draw)


def described(kind: Kind, draw: Draw) -> Task:
    x, (first, second) = kind.one, draw.some(kind.of("string", "number"), 2)
    between = draw.one([" - ", ": ", ", ", " / ", " "])
    said = "a space" if between == " " else f'"{between}"'
    told = draw.one(
        [
            f"returns {first.name} and {second.name} joined by {said}",
            f"formats the {kind.noun} as {first.name}, then {said}, then {second.name}",
        ]
    )
    made = Function(
        draw.one(["format", "describe", "label", "print"]) + kind.name, ((x, kind.name),), "string",
        (f"return `${{{x}.{first.name}}}{between}${{{x}.{second.name}}}`;",), told, 2, ("format",),
        others=(f'return {x}.{first.name} + "{between}" + {x}.{second.name};',),
        context=kind.declared({prop.name for prop in kind.props}), shown=kind.declared({first.name, second.name}),
    )  # fmt: skip
    return asked(made, draw)


def changed(kind: Kind, draw: Draw) -> Task:
    """A copy with another value."""
    x, prop = (
        kind.one,
        draw.one([prop for prop in kind.of("string", "number", "boolean", "Date") if prop.name != "id"]),
    )
    own = prop.name[0].upper() + prop.name[1:]
    params: tuple[tuple[str, str], ...] = ((x, kind.name), (prop.name, prop.type))
    body = f"{{ ...{x}, {prop.name} }}"
    if prop.type == "boolean" and draw.chance(0.6):
        told = f"returns a copy of {x} with {prop.name} flipped"
        params, body = params[:1], f"{{ ...{x}, {prop.name}: !{x}.{prop.name} }}"
    else:
        told = draw.one(
            [
                f"returns a copy of {x} with the new {prop.name}",
                f"sets {prop.name} without changing {x} and returns the copy",
            ]
        )
    name = ("toggle" if len(params) == 1 else draw.one(["with", "set"])) + own
    made = Function(name, params, kind.name, (f"return {body};",), told, 3, ("copy",), context=kind.declared({one.name for one in kind.props}),
                    shown=kind.declared({prop.name, draw.one(kind.simple()).name}))  # fmt: skip
    return asked(made, draw)


def guard(kind: Kind, draw: Draw) -> Task:
    """A type guard for an `any` by the types of one to three properties."""
    props = draw.some(kind.of("string", "number", "boolean"), draw.between(1, 3))
    x = draw.one(["value", "x", "input", "data"])
    signature = f"is{kind.name}({x}: any): {x} is {kind.name}"
    checks = " && ".join(f'typeof {x}.{prop.name} === "{prop.type}"' for prop in props)
    answer = f"function {signature} {{\n  return {checks};\n}}"
    told = " and ".join(f"that {prop.name} is a {prop.type}" for prop in props)
    said = phrase(draw.one(GUARD), draw, signature=signature, told=told, told_is=told.replace("that ", ""))
    return Task(
        typed(said, draw, answer),
        answer,
        3,
        ("type-guard",),
        (),
        kind.declared({prop.name for prop in kind.props}),
    )


def union_guard(kind: Kind, draw: Draw) -> Task:
    """A type guard for a union of literals with includes on an array."""
    one = kind.pick(draw, "choice")
    name = kind.name + one.name[0].upper() + one.name[1:]
    shown = f"type {name} = {one.type};"
    tests = " || ".join(f'value === "{word}"' for word in one.words)
    signature = f"is{name}(value: string): value is {name}"
    answer = f"function {signature} {{\n  return {tests};\n}}"
    said = phrase(
        draw.one(
            [
                "Type guard {signature}, compare with === and ||",
                "[Write|Implement] the type guard {signature} with === and ||",
                "How do I write the type guard {signature}? [Use|with] === and ||",
            ]
        ),
        draw,
        signature=signature,
    )
    return Task(typed(said, draw, answer, shown), answer, 3, ("type-guard",), (), shown)


def _constructor(props: list[Prop], modifier: str) -> str:
    own = "".join(f"  {modifier}{prop.name}: {prop.type};\n" for prop in props)
    given = ", ".join(f"{prop.name}: {prop.type}" for prop in props)
    sets = "".join(f"    this.{prop.name} = {prop.name};\n" for prop in props)
    return f"{own}\n  constructor({given}) {{\n{sets}  }}\n"


def klass(kind: Kind, draw: Draw) -> Task:
    props = kind.some(draw, 1, 2)
    what = draw.one(["public", "private", "readonly"])
    modifier = "" if what == "public" else f"{what} "
    answer = f"class {kind.name} {{\n{_constructor(props, modifier)}}}"
    said = phrase(draw.one(CLASS), draw, name=kind.name, what=what, fields=fields(props, draw))
    also = (
        (
            answer.replace("\n  constructor", "@")
            .replace("  ", "  public ", len(props))
            .replace("@", "\n  constructor"),
        )
        if what == "public"
        else ()
    )
    return Task(typed(said, draw, answer), answer, 3, ("class",), also)


def short_class(kind: Kind, draw: Draw) -> Task:
    props = kind.some(draw, 1, 3)
    what = draw.one(["public", "private", "private readonly", "public readonly"])
    given = ", ".join(f"{what} {prop.name}: {prop.type}" for prop in props)
    answer = f"class {kind.name} {{\n  constructor({given}) {{}}\n}}"
    said = phrase(draw.one(SHORT), draw, name=kind.name, what=what, fields=fields(props, draw))
    return Task(typed(said, draw, answer), answer, 3, ("class",))


def fetched(kind: Kind, draw: Draw) -> Task:
    """An async wrapper around fetch for a kind."""
    by_id = draw.chance(0.6)
    key = draw.one(["string", "number"])
    path = draw.one([f"/api/{kind.plural}", f"/{kind.plural}"])
    name = draw.one(["fetch", "get", "load"]) + (
        kind.name if by_id else kind.plural[0].upper() + kind.plural[1:]
    )
    result = kind.name if by_id else f"{kind.name}[]"
    call = f"fetch(`{path}/${{id}}`)" if by_id else f'fetch("{path}")'
    told = (
        f"fetches {path}/ followed by the id and returns the JSON"
        if by_id
        else draw.one([f"fetches {path} and returns the JSON", f"loads the {kind.nouns} from {path} as JSON"])
    )
    body = (f"const response = await {call};", "return response.json();")
    made = Function(name, (("id", key),) if by_id else (), f"Promise<{result}>", body, told, 3, ("fetch",), asynchronous=True,
                    others=(f"const response = await {call}; return await response.json();", f"const response = await {call}; return (await response.json()) as {result};", f"return (await {call}).json();"), context=kind.declared({"id"}))  # fmt: skip
    return asked(made, draw)


OBJECTS: list[tuple[Composition, int]] = [
    (is_true, 3), (described, 2), (changed, 2), (guard, 2), (union_guard, 1), (klass, 2), (short_class, 1), (fetched, 2),
]  # fmt: skip
