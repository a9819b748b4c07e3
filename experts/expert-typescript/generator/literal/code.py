"""From a signature and a comment to a function; from one way of writing to another."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity, capital
from .pipeline import ENDS, Pipeline, pipeline, tests
from .task import Composition, Task

VERBS = {
    "filter": "select",
    "sort": "sorted",
    "record": "table",
    "flat": "all",
    "some": "has",
    "index": "position",
}


def _name(entity: Entity, made: Pipeline) -> str:
    end = made.tags[0]
    return f"{VERBS.get(end, end)}{capital(entity.plural)}"


def _function(name: str, entity: Entity, made: Pipeline) -> str:
    return f"function {name}({entity.plural}: {entity.name}[]): {made.type} {{\n  return {made.code};\n}}"


def _arrow(name: str, entity: Entity, made: Pipeline) -> str:
    return f"const {name} = ({entity.plural}: {entity.name}[]): {made.type} => {made.code};"


def implementations() -> list[Composition]:
    return [_implement(end) for end in ENDS]


def _implement(end: str) -> Composition:
    def composition(entity: Entity, draw: Draw) -> Task:
        made = pipeline(entity, draw, end)
        name, context = _name(entity, made), entity.declared(set(made.used))
        signature = f"function {name}({entity.plural}: {entity.name}[]): {made.type}"
        question = f"{context}\n// {made.text}\n{signature}"
        level = {"filter": 1, "map": 2, "count": 1, "find": 1, "some": 1, "index": 1}.get(end, 3)
        return Task(question, _function(name, entity, made), level, made.tags, (), context)

    return composition


def to_arrow(entity: Entity, draw: Draw) -> Task:
    made = pipeline(entity, draw, draw.one(["filter", "map", "count", "find", "some"]))
    name = _name(entity, made)
    question = f"Turn this into an arrow function:\n{_function(name, entity, made)}"
    return Task(question, _arrow(name, entity, made), 2, ("to-arrow",), (), entity.declared(set(made.used)))


def to_function(entity: Entity, draw: Draw) -> Task:
    made = pipeline(entity, draw, draw.one(["filter", "map", "count", "find", "some"]))
    name = _name(entity, made)
    question = f"Turn this into a function declaration:\n{_arrow(name, entity, made)}"
    return Task(
        question, _function(name, entity, made), 2, ("to-function",), (), entity.declared(set(made.used))
    )


def from_loop(entity: Entity, draw: Draw) -> Task:
    """A loop that pushes becomes filter, with map where only a field is pushed."""
    found, one = tests(entity, draw, draw.between(1, 2)), entity.variable
    field = entity.of(draw, "string", "number") if draw.chance(0.5) else None
    pushed, kind = (f"{one}.{field.name}", field.type) if field else (one, entity.name)
    name = f"select{capital(entity.plural)}"
    head = f"function {name}({entity.plural}: {entity.name}[]): {kind}[] {{"
    loop = (
        f"{head}\n  const result: {kind}[] = [];\n  for (const {one} of {entity.plural}) {{\n"
        f"    if ({found.code}) result.push({pushed});\n  }}\n  return result;\n}}"
    )
    chain = f"{entity.plural}.filter(({one}) => {found.code})" + (
        f".map(({one}) => {pushed})" if field else ""
    )
    used = {*found.field.split(" "), *([field.name] if field else [])}
    answer = f"{head}\n  return {chain};\n}}"
    question = f"Replace the loop with array methods:\n{loop}"
    return Task(question, answer, 4, ("from-loop",), (), entity.declared(used))


def to_await(entity: Entity, draw: Draw) -> Task:
    found, one = tests(entity, draw, 1), entity.plural
    path = draw.one(
        [f"/{entity.plural}", f"/api/{entity.plural}", f"/{draw.one(entity.words)}/{entity.plural}"]
    )
    name, kind = f"load{capital(entity.plural)}", f"Promise<{entity.name}[]>"
    filtered = f"{one}.filter(({entity.variable}) => {found.code})"
    given = f'function {name}(): {kind} {{\n  return fetch("{path}").then((response) => response.json()).then(({one}) => {filtered});\n}}'
    answer = (
        f'async function {name}(): {kind} {{\n  const response = await fetch("{path}");\n'
        f"  const {one} = await response.json();\n  return {filtered};\n}}"
    )
    typed = answer.replace(f"const {one} =", f"const {one}: {entity.name}[] =")
    context = entity.declared({found.field})
    # Without a type, strict checking would call the filter's parameter an implicit any.
    return Task(f"Use async and await:\n{given}", typed, 4, ("to-await",), (answer,), context)


def to_template(entity: Entity, draw: Draw) -> Task:
    first, second = draw.some(
        [field.name for field in entity.fields if field.kind in ("string", "number")], 2
    )
    one, word = entity.variable, draw.one(entity.words)
    name = f"describe{entity.name}"
    head = f"function {name}({one}: {entity.name}): string {{"
    middle = draw.one([" is ", " has ", ": ", " / ", f" {word} "])
    tail = draw.one(["", f" {word}", "!"])
    plus = f' + "{tail}"' if tail else ""
    start, lead = (f'"{capital(word)} " + ', f"{capital(word)} ") if draw.chance(0.4) else ("", "")
    given = f'{head}\n  return {start}{one}.{first} + "{middle}" + {one}.{second}{plus};\n}}'
    answer = f"{head}\n  return `{lead}${{{one}.{first}}}{middle}${{{one}.{second}}}{tail}`;\n}}"
    return Task(
        f"Use a template literal:\n{given}", answer, 2, ("to-template",), (), entity.declared({first, second})
    )


def to_ternary(entity: Entity, draw: Draw) -> Task:
    found, one = tests(entity, draw, draw.between(1, 2)), entity.variable
    left, right = draw.some(entity.words, 2)
    name = f"label{entity.name}"
    head = f"function {name}({one}: {entity.name}): string {{"
    given = (
        f'{head}\n  if ({found.code}) {{\n    return "{left}";\n  }} else {{\n    return "{right}";\n  }}\n}}'
    )
    answer = f'{head}\n  return {found.code} ? "{left}" : "{right}";\n}}'
    return Task(
        f"Use a conditional expression:\n{given}",
        answer,
        3,
        ("to-ternary",),
        (),
        entity.declared(set(found.field.split(" "))),
    )


def to_optional(entity: Entity, draw: Draw) -> Task:
    field, one = entity.of(draw, "string", "number"), entity.variable
    fallback = f'"{draw.one(entity.words)}"' if field.kind == "string" else str(draw.between(0, 9))
    name = f"{field.name}Of{entity.name}"
    head = f"function {name}({one}: {entity.name} | null): {field.type} {{"
    given = f"{head}\n  return {one} !== null ? {one}.{field.name} : {fallback};\n}}"
    answer = f"{head}\n  return {one}?.{field.name} ?? {fallback};\n}}"
    return Task(f"Use ?. and ??:\n{given}", answer, 2, ("to-optional",), (), entity.declared({field.name}))


def to_destructuring(entity: Entity, draw: Draw) -> Task:
    fields = draw.some([field.name for field in entity.fields], draw.between(2, 3))
    one, name = entity.variable, f"show{entity.name}"
    head = f"function {name}({one}: {entity.name}): void {{"
    lines = "".join(f"\n  const {field} = {one}.{field};" for field in fields)
    shown = f"\n  console.log({', '.join(draw.shuffled(fields))});\n}}"
    answer = f"{head}\n  const {{ {', '.join(fields)} }} = {one};{shown}"
    return Task(
        f"Use destructuring:\n{head}{lines}{shown}",
        answer,
        2,
        ("to-destructuring",),
        (),
        entity.declared(set(fields)),
    )


REFACTORINGS: list[Composition] = [
    to_arrow, to_function, from_loop, to_await, to_template, to_ternary, to_optional, to_destructuring,
]  # fmt: skip
