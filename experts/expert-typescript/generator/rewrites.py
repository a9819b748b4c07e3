"""From one way of writing to another: arrows, loops, promises, types for JavaScript."""

from __future__ import annotations

import re
from collections.abc import Sequence

from expert_worker.evaluate.authoring.draw import Draw

from .conditions import condition
from .functions import Function
from .kinds import Kind
from .lists import counted, found_first, mapped, selected, tested
from .snippets import snippets
from .task import Composition, Task
from .wording import phrase, typed

SIMPLE = ("number", "string", "array", "date")
TO_ARROW = (
    "[Convert|Turn|Rewrite|Change] this [to|into] an arrow function",
    "[Make|Write] this an arrow function",
    "as an arrow function",
    "Rewrite [this|the function] with an arrow",
    "How would this look as an arrow function?",
    "arrow function instead of function",
    "Use const and an arrow function here",
    "I'd like [an arrow function|arrow syntax] instead",
    "Same as an arrow function, assigned to a const",
    "[Switch|Move] this to arrow syntax",
    "Can you [make this|turn this into] an arrow function?",
    "[Shorten|Simplify] this to an arrow function",
)
TO_FUNCTION = (
    "[Convert|Turn|Rewrite|Change] this [to|into] a function declaration",
    "[Use|I want] a [normal|regular] function instead of the arrow",
    "function declaration instead of arrow",
    "Rewrite this with the function keyword",
    "How would this look as a regular function?",
)
TYPED = (
    "[Add|Put] types to this JavaScript function, {told}",
    "Convert to TypeScript: {told}",
    "[Rewrite|Write] this [JS|JavaScript] as TypeScript ({told})",
    "Add type annotations: {told}",
    "Type this function, {told}",
    "JS to TS, {told}",
    "How do I type this? {told}",
)
LOOP = (
    "Replace the loop with {method}",
    "[Use|Rewrite this with] {method} instead of the loop",
    "[Rewrite|Simplify] using {method}",
    "no loop please, use {method}",
    "Can you write this with {method}?",
)
AWAIT = (
    "[Use|Rewrite with|Convert to] async/await",
    "[Rewrite|Change] this to async and await instead of then",
    "async await version",
    "[Turn|Convert] the promise chain into async/await",
    "Can you write this with await?",
)
TERNARY = (
    "[Use|Rewrite with] a ternary",
    "[Replace|Turn] the if by a conditional expression",
    "ternary instead of if",
    "Shorten this with ?:",
    "Can this be a ternary?",
)
TEMPLATE = (
    "[Use|Rewrite with] a template literal",
    "[Replace|Turn] the concatenation by a template string",
    "template literal instead of +",
    "Use backticks here",
)
OPTIONAL = (
    "[Use|Rewrite with] optional chaining and ??",
    "[Simplify|Shorten] with ?. and ??",
    "use ?. and ?? instead",
    "Can this use optional chaining and nullish coalescing?",
)
DESTRUCTURE = (
    "[Use|Rewrite with] destructuring",
    "[Destructure|Unpack] {one} instead",
    "destructuring instead of these lines",
    "Can this be done with destructuring?",
)


def _made(kind: Kind, draw: Draw) -> Function:
    if draw.chance(0.5):
        chosen = [one for one in snippets() if one.tag in SIMPLE and one.level <= 2 and len(one.body) == 1]
        return draw.one(chosen).made(draw)
    return draw.one((selected, mapped, found_first, counted, tested))(kind, draw)


def to_arrow(kind: Kind, draw: Draw) -> Task:
    made = _made(kind, draw)
    return _rewritten(TO_ARROW, made, made.code, made.arrow, "to-arrow", draw)


def to_function(kind: Kind, draw: Draw) -> Task:
    made = _made(kind, draw)
    return _rewritten(TO_FUNCTION, made, made.arrow, made.code, "to-function", draw)


def _rewritten(words: Sequence[str], made: Function, given: str, answer: str, tag: str, draw: Draw) -> Task:
    said = typed(phrase(draw.one(words), draw), draw, answer, given)
    return Task(said, answer, 1, (tag,), (), made.context, made.known)


