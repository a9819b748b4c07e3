"""A request from parts: `[Write|Create] an interface {name}` is one of two sentences, typed as people type."""

from __future__ import annotations

import re

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed

from .kinds import Prop, spaced

CHOICE = re.compile(r"\[([^\[\]]*)\]")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
DEMAND = "[Write|Write|Create|Define|Make|Give me|I need|Declare]"
TYPES_SAID = {
    "number": ("number", "number", "number", "numeric"),
    "string": ("string", "string", "string", "text"),
    "boolean": ("boolean", "boolean", "bool", "true/false"),
    "Date": ("Date", "Date", "date"),
    "string[]": ("string[]", "array of strings", "list of strings", "string array"),
    "number[]": ("number[]", "array of numbers", "list of numbers", "number array"),
}
NOUNS_SAID = {
    "number": ("a number {}", "a numeric {}", "{} as a number", "{}, a number"),
    "string": ("a string {}", "{} as a string", "{}, a string", "a text {}"),
    "boolean": ("a boolean {}", "a {} flag (boolean)", "{}, a boolean", "{} as a boolean"),
    "Date": ("a Date {}", "{} as a Date", "a date {}"),
    "string[]": ("an array of strings {}", "a list of strings called {}", "{} as string[]", "{}, an array of strings"),
    "number[]": ("an array of numbers {}", "a list of numbers called {}", "{} as number[]"),
}  # fmt: skip
MANY_SAID = {
    "number": ("numbers",),
    "string": ("strings",),
    "boolean": ("booleans",),
    "Date": ("dates", "Dates"),
    "string[]": ("string arrays", "arrays of strings", "lists of strings"),
    "number[]": ("number arrays", "lists of numbers"),
}


def phrase(template: str, draw: Draw, **slots: str) -> str:
    """One of the sentences that a template stands for; slots are filled at the end and may hold any text."""
    while (found := CHOICE.search(template)) is not None:
        template = template[: found.start()] + draw.one(found[1].split("|")) + template[found.end() :]
    text = re.sub(r"\{(\w+)\}", lambda slot: slots[slot[1]], " ".join(template.split(" ")))
    return re.sub(r" {2,}", " ", text).strip()


def typed(sentence: str, draw: Draw, answer: str, code: str = "", keep: str = "") -> str:
    """As somebody would type it; words of the answer and of `keep` stay letter by letter. Code stands below or above."""
    text = as_typed(sentence, draw, tuple(IDENTIFIER.findall(f"{answer} {keep}")))
    if not code:
        return text
    shown = f"```{draw.one(['ts', 'typescript', ''])}\n{code}\n```" if draw.chance(0.15) else code
    if draw.chance(0.3):
        return f"{shown}\n{draw.one(['', chr(10)])}{text}"
    return f"{text.rstrip('.')}{':' * (text[-1].isalnum() and draw.chance(0.7))}\n{draw.one(['', '', chr(10)])}{shown}"


def words_of_union(words: tuple[str, ...] | list[str], draw: Draw) -> str:
    """The literals of a union: quoted, bare or with bars."""
    mark = draw.one(["'", '"', '"', ""])
    quoted = [f"{mark}{word}{mark}" for word in words]
    style = draw.below(5)
    if style == 0:
        return " | ".join(f'"{word}"' for word in words)
    if style == 1:
        return "/".join(words)
    if style == 2:
        return ", ".join(quoted)
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]


def type_said(prop: Prop, draw: Draw) -> str:
    """A property's type in words or as code."""
    if prop.words:
        said = words_of_union(prop.words, draw)
        if "|" in said or "/" in said:
            return said
        return draw.one(["one of {}", "either {}", "{}"] if " or " in said else ["one of {}"]).format(said)
    if prop.inner:
        return "object with " + ", ".join(f"{part.name} ({part.type})" for part in prop.inner)
    if prop.type not in TYPES_SAID:
        return prop.type
    return prop.type if draw.chance(0.6) else draw.one(TYPES_SAID[prop.type])


