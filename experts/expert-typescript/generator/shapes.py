"""Interfaces and object types from descriptions: in a sentence, as a list, as a table."""

from __future__ import annotations

from dataclasses import replace

from expert_worker.evaluate.authoring.draw import Draw

from .kinds import Kind, Prop, declaration, members
from .task import Composition, Task
from .wording import DEMAND, article, facts, fields, lines, phrase, typed, words_of_union

INTERFACE = (
    DEMAND
    + " [an|a TypeScript|an] interface {name} [with|with the properties|with these fields:|that has] {fields}.",
    DEMAND + " an interface [called|named] {name} [with|that has|with fields] {fields}.",
    DEMAND + " an interface for a {noun}: {fields}. [Call it|Name it|The name is] {name}.",
    "Interface {name}: {fields}",
    DEMAND + " an interface for {a_noun} with {fields}.",
    "TypeScript interface for {a_noun}: {fields}",
    "Interface {name} with {fields}",
    "TypeScript interface for {a_noun} ({name}) with {fields}",
    "interface {name}, [fields|properties] {fields}",
    "{A_noun} has {fields}. [Write|Define|Give me|Create] the interface {name}.",
    "How do I [write|declare] an interface {name} with {fields}?",
    DEMAND + " an interface {name} where {facts}.",
    "Interface {name}: {facts}",
    "In {a_noun}, {facts}. [Write|Define|Give me] the interface {name}.",
    "What does an interface {name} with {fields} look like?",
    "Add an interface {name} with {fields}.",
    "Model {a_noun} as an interface {name}: {fields}",
    "{name} interface: {fields}",
    "Turn this into an interface {name}: {fields}",
)
ALIAS = (
    DEMAND + " a type alias {name} [with|for an object with] {fields}.",
    DEMAND + " an object type {name} with {fields}, [using type|as a type alias|not an interface].",
    "Type alias {name} [for an object with|with] {fields}",
    "type {name} = object with {fields}",
    "How do I [write|declare] a type alias {name} for an object with {fields}?",
    "Object type {name}: {fields} (use a type alias)",
    "[Use|With] the type keyword: {name} has {fields}",
)
LISTED = (
    DEMAND + " [an interface|a TypeScript interface] {name} with these [fields|properties]:",
    "Interface {name} with [these|the following] [fields|properties]:",
    "interface {name} from this list",
    "Turn this [list|field list] into an interface [called|named] {name}:",
    "Convert these fields to a TypeScript interface, name it {name}.",
    "[Make|Write|Generate] the interface {name} from these [fields|columns]:",
    "What is the interface {name} for these fields?",
)


def _names(kind: Kind) -> dict[str, str]:
    a_noun = article(kind.noun)
    return {"name": kind.name, "noun": kind.noun, "a_noun": a_noun, "A_noun": a_noun[0].upper() + a_noun[1:]}


def _task(kind: Kind, draw: Draw, props: list[Prop], level: int, tag: str) -> Task:
    """An interface, or in a sixth of all cases a type alias, asked for in one sentence."""
    as_alias = draw.chance(0.17)
    answer = f"type {kind.name} = {members(props)};" if as_alias else declaration(kind.name, props)
    template = draw.one(ALIAS if as_alias else INTERFACE)
    said = phrase(template, draw, fields=fields(props, draw), facts=facts(props, draw), **_names(kind))
    question = typed(said, draw, answer)
    return Task(
        question, answer, level, (("type-alias" if as_alias else "interface"), *([tag] if tag else []))
    )


def interface(kind: Kind, draw: Draw) -> Task:
    props = kind.some(draw, 2, 5)
    if draw.chance(0.3):
        props = draw.shuffled(props)
    return _task(kind, draw, props, 1, "")


def optional(kind: Kind, draw: Draw) -> Task:
    """Some properties may be left out: said in the list, or in a sentence after it."""
    props = kind.some(draw, 2, 5)
    chosen = {prop.name for prop in draw.some(props, draw.between(1, min(2, len(props) - 1)))}
    marked = [replace(prop, optional=prop.name in chosen) for prop in props]
    if draw.chance(0.5):
        return _task(kind, draw, marked, 2, "optional-property")
    names = " and ".join(prop.name for prop in marked if prop.optional)
    verb = "are" if len(chosen) > 1 else "is"
    note = draw.one(
        [
            f"; {names} {verb} optional",
            f", {names} optional",
            f". {names} can be missing",
            f" ({names} {verb} optional)",
        ]
    )
    return _noted(kind, draw, props, marked, note, "optional-property")


