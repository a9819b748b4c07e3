"""From text to JSON."""

from __future__ import annotations

from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .task import Task, compact
from .texts import Text, described, listing, prose
from .values import PLAIN, Style
from .wording import keys_said, phrase, request, series
from .worlds import Field, World, cased, keys_for, words_of

GROUPS = ("details", "info", "data", "meta", "extra", "summary")


def _wanted(text: Text, draw: Draw, most: int, *, lists: bool = False) -> list[Field]:
    usable = [field for field in text.record if lists or field.type != "array"]
    return draw.some(usable, min(len(usable), draw.weighted((1, 2, 3, 4, 5), (2, 4, 6, 5, 3)), most))


def _hints(text: Text, draw: Draw) -> list[str]:
    return [phrase(hint, draw) for hint in text.hints]


def _answer(text: Text, keys: dict[Field, str]) -> dict[str, Any]:
    return {key: text.record[field] for field, key in keys.items()}


def sentence(world: World, draw: Draw) -> Task:
    """Some facts of a sentence, mail or message."""
    text = prose(world, draw)
    keys = keys_for(_wanted(text, draw, 5), draw)
    asked = request("extract", draw, text.text, keys=keys_said(list(keys.values()), draw), source=text.source)
    return Task(asked, _answer(text, keys), 1, ("extract-text",))


def labelled(world: World, draw: Draw) -> Task | None:
    """Some facts of `name: value` lists and log lines, where a name may differ from the key."""
    fields = world.some(draw, draw.between(3, 6), ("string", "integer", "number"))
    text = listing(world, fields, draw)
    keys = keys_for(_wanted(text, draw, 5), draw)
    asked = request("extract", draw, text.text, keys=keys_said(list(keys.values()), draw), source=text.source)
    return Task(asked, _answer(text, keys), 1, ("extract-labelled",))


def unlabelled(world: World, draw: Draw) -> Task:
    """Bare values one after the other, the keys in the same order."""
    fields = world.some(draw, draw.between(2, 4), ("string", "integer", "number"))
    keys, record = keys_for(fields, draw), world.record(draw, fields)
    text = draw.weighted((", ", " - ", " | ", "; ", " / "), (6, 2, 2, 1, 1)).join(
        str(record[f]) for f in fields
    )
    source = draw.one(("line", "text", world.noun, "entry"))
    asked = request("extract", draw, text, keys=keys_said(list(keys.values()), draw), source=source)
    return Task(asked, {key: record[field] for field, key in keys.items()}, 1, ("extract-unlabelled",))


FRAMES = (
    "Write to {0} or {1}, please.",
    "We have {0} and {1} on the list. Nothing else came in.",
    "First {0}, then {1} and later {2}.",
    "Please note {0}, {1} and {2}.",
    "Old entry: {0}. New entry: {1}.",
    "I saw {0} in the morning and {1} in the evening.",
    "{0} was there, {1} was not, and {2} came late.",
    "Instead of {0} use {1}. The same holds for {2}.",
)
THINGS = {
    "email": ("email addresses", "emails", "mail addresses"),
    "phone": ("phone numbers", "phones"),
    "date": ("dates", "days"),
    "time": ("times", "times of day"),
    "url": ("URLs", "links", "web addresses"),
    "ip": ("IP addresses", "IPs"),
    "person": ("people", "names", "persons"),
    "city": ("cities", "city names"),
    "company": ("companies", "company names"),
    "code:TX-4": ("codes", "IDs"),
    "int:13-990": ("numbers", "integers"),
    "version": ("version numbers", "versions"),
}


def every(world: World, draw: Draw) -> Task | None:
    """All mail addresses, dates, names ... of a text, in order, as an array."""
    kind, frame = draw.one(list(THINGS)), draw.one(FRAMES)
    field = Field((kind,), kind)
    values = [world.record(draw, [field])[field] for _ in range(frame.count("{"))]
    if len(set(values)) < len(values):
        return None
    text = frame.format(*values)
    asked = request(
        "every", draw, text, keys=draw.one(THINGS[kind]), source=draw.one(("text", "message", "note", "mail"))
    )
    return Task(asked, values, 2, ("extract-every",))


def normalized(world: World, draw: Draw) -> Task | None:
    """Dates, prices and yes or no, as the question wants them."""
    text = described(world, draw, Style.drawn(draw))
    if not text.hints:
        return None
    keys = keys_for(_wanted(text, draw, 5), draw)
    if not any(field.type != "string" or field.kind == "date" for field in keys):
        return None
    asked = request(
        "extract",
        draw,
        text.text,
        _hints(text, draw),
        keys=keys_said(list(keys.values()), draw),
        source=text.source,
    )
    return Task(asked, _answer(text, keys), 2, ("extract-normalized",))


