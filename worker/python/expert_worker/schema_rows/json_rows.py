"""Texts that people would type, and the JSON object that each means, valid by the user's JSON Schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed, listed, quoted
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.sql.pools import FIRST, MONTHS

from .payload import Items, Leaf, Node, Payload, validator_of
from .turns import AGAIN, INVALID, LONG_ANSWER, LONGEST, LONGEST_ANSWER, TOO_LONG, TRIES, Row, new_rows
from .vocabulary import words_of

SYSTEM = "Answer with JSON only."
# How often a property is given that may be missing, how often the fields are shown before the text, and how
# often the text calls a value by no more words than it needs.
OPTIONAL = 0.55
SHOWN = 0.5
SHORT = 0.6
MOST_STEPS = 1_000_000_000
_OPENINGS_TEXT = """
create {a}|new {n}|add {a}|{n}|register {a}|I need {a}|make {a}|enter {a}|set up {a}|we have a new {n}
|save {a}|put in {a}|here is {a}|send {a}
"""
OPENINGS = tuple(_OPENINGS_TEXT.replace("\n", "").split("|"))
WITH = ("{o} with {p}", "{o}: {p}", "{o}, {p}", "{o} - {p}", "{p} for {a}", "{o} where {p}")
PAIRS = ("{k} {v}", "{k} {v}", "{k} is {v}", "{k}: {v}", "{k} = {v}")


class Said(NamedTuple):
    """What a text calls a value, and the words for it; `is_open` where words behind it could belong to it."""

    words: str
    text: str
    is_open: bool = False


@dataclass
class JsonRows:
    payload: Payload
    seed: int
    dropped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._validator = validator_of(self.payload.validated)
        self._names = names(self.payload.root)

    def rows(self, split: str, count: int) -> Iterator[Row]:
        seen: set[str] = set()

        def made(turn: int) -> Row | None:
            draw = Draw(f"schema/{self.seed}/{split}/{turn}")
            return next((row for _ in range(TRIES) if (row := self._row(draw, split != "train", seen))), None)

        return new_rows(count, seen, made)

    def _row(self, draw: Draw, held_out: bool, seen: set[str]) -> Row | None:
        said: list[Said] = []
        keep: list[str] = []
        value = self._object(chosen(self.payload.root, draw), (), draw, held_out, said, keep)
        if not self._is_valid(value):
            self.dropped[INVALID] += 1
            return None
        answer = json.dumps(value, ensure_ascii=False)
        if answer in seen:
            self.dropped[AGAIN] += 1
            return None
        form, text = self._text(said, keep, draw)
        shown = draw.chance(SHOWN)
        asked = f"fields: {outline(self.payload.root)}\n{text}" if shown else text
        if len(answer) > LONGEST_ANSWER or len(asked) + len(answer) > LONGEST:
            self.dropped[LONG_ANSWER if len(answer) > LONGEST_ANSWER else TOO_LONG] += 1
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
        path: tuple[str, ...],
        draw: Draw,
        held_out: bool,
        said: list[Said],
        keep: list[str],
    ) -> dict[str, Any]:
        """Values for all its keys; `said` gets what the text calls each, and its words."""
        found: dict[str, Any] = {}
        for key, part in node.parts.items():
            place = (*path, key)
            if isinstance(part, Node):
                found[key] = self._object(part, place, draw, held_out, said, keep)
                continue
            if isinstance(part, Items):
                found[key], text = self._items(part, place, draw, held_out, keep)
            else:
                found[key], text = made(part, draw, held_out, keep)
            short, longer = self._names[place]
            words = short if short == longer or draw.chance(SHORT) else longer
            is_open = isinstance(part, Items) and isinstance(part.of, Node)
            said.append(Said(words, text, is_open))
        return found

    def _items(
        self, part: Items, path: tuple[str, ...], draw: Draw, held_out: bool, keep: list[str]
    ) -> tuple[list[Any], str]:
        values, texts = [], []
        for _ in range(draw.between(part.fewest, part.most)):
            if isinstance(part.of, Leaf):
                value, text = made(part.of, draw, held_out, keep)
                if value in values:
                    continue
            else:
                pairs: list[Said] = []
                value = self._object(part.of, (*path, "[]"), draw, held_out, pairs, keep)
                text = " ".join(f"{it.words} {it.text}" for it in pairs)
            values.append(value)
            texts.append(text)
        return values, listed(texts, draw) if isinstance(part.of, Leaf) else " and ".join(texts)

    def _text(self, said: list[Said], keep: list[str], draw: Draw) -> tuple[str, str]:
        noun = self.payload.noun
        a = f"an {noun}" if noun[0] in "aeio" else f"a {noun}"
        opening = draw.one(OPENINGS).format(n=noun, a=a)
        pairs = draw.shuffled(said) if draw.chance(0.7) else said
        if draw.chance(0.3):
            mark = draw.one((": ", ": ", " = ", " - "))
            lines = "\n".join(f"{it.words}{mark}{it.text}" for it in pairs)
            return "labelled", f"{as_typed(opening, draw)}:\n{lines}"
        form = draw.one(PAIRS)
        # `items name A and name B` are two items, so a name of the object itself stands before them.
        pairs = sorted(pairs, key=lambda it: it.is_open)
        parts = [form.format(k=it.words, v=it.text) for it in pairs]
        together = listed(parts, draw) if draw.chance(0.6) else ", ".join(parts)
        sentence = draw.one(WITH).format(o=opening, p=together, a=a)
        return "sentence", as_typed(sentence, draw, keep)


def chosen(node: Node, draw: Draw) -> Node:
    """With the keys that one object gets: those that it must have and some of the others, at least one.

    All objects of a list have the same keys, so that its text says where each begins.
    """
    keys = [key for key in node.parts if key in node.required or draw.chance(OPTIONAL)]
    parts: dict[str, Leaf | Node | Items] = {}
    for key in keys or [draw.one(tuple(node.parts))]:
        part = node.parts[key]
        if isinstance(part, Node):
            part = chosen(part, draw)
        elif isinstance(part, Items) and isinstance(part.of, Node):
            part = replace(part, of=chosen(part.of, draw))
        parts[key] = part
    return Node(node.required, parts)


def names(node: Node, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], tuple[str, str]]:
    """What the text calls each value and each list, by its path: in no more words than it needs, and in more.

    `customer.address.city` is a city where there is no other, else an address city or a customer address
    city.
    """
    inside = list(_values_of(node, ()))
    counts = Counter(words for path, _ in inside for words in set(_endings(path)))
    found = {}
    for path, part in inside:
        if "[]" in path:
            continue
        endings = _endings(path)
        clear = [words for words in endings[:-1] if counts[words] == 1] + endings[-1:]
        found[*above, *path] = clear[0], clear[:2][-1]
        if isinstance(part, Items) and isinstance(part.of, Node):
            found |= names(part.of, (*above, *path, "[]"))
    return found


def _values_of(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Leaf | Items]]:
    """Values and lists, also those within lists."""
    for key, part in node.parts.items():
        place = (*path, key)
        if isinstance(part, Node):
            yield from _values_of(part, place)
            continue
        yield place, part
        if isinstance(part, Items) and isinstance(part.of, Node):
            yield from _values_of(part.of, (*place, "[]"))


def _endings(path: tuple[str, ...]) -> list[str]:
    """The words of its last key, of its last two, and so on."""
    keys = [" ".join(words_of(key)) or key for key in path if key != "[]"]
    return [" ".join(keys[start:]) for start in range(len(keys) - 1, -1, -1)]


def outline(node: Node) -> str:
    """`{name, address: {city}, items: [{sku}]}`"""
    return "{" + ", ".join(_outlined(key, part) for key, part in node.parts.items()) + "}"


def _outlined(key: str, part: Leaf | Node | Items) -> str:
    if isinstance(part, Leaf):
        return key
    if isinstance(part, Node):
        return f"{key}: {outline(part)}"
    return f"{key}: [{outline(part.of) if isinstance(part.of, Node) else ''}]"


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
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        return value, text.replace("_", " ") if spaced else text
    if leaf.kind in ("integer", "number"):
        steps = int(min((leaf.high - leaf.low) / leaf.step, MOST_STEPS))
        digits = max(4, _digits(leaf.step))
        for _ in range(TRIES):
            # Without the sign of a zero.
            number = round(leaf.low + leaf.step * draw.below(steps + 1), digits) + 0.0
            if not leaf.multiple or (number / leaf.multiple).is_integer():
                break
        if leaf.kind == "integer":
            return int(number), str(int(number))
        return number, f"{number:.{digits}f}".rstrip("0").rstrip(".")
    if leaf.kind == "text":
        value = draw.one((leaf.held_pool if held_out else leaf.pool) or leaf.pool)
        return value, value
    return _formatted(leaf.kind, draw, held_out)


def _digits(step: float) -> int:
    """Behind the point."""
    return len(f"{step:.12f}".rstrip("0").partition(".")[2])


_DURATIONS = (("T{}M", "minutes"), ("T{}H", "hours"), ("{}D", "days"))


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
    if kind == "duration":
        number, (unit, word) = draw.between(2, 50), draw.one(_DURATIONS)
        return f"P{unit.format(number)}", draw.one((f"{number} {word}", f"P{unit.format(number)}"))
    parts = [draw.between(1, 250) for _ in range(3)]
    text = {
        "email": f"{name}@mail.example",
        "hostname": f"www.{name}.example",
        "ipv4": f"10.{parts[0]}.{parts[1]}.{parts[2]}",
        "ipv6": f"2001:db8::{parts[0]:x}:{parts[1]:x}",
    }.get(kind, f"https://www.{name}.example")
    return text, text