def readonly(kind: Kind, draw: Draw) -> Task:
    props = kind.some(draw, 2, 4)
    everything = draw.chance(0.35)
    chosen = {prop.name for prop in (props if everything else draw.some(props, 1))}
    marked = [replace(prop, readonly=prop.name in chosen) for prop in props]
    name = next(prop.name for prop in marked if prop.readonly)
    note = (
        draw.one(
            ["; all readonly", ", all properties readonly", "; every property is readonly", " (all readonly)"]
        )
        if everything
        else draw.one(
            [
                f"; {name} is readonly",
                f", {name} readonly",
                f" ({name} must not change, so readonly)",
                f"; make {name} readonly",
            ]
        )
    )
    return _noted(kind, draw, props, marked, note, "readonly-property")


def nullable(kind: Kind, draw: Draw) -> Task:
    """A property that may be null."""
    props = kind.some(draw, 2, 4)
    candidates = [prop for prop in props if prop.type in ("string", "number", "Date")] or props[:1]
    one = draw.one(candidates)
    marked = [replace(prop, type=f"{prop.type} | null", words=()) if prop is one else prop for prop in props]
    note = draw.one(
        [
            f"; {one.name} can be null",
            f", {one.name} may be null",
            f" ({one.name} is nullable)",
            f"; {one.name} or null",
        ]
    )
    return _noted(kind, draw, props, marked, note, "nullable")


def _noted(kind: Kind, draw: Draw, props: list[Prop], marked: list[Prop], note: str, tag: str) -> Task:
    """Plain properties, and one sentence after them that says what the marked ones are."""
    answer = declaration(kind.name, marked)
    said = phrase(draw.one(INTERFACE[:7]), draw, fields=fields(props, draw) + note, **_names(kind))
    return Task(typed(said, draw, answer), answer, 2, ("interface", tag))


def listed(kind: Kind, draw: Draw) -> Task:
    """The same from a list of lines or a table."""
    props = kind.some(draw, 3, 6, optional=draw.chance(0.5))
    answer = declaration(kind.name, props)
    said = phrase(draw.one(LISTED), draw, **_names(kind))
    level = 2 if any(prop.optional for prop in props) else 1
    return Task(typed(said, draw, answer, lines(props, draw)), answer, level, ("interface", "from-list"))


def choice(kind: Kind, draw: Draw) -> Task:
    """With a union of literals among the properties."""
    props = [*kind.some(draw, 1, 3), kind.pick(draw, "choice")]
    distinct = list({prop.name: prop for prop in props}.values())
    return _task(kind, draw, distinct, 2, "literal-property")


def nested(kind: Kind, draw: Draw) -> Task:
    """An object inside: its properties come from the rest of the kind."""
    props = kind.some(draw, 3, 5)
    cut = draw.between(1, len(props) - 2)
    group = draw.one(["details", "meta", "info", "data", "options", "settings", "profile", "extra"])
    outer, inner = props[:cut], [prop for prop in props[cut:] if not prop.words] or props[cut:]
    inside = "{ " + "; ".join(prop.line for prop in inner) + " }"
    answer = declaration(kind.name, [*outer, Prop(group, inside)])
    told = phrase(
        draw.one(
            [
                "{outer} and [an object|a nested object] {group} with {inner}",
                "{outer}, and {group}, [which is|] an object with {inner}",
                "{outer}, plus a nested {group} [object|] holding {inner}",
                "{outer}; {group} is an object with {inner}",
            ]
        ),
        draw,
        outer=fields(outer, draw),
        group=group,
        inner=fields(inner, draw),
    )
    said = phrase(draw.one(INTERFACE[:7]), draw, fields=told, **_names(kind))
    return Task(typed(said, draw, answer), answer, 3, ("interface", "nested"))


def extends(kind: Kind, draw: Draw) -> Task:
    name = (
        draw.one(["Admin", "Detailed", "Extended", "Full", "New", "Archived", "Draft", "Special"]) + kind.name
    )
    props = kind.some(draw, 1, 3)
    answer = f"interface {name} extends {kind.name} {members(props)}"
    template = draw.one(
        [
            DEMAND + " an interface {name} that extends {base} [with|and adds] {fields}.",
            "Interface {name} extends {base}, [adds|with|plus] {fields}",
            "Extend {base} with {fields} as interface {name}",
            "{name} is {a_base} that also has {fields}. [Write the interface|Use extends].",
            "How do I extend the interface {base} to {name} with {fields}?",
            "[Add|Create|Make] an interface {name} on top of {base}: {fields}, [using|use] extends",
        ]
    )
    said = phrase(
        template, draw, name=name, base=kind.name, a_base=article(kind.name), fields=fields(props, draw)
    )
    others = [prop for prop in kind.props if prop.name not in {own.name for own in props}][:2]
    return Task(typed(said, draw, answer), answer, 2, ("extends",), (), declaration(kind.name, others))


