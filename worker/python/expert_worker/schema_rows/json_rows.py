"""Texts that people would type, and the JSON object that each means, valid by the user's JSON Schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed, listed, quoted
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.sql.pools import FIRST, MONTHS

from .payload import Items, Leaf, Node, Payload
from .turns import LONGEST, TRIES, Row, new_rows

SYSTEM = "Answer with JSON only."
# How often a property is given that may be missing, and how often the fields are shown before the text.
OPTIONAL = 0.55
SHOWN = 0.5
LONGEST_ANSWER = 400
_OPENINGS_TEXT = """
create {a}|new {n}|add {a}|{n}|register {a}|I need {a}|make {a}|enter {a}|set up {a}|we have a new {n}
|save {a}|put in {a}|here is {a}|send {a}
"""
OPENINGS = tuple(_OPENINGS_TEXT.replace("\n", "").split("|"))
WITH = ("{o} with {p}", "{o}: {p}", "{o}, {p}", "{o} - {p}", "{p} for {a}", "{o} where {p}")
PAIRS = ("{k} {v}", "{k} {v}", "{k} is {v}", "{k}: {v}", "{k} = {v}")


@dataclass
class JsonRows:
    payload: Payload
    seed: int
    dropped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        from jsonschema import Draft202012Validator
        from referencing import Registry

        # Without a registry, jsonschema fetches what a reference names.
        self._validator = Draft202012Validator(self.payload.validated, registry=Registry())
        counts = Counter(leaf.words for leaf in leaves(self.payload.root))
        self._alone = {words for words, count in counts.items() if count == 1}

    def rows(self, split: str, count: int) -> Iterator[Row]:
        seen: set[str] = set()

        def made(turn: int) -> Row | None:
            draw = Draw(f"schema/{self.seed}/{split}/{turn}")
            return next((row for _ in range(TRIES) if (row := self._row(draw, split != "train", seen))), None)

        return new_rows(count, seen, made)

    def _row(self, draw: Draw, held_out: bool, seen: set[str]) -> Row | None:
        said: list[tuple[str, str]] = []
        keep: list[str] = []
        value = self._object(self.payload.root, draw, held_out, said, keep)
        if not value:
            self.dropped["without a value"] += 1
            return None
        if not self._is_valid(value):
            self.dropped["not valid by the schema"] += 1
            return None
        answer = json.dumps(value, ensure_ascii=False)
        if answer in seen:
            self.dropped["asked before"] += 1
            return None
        form, text = self._text(said, keep, draw)
        shown = draw.chance(SHOWN)
        asked = f"fields: {outline(self.payload.root)}\n{text}" if shown else text
        if len(asked) + len(answer) > LONGEST or len(answer) > LONGEST_ANSWER:
            self.dropped["longer than 1,200 characters"] += 1
            return None
        seen.add(answer)
        nested = any(isinstance(it, dict) for it in value.values())
        many = any(isinstance(it, list) for it in value.values())
        tags = ["fields-shown" if shown else "text-only", form]
        tags += [name for name, is_so in (("nested", nested), ("list", many)) if is_so]
        level = 3 if many and nested else 2 if many or nested or len(said) > 4 else 1
        return {"messages": conversation(SYSTEM, asked, answer), "tags": tags, "level": level}

    def _is_valid(self, value: object) -> bool:
        from referencing.exceptions import Unresolvable

        try:
            return bool(self._validator.is_valid(value))
        except (Unresolvable, RecursionError):
            return False

    def _object(
        self,
        node: Node,
        draw: Draw,
        held_out: bool,
        said: list[tuple[str, str]],
        keep: list[str],
        prefix: str = "",
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, part in node.parts.items():
            if key not in node.required and not draw.chance(OPTIONAL):
                continue
            if isinstance(part, Node):
                inner = self._object(part, draw, held_out, said, keep, _words(key))
                if inner:
                    found[key] = inner
            elif isinstance(part, Items):
                found[key] = self._items(key, part, draw, held_out, said, keep)
            else:
                value, text = made(part, draw, held_out, keep)
                alone = part.words in self._alone and draw.chance(0.6)
                said.append((part.words if alone or not prefix else f"{prefix} {part.words}", text))
                found[key] = value
        return found

    def _items(
        self, key: str, part: Items, draw: Draw, held_out: bool, said: list[tuple[str, str]], keep: list[str]
    ) -> list[Any]:
        values, texts = [], []
        for _ in range(draw.between(part.fewest, part.most)):
            if isinstance(part.of, Leaf):
                value, text = made(part.of, draw, held_out, keep)
                if value in values:
                    continue
            else:
                pairs: list[tuple[str, str]] = []
                value = self._object(part.of, draw, held_out, pairs, keep)
                text = " ".join(f"{words} {it}" for words, it in pairs)
            values.append(value)
            texts.append(text)
        plain = isinstance(part.of, Leaf)
        said.append((_words(key), listed(texts, draw) if plain else " and ".join(texts)))
        return values

    def _text(self, said: list[tuple[str, str]], keep: list[str], draw: Draw) -> tuple[str, str]:
        noun = self.payload.noun
        a = f"an {noun}" if noun[0] in "aeio" else f"a {noun}"
        opening = draw.one(OPENINGS).format(n=noun, a=a)
        pairs = draw.shuffled(said) if draw.chance(0.7) else said
        if draw.chance(0.3):
            mark = draw.one((": ", ": ", " = ", " - "))
            lines = "\n".join(f"{words}{mark}{text}" for words, text in pairs)
            return "labelled", f"{as_typed(opening, draw)}:\n{lines}"
        form = draw.one(PAIRS)
        parts = [form.format(k=words, v=text) for words, text in pairs]
        together = listed(parts, draw) if draw.chance(0.6) else ", ".join(parts)
        sentence = draw.one(WITH).format(o=opening, p=together, a=a)
        return "sentence", as_typed(sentence, draw, keep)


def leaves(node: Node) -> Iterator[Leaf]:
    for part in node.parts.values():
        inner = part.of if isinstance(part, Items) else part
        if isinstance(inner, Leaf):
            yield inner
        else:
            yield from leaves(inner)


def outline(node: Node) -> str:
    """`{name, address: {city}, items: [{sku}]}`"""
    return "{" + ", ".join(_outlined(key, part) for key, part in node.parts.items()) + "}"


def _outlined(key: str, part: Leaf | Node | Items) -> str:
    if isinstance(part, Leaf):
        return key
    if isinstance(part, Node):
        return f"{key}: {outline(part)}"
    return f"{key}: [{outline(part.of) if isinstance(part.of, Node) else ''}]"


def _words(key: str) -> str:
    from .vocabulary import words_of

    return " ".join(words_of(key)) or key


def made(leaf: Leaf, draw: Draw, held_out: bool, keep: list[str]) -> tuple[Any, str]:
    """A value, and what people write for it."""
    value, text = _value(leaf, draw, held_out)
    keep.append(text)
    return value, quoted(text, draw) if isinstance(value, str) and leaf.kind == "text" else text


def _value(leaf: Leaf, draw: Draw, held_out: bool) -> tuple[Any, str]:
    if leaf.kind == "boolean":
        value = draw.one(leaf.values or (True, False))
        return value, draw.one(("yes", "true")) if value else draw.one(("no", "false"))
    if leaf.values:
        value = draw.one(leaf.values)
        spaced = isinstance(value, str) and draw.chance(0.5)
        return value, str(value).replace("_", " ") if spaced else str(value)
    if leaf.kind in ("integer", "number"):
        steps = int((leaf.high - leaf.low) / leaf.step)
        number = round(leaf.low + leaf.step * draw.below(steps + 1), 4)
        return (int(number), str(int(number))) if leaf.kind == "integer" else (number, f"{number:g}")
    if leaf.kind == "text":
        value = draw.one((leaf.held_pool if held_out else leaf.pool) or leaf.pool)
        return value, value
    return _formatted(leaf.kind, draw, held_out)


def _formatted(kind: str, draw: Draw, held_out: bool) -> tuple[str, str]:
    year, month, day = draw.between(2022, 2026), draw.between(1, 12), draw.between(1, 28)
    date, time = f"{year}-{month:02d}-{day:02d}", f"{draw.below(24):02d}:{draw.one(('00', '15', '30', '45'))}"
    name = draw.one(FIRST[int(held_out)].split()).lower()
    if kind == "date":
        name = MONTHS[month - 1]
        return date, draw.weighted((date, f"{name} {day}, {year}", f"{day} {name} {year}"), (5, 3, 2))
    if kind == "date-time":
        return f"{date}T{time}:00Z", draw.one(
            (f"{date} {time} UTC", f"{date}T{time}:00Z", f"{date} at {time} UTC")
        )
    if kind == "time":
        return f"{time}:00Z", f"{time} UTC"
    if kind == "uuid":
        digits = "".join(draw.one("0123456789abcdef") for _ in range(30))
        text = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:30]}"
        return text, text
    text = f"{name}@mail.example" if kind == "email" else f"https://www.{name}.example"
    return text, text