def to_typed(kind: Kind, draw: Draw) -> Task:
    """Types for JavaScript: each parameter's type and the result's are given in words."""
    made = _made(kind, draw)
    names = ", ".join(name for name, _ in made.params)
    body = "\n".join(f"  {line}" for line in made.body)
    given = f"function {made.name}({names}) {{\n{body}\n}}"
    params = draw.one(
        [
            ", ".join(f"{name}: {kind}" for name, kind in made.params),
            " and ".join(f"{name} is {kind}" for name, kind in made.params),
        ]
    )
    told = params + draw.one(
        [f", returns {made.result}", f", result {made.result}", f" and it returns {made.result}"]
    )
    said = phrase(draw.one(TYPED), draw, told=told)
    return Task(
        typed(said, draw, made.code, given), made.code, 2, ("js-to-ts",), (), made.context, made.known
    )


GENERIC = (
    "Make this [function |]generic",
    "[Use|Rewrite with] a type parameter instead of any",
    "generic version without any please",
    "[Replace|Get rid of] any with a generic",
    "How do I type this without any? [Use|With] a generic",
)


def to_generic(_: Kind, draw: Draw) -> Task:
    """`any` becomes a type parameter."""
    made = draw.one(
        [one for one in snippets() if one.generics == "<T>" and "extends" not in one.generics]
    ).made(draw)
    given = re.sub(r"\bT\b", "any", made.code.replace("<T>(", "(", 1))
    return Task(
        typed(phrase(draw.one(GENERIC), draw), draw, made.code, given),
        made.code,
        3,
        ("to-generic",),
        (),
        "",
        made.known,
    )


def from_loop(kind: Kind, draw: Draw) -> Task:
    xs, x = kind.plural, kind.one
    found = condition(kind, draw, x)
    prop = kind.pick(draw, "string", "number")
    total = kind.amount(draw)
    name = draw.one(["collect", "gather", "pick"]) + kind.name
    start, result, inside, method, chain = draw.one(
        [
            (f"const result: {kind.name}[] = [];", f"{kind.name}[]", f"if ({found.code}) {{\n      result.push({x});\n    }}", "filter", f"{xs}.filter(({x}) => {found.code})"),
            (f"const result: {prop.type}[] = [];", f"{prop.type}[]", f"result.push({x}.{prop.name});", "map", f"{xs}.map(({x}) => {x}.{prop.name})"),
            (f"const result: {prop.type}[] = [];", f"{prop.type}[]", f"if ({found.code}) {{\n      result.push({x}.{prop.name});\n    }}", "filter and map",
             f"{xs}.filter(({x}) => {found.code}).map(({x}) => {x}.{prop.name})"),
            ("let result = 0;", "number", f"result += {x}.{total.name};", "reduce", f"{xs}.reduce((sum, {x}) => sum + {x}.{total.name}, 0)"),
        ]
    )  # fmt: skip
    head = f"function {name}({xs}: {kind.name}[]): {result} {{"
    given = f"{head}\n  {start}\n  for (const {x} of {xs}) {{\n    {inside}\n  }}\n  return result;\n}}"
    answer = f"{head}\n  return {chain};\n}}"
    level = 3 if method == "filter and map" else 2
    return Task(
        typed(phrase(draw.one(LOOP), draw, method=method), draw, answer, given),
        answer,
        level,
        ("from-loop",),
        (),
        kind.declared({found.used, prop.name, total.name}),
    )


def to_await(kind: Kind, draw: Draw) -> Task:
    name, path = (
        f"load{kind.plural[0].upper()}{kind.plural[1:]}",
        draw.one([f"/{kind.plural}", f"/api/{kind.plural}", f"https://example.org/{kind.plural}"]),
    )
    if draw.chance(0.5):
        name, path = f"load{kind.name}", path + "/1"
    result = f"Promise<{kind.name}{'[]' * (not path.endswith('/1'))}>"
    answer_head = f'async function {name}(): {result} {{\n  const response = await fetch("{path}");\n'
    given = (
        f'function {name}(): {result} {{\n  return fetch("{path}").then((response) => response.json());\n}}'
    )
    answer = f"{answer_head}  return response.json();\n}}"
    also = f"{answer_head}  return await response.json();\n}}"
    inline = f'async function {name}(): {result} {{\n  return (await fetch("{path}")).json();\n}}'
    return Task(
        typed(phrase(draw.one(AWAIT), draw), draw, answer, given),
        answer,
        3,
        ("to-await",),
        (also, inline),
        kind.declared({"id"}),
    )