def with_method(kind: Kind, draw: Draw) -> Task:
    """An interface with a function as a property."""
    props = kind.some(draw, 1, 3)
    event = draw.one(
        ["onChange", "onClose", "onSave", "onSelect", "save", "validate", "format", "reset", "compare"]
    )
    argument, result = draw.one(
        [("", "void"), ("value: string", "void"), ("id: number", "boolean"), ("text: string", "string"), ("", "Promise<void>"),
         ("count: number", "number")]
    )  # fmt: skip
    kind_of = f"({argument}) => {result}"
    takes = f"takes {argument.replace(': ', ' (')})" if argument else "takes nothing"
    gives = "returns nothing" if result == "void" else f"returns {result}"
    told = draw.one(
        [
            f"{event}: {kind_of}",
            f"{event}, a function that {takes} and {gives}",
            f"a function {event} that {takes} and {gives}",
        ]
    )
    answer = declaration(kind.name, [*props, Prop(event, kind_of)])
    method = answer.replace(f"{event}: {kind_of}", f"{event}({argument}): {result}")
    said = phrase(draw.one(INTERFACE[:7]), draw, fields=f"{fields(props, draw)} and {told}", **_names(kind))
    also = () if f"{event}: " in told else (method,)
    return Task(typed(said, draw, answer), answer, 3, ("interface", "function-property"), also)


def indexed(kind: Kind, draw: Draw) -> Task:
    """An index signature: keys of any name, values of one type."""
    value = draw.one(["number", "string", "boolean", "string[]", kind.name])
    name = f"{kind.name}{draw.one(['Map', 'Table', 'Dictionary', 'Cache', 'Lookup', 'Counts'])}"
    answer = f"interface {name} {{\n  [key: string]: {value};\n}}"
    template = draw.one(
        [
            DEMAND
            + " an interface {name} [with an index signature|whose keys are any strings], [values are|with values of type] {value}.",
            "Interface {name} with an index signature from string to {value}",
            "interface {name}: any string key, {value} values",
        ]
    )
    said = phrase(template, draw, name=name, value=value)
    return Task(
        typed(said, draw, answer),
        answer,
        3,
        ("index-signature",),
        (),
        declaration(kind.name, list(kind.props)),
    )


def union_in_words(kind: Kind, draw: Draw) -> Task:
    """One property that is one of some words, in plain language."""
    one = kind.pick(draw, "choice")
    first = kind.pick(draw, "string", "number")
    answer = declaration(kind.name, [first, one])
    told = phrase(
        draw.one(
            [
                "{first} ({type}) and {one}, which [is|can be|can only be] {words}",
                "{first}: {type}, {one}: {words}",
                "{type} {first} and {one} {words}",
            ]
        ),
        draw,
        first=first.name,
        type=first.type,
        one=one.name,
        words=words_of_union(one.words, draw),
    )
    said = phrase(draw.one(INTERFACE[:7]), draw, fields=told, **_names(kind))
    return Task(typed(said, draw, answer), answer, 2, ("interface", "literal-property"))


EDITS = {
    "add": ("Add {field} to this [interface|type]", "[Extend|Change] this interface, it also needs {field}", "This interface [also needs|is missing] {field}", "add {field}", "Can you add {field} here?"),
    "optional": ("Make {name} optional", "{name} should be optional", "{name} may be missing, change that here", "How do I make {name} optional?"),
    "readonly": ("Make {name} readonly", "{name} must not change, make it readonly", "{name} should be readonly", "Mark {name} as readonly"),
    "remove": ("Remove {name} from this [interface|type]", "[Drop|Delete] the property {name}", "Same without {name}", "We don't need {name} any more, remove it"),
}  # fmt: skip


def edited(kind: Kind, draw: Draw) -> Task:
    """A declaration with one property added, removed or changed."""
    props, what = kind.some(draw, 3, 5), draw.one(["add", "add", "optional", "readonly", "remove"])
    at = draw.below(len(props))
    one, before, after = props[at], list(props), list(props)
    if what == "add":
        one = props[-1]
        before = props[:-1]
    elif what == "remove":
        del after[at]
    else:
        after[at] = replace(one, optional=what == "optional", readonly=what == "readonly")
    said = phrase(draw.one(EDITS[what]), draw, name=one.name, field=fields([one], draw))
    answer = declaration(kind.name, after)
    return Task(typed(said, draw, answer, declaration(kind.name, before)), answer, 1, ("edit-interface",))


SHAPES: list[tuple[Composition, int]] = [
    (interface, 20), (optional, 4), (readonly, 2), (nullable, 2), (listed, 6), (choice, 3), (nested, 3),
    (extends, 2), (with_method, 2), (indexed, 1), (union_in_words, 2), (edited, 4),
]  # fmt: skip
