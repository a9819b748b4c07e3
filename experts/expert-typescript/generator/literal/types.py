"""From a description to a type."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity, Field, quoted
from .task import Composition, Task


def _fields(entity: Entity, draw: Draw, low: int, high: int) -> list[Field]:
    return draw.some(entity.fields, draw.between(low, high))


def _said(field: Field) -> str:
    if "|" in field.kind:
        return f"{field.name} (one of {quoted(field.words)})"
    return f"{field.name} ({'list of strings' if field.kind == 'string[]' else field.kind})"


def _members(lines: list[str]) -> str:
    return "{\n" + "".join(f"  {line};\n" for line in lines) + "}"


def interface(entity: Entity, draw: Draw) -> Task:
    fields = _fields(entity, draw, 2, 4)
    body = _members([f"{field.name}: {field.type}" for field in fields])
    question = f"Interface {entity.name} with {', '.join(map(_said, fields))}."
    return Task(question, f"interface {entity.name} {body}", 1, ("interface",))


def optional(entity: Entity, draw: Draw) -> Task:
    fields = _fields(entity, draw, 2, 4)
    free = draw.some([field.name for field in fields], draw.between(1, 2))
    body = _members([f"{field.name}{'?' if field.name in free else ''}: {field.type}" for field in fields])
    question = f"Interface {entity.name} with {', '.join(map(_said, fields))}; {' and '.join(free)} optional."
    return Task(question, f"interface {entity.name} {body}", 2, ("optional-field",))


def readonly(entity: Entity, draw: Draw) -> Task:
    fields = _fields(entity, draw, 2, 4)
    fixed = draw.some([field.name for field in fields], draw.between(1, 2))
    body = _members(
        [f"{'readonly ' if field.name in fixed else ''}{field.name}: {field.type}" for field in fields]
    )
    question = (
        f"Interface {entity.name} with {', '.join(map(_said, fields))}; {' and '.join(fixed)} readonly."
    )
    return Task(question, f"interface {entity.name} {body}", 2, ("readonly-field",))


def extends(entity: Entity, draw: Draw) -> Task:
    fields = _fields(entity, draw, 1, 3)
    name = f"{draw.one(['Rare', 'Local', 'Old', 'Basic', 'Public'])}{entity.name}"
    body = _members([f"{field.name}: {field.type}" for field in fields])
    question = f"Interface {name} that extends {entity.name} with {', '.join(map(_said, fields))}."
    return Task(
        question,
        f"interface {name} extends {entity.name} {body}",
        2,
        ("extends",),
        (),
        entity.declared(set()),
    )


def alias(entity: Entity, draw: Draw) -> Task:
    fields = _fields(entity, draw, 2, 4)
    body = _members([f"{field.name}: {field.type}" for field in fields])
    question = f"Type alias {entity.name} with {', '.join(map(_said, fields))}."
    return Task(question, f"type {entity.name} = {body};", 1, ("type-alias",))


def utility(entity: Entity, draw: Draw) -> Task:
    """Pick or Omit, Partial or Required or Readonly, alone or one inside the other in either order."""
    names = [field.name for field in _fields(entity, draw, 1, 3)]
    kind, change = draw.one(["Pick", "Omit"]), draw.one(["Partial", "Required", "Readonly"])
    keys = " | ".join(f'"{name}"' for name in names)
    cut = f"{'with only' if kind == 'Pick' else 'without'} {quoted(names)}"
    changed = f"all fields {'optional' if change == 'Partial' else change.lower()}"
    name, alone = f"{entity.name}{draw.one(['View', 'Draft', 'Patch', 'Summary'])}", draw.chance(0.4)
    if alone:
        code, said, other = f"{kind}<{entity.name}, {keys}>", cut, None
    else:
        code, said = f"{change}<{kind}<{entity.name}, {keys}>>", f"{cut}, {changed}"
        other = f"{kind}<{change}<{entity.name}>, {keys}>"
    context = entity.declared({field.name for field in entity.fields})
    also = (f"type {name} = {other};",) if other else ()
    return Task(
        f"Type alias {name}: {entity.name} {said}. Use utility types.",
        f"type {name} = {code};", 3, ("utility-type",), also, context,
    )  # fmt: skip


def function_type(entity: Entity, draw: Draw) -> Task:
    result = draw.one(["boolean", "string", "number", "void", f"{entity.name}[]", f"Promise<{entity.name}>"])
    extra = draw.one([[], ["index: number"], ["key: string"], ["count: number", "key: string"]])
    asynchronous = result.startswith("Promise")
    arguments = [f"{entity.variable}: {entity.name}", *extra]
    name = f"{entity.name}{draw.one(['Handler', 'Callback', 'Mapper', 'Check'])}"
    told = ", ".join(argument.replace(": ", " (") + ")" for argument in arguments)
    what = f"a promise of {entity.name}" if asynchronous else result
    question = f"Function type {name}: takes {told}, returns {what}."
    return Task(
        question,
        f"type {name} = ({', '.join(arguments)}) => {result};",
        3,
        ("function-type",),
        (),
        entity.declared(set()),
    )


def generic(entity: Entity, draw: Draw) -> Task:
    name = f"{draw.one(['Page', 'Box', 'Result', 'Batch'])}Of{entity.name}"
    held = draw.one([("items", "T[]", "list of T"), ("value", "T", "T"), ("first", "T | null", "T or null")])
    fields = [field for field in _fields(entity, draw, 1, 3) if field.name != held[0]]
    lines = [f"{held[0]}: {held[1]}", *(f"{field.name}: {field.type}" for field in fields)]
    question = f"Generic interface {name} over T with {held[0]} ({held[2]}), {', '.join(map(_said, fields))}."
    return Task(question, f"interface {name}<T> {_members(lines)}", 3, ("generic",))


def nested(entity: Entity, draw: Draw) -> Task:
    outer, inner = _fields(entity, draw, 1, 2), _fields(entity, draw, 1, 3)
    group = draw.one(["details", "meta", "info"])
    inside = "; ".join(f"{field.name}: {field.type}" for field in inner)
    lines = [*(f"{field.name}: {field.type}" for field in outer), f"{group}: {{ {inside} }}"]
    question = (
        f"Interface {entity.name} with {', '.join(map(_said, outer))}, and an object {group} with "
        f"{', '.join(map(_said, inner))}."
    )
    return Task(question, f"interface {entity.name} {_members(lines)}", 3, ("nested",))


def guard(entity: Entity, draw: Draw) -> Task:
    """A type guard that looks at one, two or three fields."""
    fields = [
        field for field in draw.shuffled(entity.fields) if field.kind in ("string", "number", "boolean")
    ]
    fields = fields[: draw.between(1, 3)]
    one = entity.variable
    checks = " && ".join(f'typeof {one}.{field.name} === "{field.kind}"' for field in fields)
    name = f"is{entity.name}"
    told = ", ".join(f"{field.name} ({field.kind})" for field in fields)
    question = f"Type guard {name}({one}: any) for {entity.name}: checks the types of {told}."
    answer = f"function {name}({one}: any): {one} is {entity.name} {{\n  return {checks};\n}}"
    return Task(question, answer, 4, ("type-guard",), (), entity.declared({field.name for field in fields}))


def record(entity: Entity, draw: Draw) -> Task:
    keys = draw.one([entity.of(draw, "choice").type, "string", "number"])
    value = draw.one([entity.name, f"{entity.name}[]", "number", "string[]", f"{entity.name} | undefined"])
    name = f"{entity.name}{draw.one(['Index', 'Table', 'Lookup'])}"
    said = keys.replace(" | ", ", ")
    question = f"Type alias {name}: a Record from {said} to {value}."
    return Task(
        question, f"type {name} = Record<{keys}, {value}>;", 2, ("record-type",), (), entity.declared(set())
    )


def enumeration(entity: Entity, draw: Draw) -> Task:
    words = draw.some([*entity.of(draw, "choice").words, *entity.words], draw.between(2, 5))
    name = f"{entity.name}{draw.one(['Kind', 'State', 'Mode'])}"
    if draw.chance(0.5):
        body = "".join(f'  {word.capitalize()} = "{word}",\n' for word in words)
        return Task(f"String enum {name} with {quoted(words)}.", f"enum {name} {{\n{body}}}", 2, ("enum",))
    union = " | ".join(f'"{word}"' for word in words)
    return Task(f"Union type {name} of {quoted(words)}.", f"type {name} = {union};", 1, ("union-type",))


TYPES: list[Composition] = [
    interface, optional, readonly, extends, alias, utility, function_type, generic, nested, guard, record, enumeration,
]  # fmt: skip