def fields(props: list[Prop], draw: Draw) -> str:
    """Properties with their types inside a sentence: five ways to list them."""
    style = draw.weighted(("colon", "paren", "space", "prose", "grouped"), (6, 7, 3, 4, 3))
    if style == "grouped" and all(prop.type in MANY_SAID and not prop.optional for prop in props):
        return grouped(props, draw)
    if style == "prose":
        return _listed([_noun(prop, draw) for prop in props], draw)
    use_words = draw.chance(0.15)
    said = [_field(prop, "paren" if style == "grouped" else style, use_words, draw) for prop in props]
    return ", ".join(said) if style == "colon" or draw.chance(0.4) else _listed(said, draw)


def lines(props: list[Prop], draw: Draw) -> str:
    """Properties one per line: a list or a table."""
    style = draw.below(5)
    if style == 0:
        rows = "".join(f"\n| {prop.name}{'?' * prop.optional} | {prop.type} |" for prop in props)
        return f"| {draw.one(['field', 'property', 'name'])} | type |\n|---|---|{rows}"
    mark = draw.one(["- ", "* ", ""])
    between = draw.one([": ", ": ", " - ", " "])
    note = draw.one(["?", " (optional)"])
    return "\n".join(
        f"{mark}{prop.name}{note[0] * (prop.optional and note == '?')}{between}{prop.type}"
        + (" (optional)" if prop.optional and note != "?" else "")
        for prop in props
    )


def grouped(props: list[Prop], draw: Draw) -> str:
    """`id and name (strings), age (number)`: properties of one type together."""
    parts = []
    for kind, names in _by_type(props).items():
        said = draw.one(MANY_SAID[kind]) if len(names) > 1 else draw.one(TYPES_SAID[kind])
        parts.append(f"{_joined(names)} ({said})")
    return ", ".join(parts)


def facts(props: list[Prop], draw: Draw) -> str:
    """`id and name are strings, age is a number`; other types and optional ones are listed."""
    if any(prop.type not in MANY_SAID or prop.optional for prop in props):
        return fields(props, draw)
    parts = []
    for kind, names in _by_type(props).items():
        said = draw.one(MANY_SAID[kind]) if len(names) > 1 else article(draw.one(TYPES_SAID[kind][:2]))
        parts.append(f"{_joined(names)} {'are' if len(names) > 1 else 'is'} {said}")
    return draw.one([", ", "; ", ", "]).join(parts)


def _by_type(props: list[Prop]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for prop in props:
        found.setdefault(prop.type, []).append(prop.name)
    return found


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _field(prop: Prop, style: str, use_words: bool, draw: Draw) -> str:
    name = spaced(prop.name) if use_words and style == "paren" else prop.name
    if style == "colon":
        return f"{name}{'?' * prop.optional}: {prop.type}"
    said = type_said(prop, draw)
    if style == "space" and not prop.optional and " " not in said:
        return f"{name} {said}"
    if not prop.optional:
        return f"{name} ({said})"
    return draw.one(
        [f"{name} ({said}, optional)", f"optional {name} ({said})", f"an optional {name} ({said})"]
    )


def _noun(prop: Prop, draw: Draw) -> str:
    forms = NOUNS_SAID.get(prop.type)
    if forms is None:
        return f"{'an optional ' * prop.optional}{prop.name} ({type_said(prop, draw)})"
    if prop.optional:
        return f"an optional {prop.name} ({draw.one(TYPES_SAID[prop.type])})"
    return draw.one(forms).format(prop.name)


def _listed(parts: list[str], draw: Draw) -> str:
    if len(parts) == 1:
        return parts[0]
    last = draw.weighted((" and ", ", and ", ", "), (6, 2, 2))
    return ", ".join(parts[:-1]) + last + parts[-1]


def article(word: str) -> str:
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
