"""What the data files say: properties, labels and relationships, each with the words that people use for them.

A world is a block of lines. `Label|Other label* noun, noun: name@person, property, property=a|b|c` is a kind of node; the
star marks people, `noun/plural` an irregular plural. `TYPE|OTHER Start>End: verbs < verbs back | start's role | end's role |
property` is a relationship: its verbs from start to end (`direct/directed` past, `work at` present, `are owned by` a state),
those from end to start, and what each end is to the other (`the members of X`); `-` where there is none. `Start~Start` is one
without a direction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from expert_worker.evaluate.authoring.phrasing import plural

DATA = Path(__file__).resolve().parent / "data"
FILES = {
    "train": ("worlds_work.txt", "worlds_culture.txt", "worlds_places.txt", "worlds_systems.txt"),
    "validation": ("worlds_validation.txt",),
    "test": ("worlds_test.txt",),
}
THIRD_PERSON = {"have": "has", "do": "does", "go": "goes", "are": "is", "were": "was"}


@dataclass(frozen=True)
class Verb:
    """`base` is the infinitive, `plural` what follows a plural: `work at`, `directed`, `were written by`."""

    base: str
    plural: str
    past: bool

    @property
    def passive(self) -> bool:
        return self.plural.startswith(("are ", "were "))

    @property
    def rest(self) -> str:
        """A passive one without its `are`: films `directed by`."""
        return self.plural.split(" ", 1)[1]

    @property
    def be(self) -> str:
        """For one thing: `is` or `was`."""
        return THIRD_PERSON[self.plural.split(" ", 1)[0]]

    @property
    def singular(self) -> str:
        if self.past and not self.passive:
            return self.plural
        first, _, rest = self.plural.partition(" ")
        return f"{third_person(first)} {rest}".strip()

    def auxiliary(self, single: bool) -> str:
        return "did" if self.past else "does" if single else "do"

    def negated(self, never: bool) -> str:
        if self.passive:
            first, rest = self.plural.split(" ", 1)
            return f"{first} not {rest}"
        if self.past:
            return f"never {self.plural}" if never else f"did not {self.base}"
        return f"do not {self.base}" if never else f"don't {self.base}"


@dataclass(frozen=True)
class Concept:
    """A property before a schema names it."""

    key: str
    kind: str
    values: str
    fields: tuple[str, ...]
    nouns: tuple[str, ...]
    unit: str = ""
    # Adjective, comparative and superlative of much, and of little; of a year or date only superlatives.
    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    verbs: tuple[Verb, ...] = ()
    # Of a category, with {v}; of a flag, the two adjectives.
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelText:
    labels: tuple[str, ...]
    nouns: tuple[tuple[str, str], ...]
    person: bool
    concepts: tuple[Concept, ...]


@dataclass(frozen=True)
class EdgeText:
    types: tuple[str, ...]
    start: str
    end: str
    forward: tuple[Verb, ...]
    backward: tuple[Verb, ...]
    start_role: tuple[str, ...]
    end_role: tuple[str, ...]
    concepts: tuple[Concept, ...]
    # `A~A`: who is married to X has no direction.
    mutual: bool


@dataclass(frozen=True)
class WorldText:
    name: str
    labels: tuple[LabelText, ...]
    edges: tuple[EdgeText, ...]


def third_person(word: str) -> str:
    if word in THIRD_PERSON:
        return THIRD_PERSON[word]
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh|o)$", word) else "s")


def verb(text: str) -> Verb:
    base, slash, past = text.partition("/")
    return Verb(base, past or base, bool(slash) or base.startswith("were "))


def words_of(field: str) -> str:
    """`releaseYear` becomes `release year`, `lengthKm` only `length`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", field).replace("_", " ").lower()
    return re.sub(r" (m|k|km|kg|cm|mb|gb|sqm|ha|min|ms|eur|percent|tons|c|per100k|per day)$", "", words)


@cache
def concepts(split: str) -> dict[str, Concept]:
    name = "properties.txt" if split == "train" else "properties_held.txt"
    return {found.key: found for found in map(_concept, _lines(name))}