def to_ternary(kind: Kind, draw: Draw) -> Task:
    x = kind.one
    found = condition(kind, draw, x)
    left, right = draw.some(["yes", "no", "high", "low", "open", "closed", "new", "old", "on", "off"], 2)
    head = f"function label{kind.name}({x}: {kind.name}): string {{"
    rest = (
        f'\n  }} else {{\n    return "{right}";\n  }}\n}}'
        if draw.chance(0.5)
        else f'\n  }}\n  return "{right}";\n}}'
    )
    given = f'{head}\n  if ({found.code}) {{\n    return "{left}";{rest}'
    answer = f'{head}\n  return {found.code} ? "{left}" : "{right}";\n}}'
    return Task(
        typed(phrase(draw.one(TERNARY), draw), draw, answer, given),
        answer,
        2,
        ("to-ternary",),
        (),
        kind.declared({found.used}),
    )


def to_template(kind: Kind, draw: Draw) -> Task:
    x, (first, second) = kind.one, draw.some(kind.of("string", "number"), 2)
    middle, tail = (
        draw.one([" is ", " has ", ": ", " / ", " - ", " of "]),
        draw.one(["", "", "!", " in total"]),
    )
    lead = draw.one(["", "", f"{kind.name} ", "No. "])
    head = f"function describe{kind.name}({x}: {kind.name}): string {{"
    plus = f' + "{tail}"' if tail else ""
    given = f'{head}\n  return {f"{chr(34)}{lead}{chr(34)} + " if lead else ""}{x}.{first.name} + "{middle}" + {x}.{second.name}{plus};\n}}'
    answer = f"{head}\n  return `{lead}${{{x}.{first.name}}}{middle}${{{x}.{second.name}}}{tail}`;\n}}"
    return Task(
        typed(phrase(draw.one(TEMPLATE), draw), draw, answer, given),
        answer,
        2,
        ("to-template",),
        (),
        kind.declared({first.name, second.name}),
    )


def to_optional(kind: Kind, draw: Draw) -> Task:
    x, prop = kind.one, kind.pick(draw, "string", "number")
    fallback = (
        f'"{draw.one(["none", "unknown", "-", "n/a"])}"'
        if prop.type == "string"
        else draw.one(["0", "1", "-1"])
    )
    empty = draw.one(["null", "undefined"])
    head = f"function {prop.name}Of({x}: {kind.name} | {empty}): {prop.type} {{"
    given = f"{head}\n  return {x} !== {empty} ? {x}.{prop.name} : {fallback};\n}}"
    if draw.chance(0.4):
        given = (
            f"{head}\n  if ({x} === {empty}) {{\n    return {fallback};\n  }}\n  return {x}.{prop.name};\n}}"
        )
    answer = f"{head}\n  return {x}?.{prop.name} ?? {fallback};\n}}"
    return Task(
        typed(phrase(draw.one(OPTIONAL), draw), draw, answer, given),
        answer,
        2,
        ("to-optional",),
        (),
        kind.declared({prop.name}),
    )


def to_destructuring(kind: Kind, draw: Draw) -> Task:
    x, props = kind.one, draw.some(kind.of("string", "number", "boolean"), draw.between(2, 3))
    names = [prop.name for prop in props]
    head = f"function show{kind.name}({x}: {kind.name}): void {{"
    lines = "".join(f"\n  const {name} = {x}.{name};" for name in names)
    shown = f"\n  console.log({', '.join(names)});\n}}"
    answer = f"{head}\n  const {{ {', '.join(names)} }} = {x};{shown}"
    return Task(
        typed(phrase(draw.one(DESTRUCTURE), draw, one=x), draw, answer, head + lines + shown),
        answer,
        2,
        ("to-destructuring",),
        (),
        kind.declared(set(names)),
    )


REWRITES: list[tuple[Composition, int]] = [
    (to_arrow, 6), (to_function, 3), (to_typed, 4), (to_generic, 1), (from_loop, 4), (to_await, 2), (to_ternary, 2), (to_template, 2),
    (to_optional, 2), (to_destructuring, 2),
]  # fmt: skip
