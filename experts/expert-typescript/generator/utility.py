"""Utility types, mapped and conditional types, generics and function types."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .kinds import Kind, declaration, literals
from .task import Composition, Task
from .wording import DEMAND, phrase, typed

WHOLE = {
    "Partial": (
        "{base} with all [properties|fields] optional",
        "{base} where everything is optional",
        "{base} where every property [is optional|may be missing]",
        "an optional version of {base}",
        "partial {base}",
    ),
    "Required": (
        "{base} with all [properties|fields] required",
        "{base} where nothing is optional",
        "{base} with no optional properties",
    ),
    "Readonly": (
        "{base} with all [properties|fields] readonly",
        "a readonly {base}",
        "an immutable {base}",
        "{base} that cannot be [changed|modified] (readonly)",
    ),
}
CUT = {
    "Pick": (
        "only {keys} [of|from] {base}",
        "{keys} of {base} and nothing else",
        "{base} [with just|with only|reduced to] {keys}",
        "the properties {keys} picked from {base}",
    ),
    "Omit": (
        "{base} without {keys}",
        "everything in {base} except {keys}",
        "{base} minus {keys}",
        "all properties of {base} but not {keys}",
        "{base}, {keys} left out",
    ),
}
ASKED = (
    DEMAND + " a type {name}: {said}.",
    DEMAND + " a type [called|named] {name} that is {said}.",
    "Type {name} that is {said}",
    "type {name}, {said}",
    "Type alias {name} for {said}",
    "How do I [write|declare] a type {name} that is {said}?",
    "{name}: {said}, [with a utility type|use a utility type]",
    "[Use|With] a utility type: {name} is {said}",
    "What is the type of {said}? [Call it|Name it] {name}",
    "[Define|Create] {name} as {said}",
)
SUFFIXES = {
    "Partial": ("Patch", "Update", "Draft", "Changes"),
    "Required": ("Complete", "Full", "Strict", "Checked"),
    "Readonly": ("View", "Frozen", "Snapshot", "Const"),
    "Pick": ("Preview", "Summary", "Card", "Info", "Ref"),
    "Omit": ("Input", "Data", "Form", "Base", "Public"),
}


def _keys(kind: Kind, draw: Draw, count: int) -> tuple[str, str]:
    """The keys as a union and as words."""
    names = [prop.name for prop in kind.some(draw, count, count)]
    names = draw.shuffled(names)
    mark = draw.one(["", "", '"', "'"])
    quoted = [f"{mark}{name}{mark}" for name in names]
    return literals(names), ", ".join(quoted[:-1]) + draw.one([" and ", " and ", " & "]) + quoted[-1] if len(
        quoted
    ) > 1 else quoted[0]


def _context(kind: Kind, draw: Draw, needed: str) -> tuple[str, str]:
    """The interface shown in the prompt in half of all cases, and the whole one for the type checker."""
    whole = declaration(kind.name, list(kind.props))
    shown = [prop for prop in kind.props if f'"{prop.name}"' in needed]
    shown = [prop for prop in kind.props if prop in shown or draw.chance(0.35)] or list(kind.props[:3])
    return (declaration(kind.name, shown) if draw.chance(0.4) else ""), whole


def _asked(
    kind: Kind, draw: Draw, name: str, told: str, code: str, level: int, tag: str, also: tuple[str, ...] = ()
) -> Task:
    answer = f"type {name} = {code};"
    shown, whole = _context(kind, draw, code)
    said = phrase(draw.one(ASKED), draw, name=name, said=told)
    return Task(
        typed(said, draw, answer, shown),
        answer,
        level,
        (tag,),
        tuple(f"type {name} = {other};" for other in also),
        whole,
    )


def whole(kind: Kind, draw: Draw) -> Task:
    utility = draw.one(["Partial", "Partial", "Required", "Readonly", "Readonly"])
    told = phrase(draw.one(WHOLE[utility]), draw, base=kind.name)
    name = kind.name + draw.one(SUFFIXES[utility])
    return _asked(kind, draw, name, told, f"{utility}<{kind.name}>", 1, utility.lower())


def cut(kind: Kind, draw: Draw) -> Task:
    utility = draw.one(["Pick", "Omit"])
    keys, said = _keys(kind, draw, draw.between(1, 3))
    told = phrase(draw.one(CUT[utility]), draw, base=kind.name, keys=said)
    name = kind.name + draw.one(SUFFIXES[utility])
    return _asked(kind, draw, name, told, f"{utility}<{kind.name}, {keys}>", 2, utility.lower())


def combined(kind: Kind, draw: Draw) -> Task:
    utility, change = draw.one(["Pick", "Omit"]), draw.one(["Partial", "Readonly"])
    keys, said = _keys(kind, draw, draw.between(1, 2))
    told = phrase(draw.one(CUT[utility]), draw, base=kind.name, keys=said)
    told += draw.one(
        [", all optional", ", and all of it optional"]
        if change == "Partial"
        else [", all readonly", ", and all of it readonly"]
    )
    name = kind.name + draw.one(SUFFIXES[utility])
    inner, outer = f"{utility}<{kind.name}, {keys}>", f"{utility}<{change}<{kind.name}>, {keys}>"
    return _asked(kind, draw, name, told, f"{change}<{inner}>", 3, "combined-utility", (outer,))


def with_more(kind: Kind, draw: Draw) -> Task:
    """An intersection: the type and one more property."""
    extra = draw.one(
        [
            "token: string",
            "selected: boolean",
            "score: number",
            "cachedAt: Date",
            "warnings: string[]",
            "position: number",
        ]
    )
    name, kind_of = extra.split(": ")
    told = phrase(
        draw.one(["{base} with an extra {name} ({type})", "{base} and also {name}: {type}", "{base} plus a property {name} ({type})"]),
        draw, base=kind.name, name=name, type=kind_of,
    )  # fmt: skip
    answer = f"{kind.name} & {{ {extra} }}"
    return _asked(
        kind,
        draw,
        f"{draw.one(['With', 'Listed', 'Rich'])}{kind.name}",
        told + draw.one([", as an intersection", " (intersection type)"]),
        answer,
        2,
        "intersection",
    )


def looked_up(kind: Kind, draw: Draw) -> Task:
    """keyof, indexed access, element and return types."""
    prop = draw.one(kind.simple())
    own = prop.name[0].upper() + prop.name[1:]
    function = draw.one(["load", "create", "parse", "find", "build"]) + kind.name
    told, code, name = draw.one(
        [
            (draw.one([f"the keys of {kind.name}", f"the property names of {kind.name}", f"any key of {kind.name}"]), f"keyof {kind.name}", f"{kind.name}Key"),
            (draw.one([f"the type of {prop.name} in {kind.name}", f"the type of {kind.name}'s property {prop.name}"]), f'{kind.name}["{prop.name}"]', f"{kind.name}{own}"),
            (draw.one([f"what the function {function} returns", f"the return type of the function {function}"]), f"ReturnType<typeof {function}>", f"{kind.name}Result"),
            (draw.one([f"the parameters of the function {function}", f"the argument types of the function {function}"]), f"Parameters<typeof {function}>", f"{kind.name}Args"),
            (draw.one([f"{kind.name} or null", f"a {kind.name} that may be null"]), f"{kind.name} | null", f"Maybe{kind.name}"),
            (draw.one([f"a promise of {kind.name}", f"a Promise that resolves to {kind.name}"]), f"Promise<{kind.name}>", f"Async{kind.name}"),
            (draw.one([f"an array of {kind.name}", f"a list of {kind.name} objects"]), f"{kind.name}[]", f"{kind.name}List"),
            (draw.one([f"a readonly array of {kind.name}", f"an immutable array of {kind.name}"]), f"readonly {kind.name}[]", f"{kind.name}ReadonlyList"),
        ]
    )  # fmt: skip
    answer = f"type {name} = {code};"
    context = (
        f"{declaration(kind.name, list(kind.props))}\ndeclare function {function}(id: number): {kind.name};"
    )
    said = phrase(draw.one(ASKED[:6]), draw, name=name, said=told)
    return Task(typed(said, draw, answer), answer, 2, ("looked-up",), (), context)


MAPPED = (
    ("Nullable", "whose properties are those of T, each of them or null", "{ [K in keyof T]: T[K] | null }"),
    ("AllOptional", "that makes every property of T optional, with a mapped type", "{ [K in keyof T]?: T[K] }"),
    ("AllReadonly", "that makes every property of T readonly, as a mapped type", "{ readonly [K in keyof T]: T[K] }"),
    ("Mutable", "that removes readonly from every property of T", "{ -readonly [K in keyof T]: T[K] }"),
    ("AllRequired", "that removes optional from all properties of T with a mapped type", "{ [K in keyof T]-?: T[K] }"),
    ("Flags", "with the keys of T and boolean values, as a mapped type", "{ [K in keyof T]: boolean }"),
    ("Texts", "with the keys of T and string values, as a mapped type", "{ [K in keyof T]: string }"),
    ("Getters", "where each property of T becomes a function that returns it", "{ [K in keyof T]: () => T[K] }"),
    ("Async", "where each property of T becomes a Promise of its type", "{ [K in keyof T]: Promise<T[K]> }"),
    ("Lists", "where each property of T becomes an array of its type", "{ [K in keyof T]: T[K][] }"),
    ("Errors", "with an optional string for each key of T", "{ [K in keyof T]?: string }"),
    ("Maybe", "that is T, null or undefined", "T | null | undefined"),
    ("OrNull", "that is T or null", "T | null"),
    ("OneOrMany", "that is T or an array of T", "T | T[]"),
    ("Values", "of the values of T: the union of its property types", "T[keyof T]"),
    ("ElementOf", "that gives the element type of an array T, else never, with infer", "T extends (infer U)[] ? U : never"),
    ("Unwrapped", "that gives what a Promise T resolves to, else T itself, with infer", "T extends Promise<infer U> ? U : T"),
    ("ResultOf", "that gives what a function T returns, else never, with infer", "T extends (...args: any[]) => infer R ? R : never"),
    ("IsText", "that is true if T is a string and false otherwise", "T extends string ? true : false"),
    ("WithoutNull", "that removes null and undefined from T with a conditional type", "T extends null | undefined ? never : T"),
    ("FirstArg", "that gives the first parameter of a function T, else never, with infer", "T extends (first: infer A, ...rest: any[]) => any ? A : never"),
    ("Callback", "of a function that takes T and returns nothing", "(value: T) => void"),
    ("Test", "of a function that takes T and returns a boolean", "(value: T) => boolean"),
    ("Factory", "of a function without parameters that returns T", "() => T"),
    ("Comparer", "of a function that takes two T and returns a number", "(a: T, b: T) => number"),
    ("Loader", "of a function that takes a string id and returns a Promise of T", "(id: string) => Promise<T>"),
)  # fmt: skip


def mapped(kind: Kind, draw: Draw) -> Task:
    """A generic type of a known kind under a new name."""
    base, told, code = draw.one(MAPPED)
    name = draw.one([base, f"{base}Of", f"My{base}", f"{kind.name}{base}", f"{base}Type"])
    answer = f"type {name}<T> = {code};"
    template = draw.one(
        [
            DEMAND + " a generic type {name}<T> {told}.",
            "Generic type {name}<T> {told}",
            "type {name}<T> {told}",
            "How do I write a type {name}<T> {told}?",
            "Utility type {name}<T> {told}",
        ]
    )
    return Task(
        typed(phrase(template, draw, name=name, told=told), draw, answer),
        answer,
        3 if "in keyof" not in code and "infer" not in code else 4,
        ("generic-type",),
        known=code,
    )


def generic_interface(kind: Kind, draw: Draw) -> Task:
    held, told = draw.one([("items: T[]", "items (array of T)"), ("value: T", "value of type T"), ("data: T", "data: T"),
                           ("result: T | null", "result (T or null)"), ("payload: T", "payload (T)"), ("rows: T[]", "rows: T[]")])  # fmt: skip
    props = [prop for prop in kind.some(draw, 1, 2) if prop.name != held.split(":", maxsplit=1)[0]]
    name = kind.name + draw.one(["Page", "Box", "Response", "Batch", "Envelope", "Wrapper"])
    listed = ", ".join([told, *(f"{prop.name} ({prop.type})" for prop in props)])
    answer = f"interface {name}<T> {{\n  {held};\n" + "".join(f"  {prop.line};\n" for prop in props) + "}"
    template = draw.one(
        [
            DEMAND + " a generic interface {name}<T> with {fields}.",
            "Generic interface {name}<T>: {fields}",
            "interface {name} generic over T with {fields}",
            "How do I write a generic interface {name}<T> with {fields}?",
        ]
    )
    return Task(
        typed(phrase(template, draw, name=name, fields=listed), draw, answer),
        answer,
        2,
        ("generic-interface",),
    )


def function_type(kind: Kind, draw: Draw) -> Task:
    result, returns = draw.one(
        [("void", "nothing"), ("void", "void"), ("boolean", "a boolean"), ("string", "a string"), ("number", "a number"),
         (kind.name, kind.name), (f"Promise<{kind.name}>", f"a promise of {kind.name}"), (f"Promise<{kind.name}[]>", f"a Promise<{kind.name}[]>"), ("Promise<void>", "Promise<void>")]
    )  # fmt: skip
    given = draw.some([f"{kind.one}: {kind.name}", "id: string", "index: number", "name: string", "done: boolean", f"{kind.plural}: {kind.name}[]", "error?: Error"], draw.between(0, 2))  # fmt: skip
    given = [part for part in given if "?" not in part] + [part for part in given if "?" in part]
    style = draw.below(3)
    told = (
        [
            part.replace(": ", " (").replace("?", "") + (", optional)" if "?" in part else ")")
            for part in given
        ]
        if style
        else given
    )
    takes = " and ".join(told) if told else draw.one(["no arguments", "no parameters"])
    name = kind.name + draw.one(["Handler", "Callback", "Listener", "Mapper", "Loader", "Check", "Fn"])
    answer = f"type {name} = ({', '.join(given)}) => {result};"
    template = draw.one(
        [
            DEMAND + " a function type {name} that takes {takes} and returns {returns}.",
            "Function type {name}: takes {takes}, returns {returns}",
            "type {name} for a function with {takes} that returns {returns}",
            "type of a function {name}, takes {takes} and returns {returns}",
            "How do I type a callback {name} that takes {takes} and returns {returns}?",
            "Callback type {name}: {takes}, returns {returns}",
        ]
    )
    return Task(
        typed(phrase(template, draw, name=name, takes=takes, returns=returns), draw, answer),
        answer,
        2,
        ("function-type",),
        (),
        kind.declared({"id"}),
    )


UTILITY: list[tuple[Composition, int]] = [
    (whole, 7), (cut, 6), (combined, 2), (with_more, 1), (looked_up, 4), (mapped, 4), (generic_interface, 2), (function_type, 3),
]  # fmt: skip