def absent(world: World, draw: Draw) -> Task | None:
    """A key that the text says nothing about is null."""
    text = described(world, draw, flags=False)
    missing = [field for field in world.fields if field not in text.record and field.type != "array"]
    if not missing or text.hints:
        return None
    fields = draw.shuffled([*_wanted(text, draw, 3), *draw.some(missing, draw.weighted((1, 2), (4, 1)))])
    keys = keys_for(fields, draw)
    answer = {key: text.record.get(field) for field, key in keys.items()}
    asked = request(
        "extract",
        draw,
        text.text,
        [phrase("absent", draw)],
        keys=keys_said(list(keys.values()), draw),
        source=text.source,
    )
    return Task(asked, answer, 2, ("extract-null",))


def lists(world: World, draw: Draw) -> Task | None:
    text = described(world, draw, flags=False)
    listed = [field for field in text.record if field.type == "array"]
    if not listed or text.hints:
        return None
    others = [field for field in _wanted(text, draw, 2) if field not in listed]
    keys = keys_for(draw.shuffled([listed[0], *others]), draw)
    said = [f"{key} (list)" if field in listed else key for field, key in keys.items()]
    shape = series(said, draw) if draw.chance(0.7) else keys_said(list(keys.values()), draw)
    asked = request("extract", draw, text.text, keys=shape, source=text.source)
    return Task(asked, _answer(text, keys), 2, ("extract-list",))


PLACEHOLDERS = {"string": '""', "integer": "0", "number": "0.0", "boolean": "false", "array": "[]"}
WORDS = {
    "string": '"string"',
    "integer": '"number"',
    "number": '"number"',
    "boolean": '"boolean"',
    "array": '"list"',
}


def template(world: World, draw: Draw) -> Task | None:
    """An empty object to fill in."""
    text = described(world, draw, Style.drawn(draw) if draw.chance(0.4) else PLAIN)
    keys = keys_for(_wanted(text, draw, 5, lists=True), draw)
    form = draw.weighted(("empty", "words", "null", "dots"), (4, 2, 2, 2))
    if text.hints and form not in ("empty", "words"):
        return None
    parts = []
    for field, key in keys.items():
        place = {"empty": PLACEHOLDERS, "words": WORDS}.get(form, {}).get(
            field.type, "null" if form == "null" else "..."
        )
        if field.kind == "date" and "dates" in text.hints:
            place = '"YYYY-MM-DD"'
        parts.append(f'"{key}": {place}')
    asked = request("template", draw, text.text, template="{" + ", ".join(parts) + "}", source=text.source)
    return Task(asked, _answer(text, keys), 2, ("extract-template",))


TYPED = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "array": "string[]",
}


def typed(world: World, draw: Draw) -> Task | None:
    """Keys with their types: in brackets, as a TypeScript type, or as a small JSON Schema."""
    text = described(world, draw, Style(money=draw.one(("plain", "dollar", "code"))))
    keys = keys_for(_wanted(text, draw, 4, lists=True), draw)
    form = draw.weighted(("brackets", "type", "schema", "colons"), (5, 3, 1.5, 2))
    if form == "schema":
        properties = {key: {"type": field.type} for field, key in keys.items()}
        said = compact({"type": "object", "properties": properties})
        asked = request("typed", draw, text.text, type=said, source=text.source)
        return Task(asked, _answer(text, keys), 3, ("extract-schema",))
    if form == "type":
        between = draw.one(("; ", ", "))
        said = "{ " + between.join(f"{key}: {TYPED[field.type]}" for field, key in keys.items()) + " }"
        asked = request("typed", draw, text.text, type=said, source=text.source)
        return Task(asked, _answer(text, keys), 2, ("extract-typed",))
    kinds = {**TYPED, "array": "list of strings", "boolean": "true/false" if draw.chance(0.4) else "boolean"}
    pattern = "{} ({})" if form == "brackets" else "{}: {}"
    said = series([pattern.format(key, kinds[field.type]) for field, key in keys.items()], draw)
    asked = request("extract", draw, text.text, keys=said, source=text.source)
    return Task(asked, _answer(text, keys), 2, ("extract-typed",))


