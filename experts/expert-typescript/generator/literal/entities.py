"""Data types that code is written about. Test and validation types share no type name with training's.

One line a type: `Name plural: field kind, ...`. A kind is `number`, `string`, `boolean`, `string[]`, or words apart by `|`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from expert_worker.evaluate.authoring.draw import Draw

TRAIN = """
User users: name string, age number, email string, active boolean, role admin|guest|editor, tags string[]
Book books: title string, pages number, author string, sold boolean, genre crime|poetry|history, awards string[]
Order orders: code string, total number, city string, paid boolean, status open|sent|closed, items string[]
Car cars: model string, mileage number, owner string, electric boolean, fuel petrol|diesel|gas, extras string[]
Task tasks: title string, effort number, assignee string, done boolean, state todo|doing|blocked, labels string[]
Song songs: title string, seconds number, singer string, live boolean, style jazz|rock|folk, moods string[]
Hotel hotels: name string, rooms number, town string, open boolean, rating basic|good|luxury, services string[]
Movie movies: title string, minutes number, director string, dubbed boolean, genre drama|comedy|horror, cast string[]
Server servers: host string, cores number, region string, healthy boolean, tier small|medium|large, ports string[]
Recipe recipes: name string, calories number, chef string, vegan boolean, course soup|main|dessert, steps string[]
Product products: label string, price number, brand string, listed boolean, kind tool|toy|food, colors string[]
Player players: nick string, score number, team string, banned boolean, rank novice|expert|master, badges string[]
Flight flights: code string, distance number, airline string, delayed boolean, cabin eco|business|first, stops string[]
Pet pets: name string, weight number, breed string, adopted boolean, species cat|dog|bird, tricks string[]
Course courses: title string, hours number, teacher string, remote boolean, level intro|middle|advanced, topics string[]
Message messages: text string, length number, sender string, read boolean, channel mail|chat|sms, files string[]
"""

# Fields that training types are varied with.
SPARE = """
weight number, speed number, temperature number, profit number, votes number, width number, pressure number, debt number, balance number, \
pixels number, wheels number, clicks number, rainfall number, frequency number, discount number, rent number, wage number, attempts number, \
country string, street string, phone string, nickname string, currency string, publisher string, sponsor string, parent string, motto string, \
signature string, browser string, manager string, company string, village string, folder string, password string, \
visible boolean, locked boolean, verified boolean, archived boolean, broken boolean, public boolean, empty boolean, signed boolean, \
color green|brown|white, shape round|square|flat, material wood|iron|glass, mood calm|happy|angry, climate dry|mild|wet, fuel petrol|diesel|gas, \
direction left|right|straight, taste sweet|sour|bitter, weekday monday|friday|sunday, texture smooth|rough|soft, \
comments string[], friends string[], languages string[], keys string[], songs string[], cities string[], hobbies string[], errors string[], plugins string[]
"""
VARIANTS = 3

VALIDATION = """
Museum museums: name string, halls number, city string, free boolean, style modern|baroque|mixed, exhibits string[]
Boat boats: name string, berths number, harbor string, rented boolean, rig sloop|ketch|yawl, gear string[]
Lecture lectures: topic string, seats number, speaker string, recorded boolean, term spring|autumn|summer, notes string[]
"""

TEST = """
Satellite satellites: name string, altitude number, agency string, working boolean, orbit polar|low|high, sensors string[]
Vineyard vineyards: name string, hectares number, valley string, organic boolean, grape merlot|malbec|syrah, tours string[]
Drone drones: serial string, range number, maker string, licensed boolean, size micro|mini|heavy, parts string[]
Bridge bridges: name string, span number, river string, tolled boolean, form arch|beam|cable, lanes string[]
Patient patients: name string, fever number, ward string, insured boolean, triage green|yellow|red, allergies string[]
"""

WORDS = {
    "train": [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "red",
        "blue",
        "north",
        "south",
        "first",
        "last",
        "new",
        "old",
    ],
    "validation": ["coral", "ivory", "amber", "east", "west"],
    "test": ["cobalt", "umber", "zenith", "nadir", "prime"],
}


@dataclass(frozen=True)
class Field:
    name: str
    kind: str

    @property
    def type(self) -> str:
        return " | ".join(f'"{word}"' for word in self.words) if "|" in self.kind else self.kind

    @property
    def words(self) -> list[str]:
        return self.kind.split("|")


@dataclass(frozen=True)
class Entity:
    name: str
    plural: str
    fields: tuple[Field, ...]
    words: tuple[str, ...]

    @property
    def variable(self) -> str:
        return self.name.lower()

    def of(self, draw: Draw, *kinds: str) -> Field:
        """A field of one of these kinds; `choice` stands for a union of words."""
        return draw.one([field for field in self.fields if _kind(field) in kinds])

    def declared(self, used: set[str]) -> str:
        """The interface with the fields that a task speaks of.

        Close together: a name follows its brace or semicolon at once, as it follows a dot in code, so that its
        tokens are the same in both.
        """
        fields = ";".join(f"{field.name}:{field.type}" for field in self.fields if field.name in used)
        return f"interface {self.name} {{{fields}}}"


def _kind(field: Field) -> str:
    return "choice" if "|" in field.kind else field.kind


def entities(split: str) -> list[Entity]:
    text = {"train": TRAIN, "validation": VALIDATION, "test": TEST}[split]
    found = [_entity(line, tuple(WORDS[split])) for line in text.strip().splitlines()]
    return (
        [*found, *(other for entity in found for other in _variants(entity))] if split == "train" else found
    )


def _variants(entity: Entity) -> list[Entity]:
    """The same type with other fields: who has seen few names learns them by heart and copies none."""
    return [_varied(entity, Draw(f"fields/{entity.name}/{place}")) for place in range(VARIANTS)]


def _varied(entity: Entity, draw: Draw) -> Entity:
    spare = draw.shuffled([Field(*part.split(" ")) for part in SPARE.strip().split(", ")])
    fields: list[Field] = []
    for field in entity.fields:
        fitting = [other for other in spare if _kind(other) == _kind(field) and other not in fields]
        fields.append(fitting[0] if draw.chance(0.75) else field)
    return replace(entity, fields=tuple(fields))


def _entity(line: str, words: tuple[str, ...]) -> Entity:
    head, fields = line.split(": ")
    name, plural = head.split(" ")
    return Entity(name, plural, tuple(Field(*part.split(" ")) for part in fields.split(", ")), words)


def quoted(words: list[str]) -> str:
    """As they are quoted in code: so that a model copies them instead of spelling them again."""
    return ", ".join(f'"{word}"' for word in words)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]
