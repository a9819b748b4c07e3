"""Unions of literals, enums, records, tuples, discriminated unions."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .kinds import Kind, Prop, literals
from .task import Composition, Task
from .wording import DEMAND, article, phrase, typed, words_of_union

UNION = (
    DEMAND + " [a union type|a type|a string literal type|a union] {name} [of|for|with] {words}.",
    "Union type {name}: {words}",
    "type {name} that can be {words}",
    "type {name} = {words}",
    "A {name} is {words}. [Write|Give me] the union type.",
    "[The|A] {noun} can only be {words}. [Write|Define] a type {name} for it.",
    "How do I [write|declare] a type {name} that [only allows|allows only] {words}?",
    "String literal union {name} with {words}",
    "Restrict {name} to {words} with a type",
    "{name}: one of {words}, as a [union type|union of string literals]",
    "What is the type {name} if only {words} are allowed?",
    "Literal type {name}, values {words}",
)
ENUM = (
    DEMAND
    + " [a string enum|a TypeScript enum with string values|an enum with string values] {name} [with|for] {words}, [members capitalized|with capitalized member names].",
    "String enum {name}: {members} with values {words}",
    "enum {name} with members {members} and the string values {words}",
    "[Make|Create] a string enum {name} with {members}, values {words}",
    "String enum {name} ({words}), member names capitalized",
)
NUMERIC_ENUM = (
    DEMAND + " [an enum|a plain enum|a numeric enum] {name} with [members|the members|] {members}.",
    "Enum {name}: {members}",
    "enum {name} with {members}",
    "How do I declare an enum {name} with {members}?",
    "[Numeric|Plain] enum {name} with {members}",
)
RECORD = (
    DEMAND + " a type {name} that maps {keys_said} to {value}, [use|using] Record.",
    "Record type {name} from {keys_said} to {value}",
    "type {name} = Record with {keys_said} as keys and {value} as values",
    "type {name}: a Record from {keys_said} to {value}",
    "[Dictionary|Map|Lookup] type {name}, keys {keys_said}, values {value} (Record)",
    "How do I type {name} as a Record of {keys_said} to {value}?",
)
SUFFIXES = ("Status", "State", "Kind", "Type", "Mode", "Level", "Role", "Option", "Category", "Phase")


def _name(kind: Kind, one: Prop, draw: Draw) -> str:
    own = one.name[0].upper() + one.name[1:]
    return kind.name + (own if draw.chance(0.6) else draw.one(SUFFIXES))


def _words(kind: Kind, draw: Draw) -> tuple[Prop, list[str]]:
    """The words of a property, sometimes without its last or with one more."""
    one = kind.pick(draw, "choice")
    words = list(one.words)
    extra = [word for word in ("unknown", "none", "other", "all", "custom", "any-other") if word not in words]
    if draw.chance(0.35):
        words += draw.some(extra, draw.between(1, 2))
    return one, draw.shuffled(words) if draw.chance(0.3) else words


def union(kind: Kind, draw: Draw) -> Task:
    one, words = _words(kind, draw)
    name = _name(kind, one, draw)
    answer = f"type {name} = {literals(words)};"
    said = phrase(
        draw.one(UNION),
        draw,
        name=name,
        noun=f"{one.spaced} of {article(kind.noun)}",
        words=words_of_union(words, draw),
    )
    return Task(typed(said, draw, answer, keep=" ".join(words)), answer, 1, ("union",))


def number_union(kind: Kind, draw: Draw) -> Task:
    numbers = sorted(draw.some(range(1, 13), draw.between(2, 5)))
    name = kind.name + draw.one(["Size", "Rating", "Step", "Count", "Columns", "Priority", "Stars"])
    said_numbers = [str(number) for number in numbers]
    told = draw.one(
        [
            ", ".join(said_numbers[:-1]) + " or " + said_numbers[-1],
            " | ".join(said_numbers),
            ", ".join(said_numbers),
        ]
    )
    answer = f"type {name} = {' | '.join(said_numbers)};"
    template = (
        draw.one([*UNION[:4], *UNION[8:9]])
        .replace("string literal", "numeric literal")
        .replace("String literal", "Number literal")
    )
    return Task(
        typed(phrase(template, draw, name=name, words=told, noun=kind.noun), draw, answer),
        answer,
        1,
        ("union",),
    )


def of_types(kind: Kind, draw: Draw) -> Task:
    """A union of types: `string | number`, `Invoice | null`."""
    first, second = draw.some(["string", "number", "boolean", "Date", kind.name, f"{kind.name}[]"], 2)
    parts = [first, second, *draw.one([[], [], ["null"], ["undefined"]])]
    name = kind.name + draw.one(["Id", "Value", "Input", "Key", "Result", "Source"])
    told = draw.one(
        [
            ", ".join(parts[:-1]) + " or " + parts[-1],
            " | ".join(parts),
            f"either {', '.join(parts[:-1])} or {parts[-1]}",
        ]
    )
    answer = f"type {name} = {' | '.join(parts)};"
    template = draw.one(
        [
            DEMAND + " a type {name} that is {words}.",
            "Union type {name} of {words}",
            "type {name}, {words}",
            "{name} can be {words}, [write the type|what is the type?]",
        ]
    )
    return Task(
        typed(phrase(template, draw, name=name, words=told), draw, answer),
        answer,
        1,
        ("union-of-types",),
        (),
        kind.declared({"id"}),
    )


def _capital(word: str) -> str:
    return "".join(part[0].upper() + part[1:] for part in word.lower().split("-"))


def enumeration(kind: Kind, draw: Draw) -> Task:
    one, words = _words(kind, draw)
    name = _name(kind, one, draw)
    if draw.chance(0.35):
        answer = f"enum {name} {{\n" + "".join(f"  {_capital(word)},\n" for word in words) + "}"
        shown = ", ".join(map(_capital, words))
        return Task(
            typed(phrase(draw.one(NUMERIC_ENUM), draw, name=name, members=shown), draw, answer),
            answer,
            1,
            ("enum",),
        )
    answer = f"enum {name} {{\n" + "".join(f'  {_capital(word)} = "{word}",\n' for word in words) + "}"
    mark = draw.one(['"', "'"])
    said = phrase(
        draw.one(ENUM),
        draw,
        name=name,
        members=", ".join(map(_capital, words)),
        words=", ".join(f"{mark}{word}{mark}" for word in words),
    )
    return Task(typed(said, draw, answer, keep=" ".join(words)), answer, 1, ("enum",))


def enum_to_union(kind: Kind, draw: Draw) -> Task:
    one, words = _words(kind, draw)
    name = _name(kind, one, draw)
    given = f"enum {name} {{\n" + "".join(f'  {_capital(word)} = "{word}",\n' for word in words) + "}"
    answer = f"type {name} = {literals(words)};"
    template = draw.one(
        [
            "[Convert|Turn|Change|Rewrite] this enum [to|into] a union [type|of string literals]",
            "[Use|I want] a union [type|of literals] instead of this enum",
            "enum to union type",
            "Write this enum as a string literal union",
            "How do I replace this enum by a union type?",
        ]
    )
    return Task(typed(phrase(template, draw), draw, answer, given), answer, 2, ("enum-to-union",))


def record(kind: Kind, draw: Draw) -> Task:
    one, words = _words(kind, draw)
    keys, keys_said = draw.one(
        [
            ("string", "string"),
            ("string", "strings"),
            ("number", "number"),
            (literals(words), words_of_union(words, draw)),
        ]
    )
    value = draw.one([kind.name, f"{kind.name}[]", "number", "string", "boolean", "string[]", "Date"])
    name = f"{kind.name}{draw.one(['Index', 'Table', 'Lookup', 'Map', 'ById', 'Counts', 'Labels'])}"
    answer = f"type {name} = Record<{keys}, {value}>;"
    said = phrase(draw.one(RECORD), draw, name=name, keys_said=keys_said, value=value)
    return Task(
        typed(said, draw, answer, keep=" ".join(words)),
        answer,
        2,
        ("record",),
        (),
        kind.declared({"id", one.name}),
    )


def tuple_type(kind: Kind, draw: Draw) -> Task:
    parts = [draw.one(["number", "string", "boolean", "Date", kind.name]) for _ in range(draw.between(2, 3))]
    name = f"{kind.name}{draw.one(['Pair', 'Entry', 'Tuple', 'Row', 'Point'])}"
    frozen = draw.chance(0.2)
    answer = f"type {name} = {'readonly ' * frozen}[{', '.join(parts)}];"
    template = draw.one(
        [
            DEMAND + " a {how}tuple type {name} [of|with] {parts}.",
            "{how}tuple type {name}: {parts}",
            "type {name} is a {how}tuple of {parts}",
            "How do I type a {how}tuple {name} of {parts}?",
        ]
    )
    told = ", ".join(parts[:-1]) + draw.one([" and ", ", "]) + parts[-1]
    said = phrase(template, draw, name=name, parts=told, how="readonly " if frozen else "")
    return Task(typed(said, draw, answer), answer, 2, ("tuple",), (), kind.declared({"id"}))


def discriminated(kind: Kind, draw: Draw) -> Task:
    """Variants that differ in a literal property."""
    tag = draw.one(["kind", "type", "status", "state"])
    words = draw.one([("ok", "failed"), ("loading", "ready", "error"), ("created", "removed"), ("found", "missing"), ("text", "image"),
                      ("added", "changed", "deleted"), ("idle", "busy")])  # fmt: skip
    props = draw.some(kind.of("string", "number", "boolean", "Date", "string[]"), len(words))
    name = f"{kind.name}{draw.one(['Event', 'Result', 'Action', 'Message', 'Outcome'])}"
    empty = draw.below(len(words)) if draw.chance(0.3) else -1
    variants, told = [], []
    for place, (word, prop) in enumerate(zip(words, props, strict=True)):
        held = "" if place == empty else f"; {prop.name}: {prop.type}"
        variants.append(f'{{ {tag}: "{word}"{held} }}')
        told.append(
            f'"{word}"'
            + (
                draw.one([" with nothing else", " without more properties"])
                if place == empty
                else f" with {prop.name} ({prop.type})"
            )
        )
    answer = f"type {name} =\n  | " + "\n  | ".join(variants) + ";"
    template = draw.one(
        [
            DEMAND + " a discriminated union {name} on {tag}: {told}.",
            "Discriminated union {name}, discriminant {tag}: {told}",
            "type {name} as a union of objects distinguished by {tag}: {told}",
            "Tagged union {name} by {tag}: {told}",
        ]
    )
    said = phrase(template, draw, name=name, tag=tag, told=draw.one([", ", "; "]).join(told))
    return Task(typed(said, draw, answer), answer, 3, ("discriminated-union",))


def const_values(kind: Kind, draw: Draw) -> Task:
    """A union from an array of constants."""
    one, words = _words(kind, draw)
    name, array = (
        _name(kind, one, draw),
        draw.one([kind.one + "Values", one.name + "s", "allowed", "choices"]),
    )
    given = f"const {array} = [{', '.join(f'{chr(34)}{word}{chr(34)}' for word in words)}] as const;"
    answer = f"type {name} = (typeof {array})[number];"
    template = draw.one(
        [
            "[Derive|Get|Make] a union type {name} from [this array|the elements of this array], without repeating the values",
            "Type {name} of the values in {array}, [use|with] typeof",
            "How do I get a type {name} from this array with typeof?",
            "type {name} from this const array, using typeof",
        ]
    )
    return Task(
        typed(phrase(template, draw, name=name, array=array), draw, answer, given),
        answer,
        3,
        ("from-const",),
        (),
        given,
    )


UNIONS: list[tuple[Composition, int]] = [
    (union, 11), (number_union, 2), (of_types, 2), (enumeration, 4), (enum_to_union, 2), (record, 3), (tuple_type, 2),
    (discriminated, 2), (const_values, 1),
]  # fmt: skip
