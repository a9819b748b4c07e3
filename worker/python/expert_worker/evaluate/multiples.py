"""Numbers of `multipleOf` in a JSON Schema: a grammar of the numbers counts their remainders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

# llguidance needs 11 s and 450 MB for a million, and nothing ends it.
_MOST_REMAINDERS = 10_000
_MOST_DIGITS = 20
_MOST_NAMED = 4
_KEYWORD = "multipleOf"


def check_multiples(schema: Any) -> None:
    """Of the whole schema: `allOf` and references may ask one number to be a multiple of several."""
    places: dict[Decimal, str] = {}
    for place, number in _multiples(schema):
        places.setdefault(number, place)
    least = min((int(one.as_tuple().exponent) for one in places), default=0)
    if any(one.adjusted() - least > _MOST_DIGITS for one in places):
        raise ValueError(f"The numbers of {_named(places)} have more than {_MOST_DIGITS} digits")
    wholes = {one: int(one.scaleb(-least)) for one in places}
    for one, whole in wholes.items():
        if _remainders([whole]) > _MOST_REMAINDERS:
            raise ValueError(f"{_named({one: places[one]})} has more than {_MOST_REMAINDERS} remainders")
    if _remainders(wholes.values()) > _MOST_REMAINDERS:
        raise ValueError(
            f"The least common multiple of {_named(places)} has more than {_MOST_REMAINDERS} remainders"
        )


def _remainders(wholes: Iterable[int]) -> int:
    common = math.lcm(*wholes)
    # A digit more costs one state, not ten times as many.
    while common > 1 and common % 10 == 0:
        common //= 10
    return common


def _multiples(schema: Any) -> Iterator[tuple[str, Decimal]]:
    left = [("", schema)]
    while left:
        place, part = left.pop()
        if isinstance(part, dict):
            number = part.get(_KEYWORD)
            if (
                isinstance(number, int | float)
                and not isinstance(number, bool)
                and (isinstance(number, int) or math.isfinite(number))
                and number > 0
            ):
                yield f"{place}/{_KEYWORD}", Decimal(str(number))
            inner: Iterable[tuple[Any, Any]] = part.items()
        elif isinstance(part, list):
            inner = enumerate(part)
        else:
            continue
        left += [(f"{place}/{_escaped(str(key))}", value) for key, value in inner]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _named(places: Mapping[Decimal, str]) -> str:
    named = [f"{place} ({number})" for number, place in sorted(places.items(), reverse=True)]
    rest = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
