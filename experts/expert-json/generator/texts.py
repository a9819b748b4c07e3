"""Texts that hold a record: a sentence, a mail, a chat message, a log line, `key: value` lists."""

from __future__ import annotations

from dataclasses import dataclass, field

from expert_worker.evaluate.authoring.draw import Draw

from .values import PLAIN, Style, shown
from .worlds import Field, Record, World, cased, words_of

OPENINGS = ("Hi", "Hello", "Hi team", "Good morning", "Dear all", "Hey")
CLOSINGS = ("Thanks", "Best", "Kind regards", "Cheers", "Bye", "Best regards")
ASIDES = (
    "Let me know if anything is unclear.",
    "No further comments.",
    "More details will follow.",
    "Sorry for the delay.",
    "That is all for now.",
    "Please keep this for your files.",
    "I hope this helps.",
    "Nothing else to report.",
)
FLAGS = (("yes", "no"), ("true", "false"), ("Yes", "No"), ("y", "n"))


@dataclass
class Text:
    """What is written, what kind of text that is, what it says, and what a question must say about types."""

    text: str
    source: str
    record: Record
    hints: list[str] = field(default_factory=list)


def described(world: World, draw: Draw, style: Style = PLAIN, *, flags: bool = True) -> Text:
    """A record in any of the forms; without `flags` no yes or no stands for a boolean."""
    if draw.chance(0.6):
        return prose(world, draw, style)
    fields = world.some(draw, draw.between(3, 6))
    if not flags:
        fields = [field for field in fields if field.type != "boolean"]
    return listing(world, fields, draw, style)


def prose(world: World, draw: Draw, style: Style = PLAIN) -> Text:
    template = draw.one(world.sentences)
    if draw.chance(0.2) and "\n" not in template:
        other = draw.one(world.sentences)
        if template.endswith(".") and other.endswith(".") and other != template:
            template = f"{template} {other}"
    fields = list(dict.fromkeys(world.said_in(template)))
    record = world.record(draw, fields)
    found = Text("", "text", record)
    # A value keeps its letters, also at the start.
    capital = draw.chance(0.8) and not template.startswith("{")
    for part in fields:
        said, hint = shown(part.kind, record[part], style)
        template = template.replace("{" + part.names[0] + "}", said)
        _note(found, hint)
    found.text = template[:1].upper() + template[1:] if capital else template
    _dressed(found, world, draw)
    return found


def _dressed(found: Text, world: World, draw: Draw) -> None:
    form = draw.weighted(("bare", "aside", "mail", "chat", "note", "subject"), (11, 3, 2, 2, 1, 1))
    if not found.text.endswith("."):
        found.source = draw.one(("text", "line", "entry", "note", world.noun))
        return
    name = draw.one(world.pools["first"])
    found.source = draw.one(("text", "sentence", world.noun, "note", "message", "text"))
    if form == "aside":
        aside = draw.one(ASIDES)
        found.text = f"{found.text} {aside}" if draw.chance(0.6) else f"{aside} {found.text}"
    elif form == "mail":
        found.text = f"{draw.one(OPENINGS)},\n{found.text}\n{draw.one(CLOSINGS)}, {name}"
        found.source = draw.one(("email", "mail", "message", "e-mail"))
    elif form == "subject":
        found.text = f"Subject: {world.noun}\n\n{found.text}\n\n{draw.one(CLOSINGS)}\n{name}"
        found.source = draw.one(("email", "mail", "e-mail"))
    elif form == "chat":
        found.text = draw.one(
            (f"{name}: {found.text}", f"<{name}> {found.text}", f"[09:14] {name}: {found.text}")
        )
        found.source = draw.one(("chat message", "message", "chat"))
    elif form == "note":
        found.text = f"{draw.one(('Note', 'FYI', 'Reminder', 'Update', 'Memo'))}: {found.text}"
        found.source = draw.one(("note", "text", "memo"))


def listing(world: World, fields: list[Field], draw: Draw, style: Style = PLAIN) -> Text:
    """Names and values, each name one of the field's names."""
    record = world.record(draw, fields)
    found = Text("", "text", record)
    form = draw.weighted(("lines", "inline", "bars", "log", "dashes"), (5, 4, 2, 2, 1))
    flags = draw.one(FLAGS)
    pairs = []
    for part in fields:
        name = draw.one(part.names)
        if part.type == "boolean":
            said, hint = flags[0 if record[part] else 1], "" if flags[0] == "true" else "booleans"
        elif part.type == "array":
            said, hint = (
                ", ".join(record[part]) if form in ("lines", "dashes") else "/".join(record[part]),
                "",
            )
        else:
            said, hint = shown(part.kind, record[part], style)
        pairs.append((name, said))
        _note(found, hint)
    found.text, found.source = _laid_out(pairs, form, world, draw)
    return found


def _laid_out(pairs: list[tuple[str, str]], form: str, world: World, draw: Draw) -> tuple[str, str]:
    if form == "log":
        case = draw.one(("snake", "camel"))
        facts = " ".join(
            f'{cased(name, case)}="{said}"' if " " in said else f"{cased(name, case)}={said}"
            for name, said in pairs
        )
        return f"{draw.one(('INFO', '[info]', 'level=info', 'DEBUG'))} {facts}", draw.one(
            ("log line", "line", "log")
        )
    labels = [(words_of(name), said) for name, said in pairs]
    if draw.chance(0.5):
        labels = [(name[:1].upper() + name[1:], said) for name, said in labels]
    if form == "lines":
        colon = draw.weighted((": ", " = ", " - "), (8, 1, 1))
        text = "\n".join(f"{name}{colon}{said}" for name, said in labels)
        return text, draw.one(("text", "list", world.noun, "form", "data"))
    if form == "dashes":
        return "\n".join(f"- {name}: {said}" for name, said in labels), draw.one(("list", "note", "text"))
    between = " | " if form == "bars" else draw.one((", ", "; "))
    return between.join(f"{name}: {said}" for name, said in labels), draw.one(
        ("text", "line", world.noun, "entry")
    )


def _note(found: Text, hint: str) -> None:
    if hint and hint not in found.hints:
        found.hints.append(hint)
