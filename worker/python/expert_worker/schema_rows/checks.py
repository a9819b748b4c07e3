"""What a CHECK says about the values of columns, as people and the dumps of four systems write it.

Read are `x IN (...)`, `x = ANY (ARRAY[...])`, `x = 1 OR x = 2`, `x BETWEEN 1 AND 5` and comparisons with a
number, joined by AND.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tokens import Token

_COMPARED = "<>=!"
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
# In the name of a type, behind its first word: `::character varying`, `::timestamp without time zone`.
_TYPE_WORDS = ("VARYING", "PRECISION", "WITHOUT", "WITH", "TIME", "ZONE")


@dataclass(frozen=True)
class Values:
    values: tuple[str, ...]


@dataclass(frozen=True)
class Range:
    low: float | None
    high: float | None


Bounds = Values | Range
Said = tuple[str, Bounds]


def read_check(words: list[Token]) -> tuple[list[Said], bool]:
    """What is said of which column, and whether that is all that the CHECK says."""
    words = _plain(words)
    if any(word.says("OR") for word in words):
        one = _one_of(words)
        return ([one], True) if one else ([], False)
    found = [_read(part) for part in _split(words, "AND")]
    return [it for it in found if it is not None], None not in found


def _plain(words: list[Token]) -> list[Token]:
    """Without parentheses, casts (`::text`), tables' names, and MySQL's `_utf8mb4` before a text."""
    found: list[Token] = []
    place = 0
    while place < len(words):
        word = words[place]
        following = words[place + 1] if place + 1 < len(words) else None
        if _is_mark(word, ":"):
            place = _behind_cast(words, place)
            continue
        is_charset = (
            word.kind == "word" and word.text.startswith("_") and following and following.kind == "text"
        )
        if word.is_name and following and _is_mark(following, "."):
            place += 2
            continue
        if not is_charset and not _is_mark(word, "()"):
            found.append(word)
        place += 1
    return found


def _is_mark(word: Token, marks: str) -> bool:
    return word.kind == "mark" and word.text in marks


def _behind_cast(words: list[Token], place: int) -> int:
    while place < len(words) and words[place].text == ":":
        place += 1
    place += 1
    while place + 1 < len(words) and words[place].text == "." and words[place + 1].is_name:
        place += 2
    while place < len(words) and words[place].says(*_TYPE_WORDS):
        place += 1
    if place < len(words) and words[place].text == "(":
        while place < len(words) and words[place].text != ")":
            place += 1
        place += 1
    while place < len(words) and _is_mark(words[place], "[]"):
        place += 1
    return place


def _split(words: list[Token], by: str) -> list[list[Token]]:
    """The parts between AND, apart from the one of BETWEEN."""
    parts: list[list[Token]] = [[]]
    for word in words:
        begun = [it for it in parts[-1] if it.says("BETWEEN", "AND")]
        if word.says(by) and not (len(begun) == 1 and begun[0].says("BETWEEN")):
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _one_of(words: list[Token]) -> Said | None:
    """`x = 'a' OR x = 'b'`, as SQL Server writes IN."""
    values: list[str] = []
    names: set[str] = set()
    for part in _split(words, "OR"):
        sign, after = _sign(part, 1)
        value = _value(part[after:])
        if not part or not part[0].is_name or sign != "=" or value is None:
            return None
        names.add(part[0].text)
        values.append(value)
    return (names.pop(), Values(_different(values))) if len(names) == 1 else None


def _read(part: list[Token]) -> Said | None:
    if len(part) < 3:
        return None
    if not part[0].is_name:
        return _turned(part)
    name, rest = part[0].text, part[1:]
    if rest[0].says("IN") or (rest[0].text == "=" and rest[1].says("ANY")):
        values = _listed([it for it in rest if not (it.says("IN", "ANY", "ARRAY") or _is_mark(it, "=[]"))])
        return (name, Values(values)) if values else None
    if rest[0].says("BETWEEN"):
        ends = [_number(it) for it in _split(rest[1:], "AND")]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            return None
        return name, Range(ends[0], ends[1])
    sign, after = _sign(part, 1)
    return _compared(name, sign, _number(part[after:]))


def _turned(part: list[Token]) -> Said | None:
    """`0 < x`"""
    place = next((it for it, word in enumerate(part) if _is_mark(word, _COMPARED)), 0)
    sign, after = _sign(part, place)
    if not place or len(part) != after + 1 or not part[after].is_name:
        return None
    return _compared(part[after].text, _FLIPPED.get(sign, ""), _number(part[:place]))


def _compared(name: str, sign: str, number: float | None) -> Said | None:
    if number is None or sign not in ("<", "<=", ">", ">="):
        return None
    return name, Range(number, None) if sign[0] == ">" else Range(None, number)


def _sign(part: list[Token], place: int) -> tuple[str, int]:
    """The comparison that begins there, and the place behind it."""
    found = ""
    while place < len(part) and _is_mark(part[place], _COMPARED):
        found += part[place].text
        place += 1
    return found, place


def _listed(words: list[Token]) -> tuple[str, ...]:
    """The values between commas; none if one of them is something else."""
    parts: list[list[Token]] = [[]]
    for word in words:
        if _is_mark(word, ","):
            parts.append([])
        else:
            parts[-1].append(word)
    values = [_value(it) for it in parts if not (len(it) == 1 and it[0].says("NULL"))]
    return () if None in values else _different([it for it in values if it is not None])


def _different(values: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _value(words: list[Token]) -> str | None:
    if len(words) == 1 and words[0].kind == "text":
        return words[0].text
    number = _number(words)
    if number is None:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _number(words: list[Token]) -> float | None:
    """`5`, `-5`, and `'-5'` as PostgreSQL writes it."""
    signs = [it.text for it in words[:-1]]
    if not words or words[-1].kind not in ("number", "text") or signs not in ([], ["-"], ["+"]):
        return None
    try:
        number = float(words[-1].text)
    except ValueError:
        return None
    number = -number if signs == ["-"] else number
    return number if abs(number) < 1e300 else None