@cache
def worlds(split: str) -> tuple[WorldText, ...]:
    return tuple(world for name in FILES[split] for world in _blocks(name, concepts(split)))


def _lines(name: str) -> list[str]:
    text = (DATA / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _concept(line: str) -> Concept:
    head, fields_text, *rest = line.split(" | ")
    key, kind, *more = head.split(" ", 2)
    tail = more[0] if more else ""
    fields = tuple(fields_text.split())
    if kind == "flag":
        return Concept(key, kind, "", fields, (), phrases=tuple(rest))
    if kind in {"year", "date"}:
        verbs = _verbs(rest[0])
        nouns = [words_of(field) for field in fields if re.search(r"(Year|Date|line)$|^year[A-Z]", field)]
        nouns += [f"{kind} {verb.rest}" for verb in verbs if verb.passive]
        return Concept(
            key, kind, tail, fields, tuple(dict.fromkeys(nouns)), verbs=verbs,
            high=_split(rest[1]), low=_split(rest[2]),
        )  # fmt: skip
    if kind == "cat":
        return Concept(key, kind, tail, fields, _split(rest[0]), phrases=_split(rest[1]))
    values, _, unit = tail.partition(" ")
    if kind == "count":
        return Concept(key, kind, values, fields, _split(rest[0]))
    high, low = (_split(part, ":") for part in rest[1:3])
    return Concept(key, kind, values, fields, _split(rest[0]), unit, high, low)


def _split(text: str, by: str = ", ") -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(by))


def _verbs(text: str) -> tuple[Verb, ...]:
    return tuple(verb(part) for part in _split(text.strip()) if part)


def _blocks(name: str, known: dict[str, Concept]) -> list[WorldText]:
    found: list[WorldText] = []
    title, labels, edges = "", [], []  # type: str, list[LabelText], list[EdgeText]
    for line in [*(DATA / name).read_text(encoding="utf-8").splitlines()[1:], "# end"]:
        if line.startswith("#"):
            if labels:
                found.append(WorldText(title, tuple(labels), tuple(edges)))
            title, labels, edges = line[2:], [], []
        elif re.match(r"[A-Z_|]+ \w+[>~]", line):
            edges.append(_edge(line, known))
        else:
            labels.append(_label(line, known))
    return found


def _label(line: str, known: dict[str, Concept]) -> LabelText:
    head, fields = line.split(": ")
    labels, nouns = head.split(" ", 1)
    pairs = [noun.partition("/") for noun in nouns.split(", ")]
    return LabelText(
        tuple(labels.rstrip("*").split("|")),
        tuple((one, many or plural(one)) for one, _, many in pairs),
        labels.endswith("*"),
        tuple(_used(field, known) for field in fields.split(", ")),
    )


def _edge(line: str, known: dict[str, Concept]) -> EdgeText:
    head, body = line.split(": ", 1)
    types, ends = head.split(" ")
    start, end = re.split("[>~]", ends)
    parts = [part.strip() for part in body.split("|")] if "=" not in body else body.split(" | ")
    parts += ["-"] * (4 - len(parts))
    forward, _, backward = parts[0].partition("<")
    return EdgeText(
        tuple(types.split("|")),
        start,
        end,
        _verbs(forward),
        _verbs(backward),
        _split(parts[1].strip()),
        _split(parts[2].strip()),
        tuple(_used(field, known) for field in _split(parts[3].strip())),
        "~" in ends,
    )


def _used(text: str, known: dict[str, Concept]) -> Concept:
    """`age`, `genre=jazz|rock` with other values, `part=lead|villain` that no lexicon knows, `title@title`."""
    field, at, pool = text.partition("@")
    if at:
        return Concept(field, "name", pool, (field,), (words_of(field),))
    key, equals, values = text.partition("=")
    if not equals:
        return known[key]
    if key in known and known[key].kind == "cat":
        base = known[key]
        return Concept(key, "cat", values, base.fields, base.nouns, phrases=base.phrases)
    return Concept(key, "cat", values, (key,), (words_of(key),))