def phrased(world: World, draw: Draw) -> Task | None:
    """Facts named in plain words, and the case of the keys."""
    text = described(world, draw, flags=False)
    if text.hints:
        return None
    case = draw.one(("snake", "camel"))
    fields = _wanted(text, draw, 3)
    names = {field: draw.one(field.names) for field in fields}
    if not any("_" in name for name in names.values()):
        return None
    article = draw.one(("", "the ", ""))
    said = series([article + words_of(name) for name in names.values()], draw)
    answer = {cased(name, case): text.record[field] for field, name in names.items()}
    asked = request("extract", draw, text.text, [phrase(case, draw)], keys=said, source=text.source)
    return Task(asked, answer, 2, ("extract-phrased",)) if len(answer) == len(names) else None


def renamed(world: World, draw: Draw) -> Task | None:
    """Another key for a fact: `order number as ref`."""
    text = described(world, draw, flags=False)
    fields = _wanted(text, draw, 3)
    if text.hints:
        return None
    new = draw.some(
        ("ref", "value", "what", "who", "main", "field1", "field2", "x", "y", "a", "b", "k1", "k2"),
        len(fields),
    )
    joint = draw.one(("{} as {}", "{} (as {})", "{} -> {}"))
    said = series(
        [joint.format(words_of(draw.one(field.names)), key) for field, key in zip(fields, new, strict=True)],
        draw,
    )
    asked = request("extract", draw, text.text, keys=said, source=text.source)
    return Task(
        asked, dict(zip(new, (text.record[field] for field in fields), strict=True)), 2, ("extract-renamed",)
    )


def many(world: World, draw: Draw) -> Task | None:
    """One record per line."""
    fields = world.some(draw, draw.between(2, 3), ("string", "integer", "number"))
    keys = keys_for(fields, draw)
    count = draw.between(2, 3)
    records = [world.record(draw, fields) for _ in range(count)]
    between = draw.one((", ", "; ", " - ", " | ", " / "))
    order = draw.shuffled(fields) if draw.chance(0.3) else fields
    if draw.chance(0.5):
        lines = [between.join(f"{words_of(keys[f])}: {record[f]}" for f in order) for record in records]
    else:
        order = fields
        lines = [between.join(str(record[f]) for f in order) for record in records]
    if draw.chance(0.3):
        lines = [f"{draw.one(('-', '*'))} {line}" for line in lines]
    asked = request(
        "many",
        draw,
        "\n".join(lines),
        keys=keys_said(list(keys.values()), draw),
        noun=world.noun,
        nouns=world.nouns,
    )
    answer = [{key: record[field] for field, key in keys.items()} for record in records]
    return Task(asked, answer, 3, ("extract-many",))


def nested(world: World, draw: Draw) -> Task | None:
    text = described(world, draw, flags=False)
    fields = [field for field in text.record if field.type != "array"]
    if text.hints or len(fields) < 3:
        return None
    keys = keys_for(draw.some(fields, draw.between(3, min(4, len(fields)))), draw)
    group = draw.one(GROUPS)
    names = list(keys.values())
    if group in names:
        return None
    outer = draw.between(1, len(names) - 2)
    pairs = _answer(text, keys)
    answer: dict[str, Any] = {key: pairs[key] for key in names[:outer]}
    answer[group] = {key: pairs[key] for key in names[outer:]}
    asked = request(
        "nested",
        draw,
        text.text,
        outer=keys_said(names[:outer], draw),
        inner=keys_said(names[outer:], draw),
        group=group,
    )
    return Task(asked, answer, 3, ("extract-nested",))


def letters(world: World, draw: Draw) -> Task | None:
    """One value in small letters or capitals."""
    text = described(world, draw, flags=False)
    fields = [field for field in _wanted(text, draw, 3) if field.type in ("string", "integer")]
    usable = [
        f for f in fields if f.type == "string" and f.kind not in ("date", "time", "phone", "ip", "version")
    ]
    if not usable or text.hints:
        return None
    keys = keys_for(fields, draw)
    changed, intent = draw.one(usable), draw.one(("lowercase", "uppercase"))
    answer = _answer(text, keys)
    value = answer[keys[changed]]
    answer[keys[changed]] = value.lower() if intent == "lowercase" else value.upper()
    if answer[keys[changed]] == value:
        return None
    hint = phrase(intent, draw, key=keys[changed])
    asked = request(
        "extract", draw, text.text, [hint], keys=keys_said(list(keys.values()), draw), source=text.source
    )
    return Task(asked, answer, 2, ("extract-letters",))
