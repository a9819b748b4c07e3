"""Values of a field by its kind, and how a text shows them: a date in words, a price with its sign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

_MONTHS = "January February March April May June July August September October November December"
MONTHS = _MONTHS.split()
_SPELLED = "zero one two three four five six seven eight nine ten eleven twelve"
SPELLED = _SPELLED.split()
LETTERS = "ABCDEFGHJKLMNPRSTUVWX"
Pools = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Style:
    """How a text shows dates, prices and large numbers; `plain` shows them as JSON would."""

    date: str = "iso"
    money: str = "plain"
    thousands: bool = False
    spelled: bool = False

    @classmethod
    def drawn(cls, draw: Draw) -> Style:
        return cls(
            draw.weighted(("iso", "long", "us", "short", "dots", "slashes"), (3, 3, 2, 2, 2, 1)),
            draw.one(("plain", "dollar", "euro", "code")),
            draw.chance(0.4),
            draw.chance(0.3),
        )


PLAIN = Style()


def draw_value(kind: str, draw: Draw, pools: Pools) -> Any:
    name, _, rest = kind.partition(":")
    if "|" in kind and name not in ("list", "bool"):
        return draw.one(kind.split("|"))
    if name == "list":
        words = rest.split("|")
        return draw.some(words, draw.between(2, min(3, len(words))))
    if name == "bool":
        return draw.chance(0.5)
    if name in ("int", "dec", "money"):
        low, high = (int(part) for part in rest.split("-"))
        return _number(name, low, high, draw)
    if name == "code":
        prefix, digits = rest.rsplit("-", 1)
        return f"{prefix}-{draw.between(10 ** (int(digits) - 1), 10 ** int(digits) - 1)}"
    if name == "hex":
        return draw.one("abcdf") + "".join(draw.one("0123456789abcdef") for _ in range(int(rest) - 1))
    return _named(name, draw, pools)


def _number(name: str, low: int, high: int, draw: Draw) -> int | float:
    if name == "int":
        value = draw.between(low, high)
        return value if value < 3000 or draw.chance(0.4) else value // 100 * 100
    if name == "dec":
        return whole(draw.between(low * 10 + 1, high * 10 - 1) / 10)
    cents = draw.one((0, 0, 50, 90, 99, 25, 75, draw.below(100)))
    return whole((draw.between(low, high - 1) * 100 + cents) / 100)


def whole(value: float) -> int | float:
    """4.0 as 4, as people write it."""
    return int(value) if value == int(value) else value


def _named(name: str, draw: Draw, pools: Pools) -> str:
    if name == "person":
        return f"{draw.one(pools['first'])} {draw.one(pools['last'])}"
    if name == "email":
        first, last = (re.sub("[^a-z]", "", draw.one(pools[name]).lower()) for name in ("first", "last"))
        user = draw.one((first, f"{first}.{last}", f"{first[0]}.{last}", f"{first}_{last}", last))
        return f"{user}@{draw.one(pools['mailhost'])}"
    if name == "phone":
        head = draw.one(("+49 30 ", "+1 555 ", "+44 20 ", "0171-", "555-", "+39 06 "))
        return f"{head}{draw.between(1000, 9999)}" + (f" {draw.between(10, 99)}" if draw.chance(0.4) else "")
    if name == "date":
        return f"20{draw.between(19, 26)}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
    if name == "time":
        return f"{draw.between(6, 22):02d}:{draw.one((0, 5, 10, 15, 20, 30, 40, 45, 50)):02d}"
    if name == "ip":
        return f"{draw.one((10, 172, 192))}.{draw.below(255)}.{draw.below(255)}.{draw.between(1, 254)}"
    if name == "zip":
        return f"{draw.one(LETTERS)}{draw.between(1, 9)}{draw.one(LETTERS)} {draw.between(1, 9)}{draw.one(LETTERS)}{draw.one(LETTERS)}"
    if name == "version":
        return f"{draw.between(0, 9)}.{draw.between(0, 20)}.{draw.between(0, 9)}"
    if name == "url":
        return (
            f"https://{draw.one(pools['domain'])}/{draw.one(('hooks', 'items', 'v1/events', 'a/b', 'start'))}"
        )
    return draw.one(pools[name])


def type_of(kind: str) -> str:
    """The JSON type, as JSON Schema names it; a list is one of strings."""
    name = kind.partition(":")[0]
    types = {"int": "integer", "dec": "number", "money": "number", "bool": "boolean", "list": "array"}
    return "string" if "|" in kind and name not in types else types.get(name, "string")


def shown(kind: str, value: Any, style: Style) -> tuple[str, str]:
    """The value as a text has it, and what a question must say to have it as JSON wants it ("" for nothing)."""
    name = kind.partition(":")[0]
    if isinstance(value, bool):
        yes, no = kind.partition(":")[2].split("/")
        return (yes if value else no), ""
    if isinstance(value, list):
        return joined(value), ""
    if name == "date" and style.date != "iso":
        return date_in(value, style.date), "dates"
    if name == "money" and style.money != "plain":
        amount = f"{value:,.2f}"
        forms = {"dollar": f"${amount}", "euro": f"€{amount}", "code": f"{amount} EUR"}
        return forms[style.money], "numbers"
    if name == "int" and style.spelled and 2 <= value <= 12:
        return SPELLED[value], "numbers"
    if name == "int" and style.thousands and value >= 10_000:
        return f"{value:,}", "numbers"
    return str(value), ""


def date_in(value: str, form: str) -> str:
    year, month, day = value.split("-")
    name = MONTHS[int(month) - 1]
    return {
        "long": f"{int(day)} {name} {year}",
        "us": f"{name} {int(day)}, {year}",
        "short": f"{int(day)} {name[:3]} {year}",
        "dots": f"{day}.{month}.{year}",
        "slashes": f"{year}/{month}/{day}",
    }[form]


def joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
