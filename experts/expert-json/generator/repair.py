"""Broken JSON and the JSON that was meant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .task import Task, compact
from .wording import request
from .worlds import World, keys_for

Fault = Callable[[str, Draw], str]


def _spot(pattern: str, text: str, draw: Draw) -> re.Match[str] | None:
    found = list(re.finditer(pattern, text))
    return draw.one(found) if found else None


def _replaced(pattern: str, new: str, text: str, draw: Draw) -> str:
    """One place of the pattern, by chance."""
    spot = _spot(pattern, text, draw)
    return text if spot is None else text[: spot.start()] + spot.expand(new) + text[spot.end() :]


def single_quotes(text: str, _: Draw) -> str:
    return text if "'" in text else text.replace('"', "'")


def bare_keys(text: str, _: Draw) -> str:
    return re.sub(r'"(\w+)"(\s*:)', r"\1\2", text)


def bare_key(text: str, draw: Draw) -> str:
    return _replaced(r'"(\w+)"(\s*:)', r"\1\2", text, draw)


def trailing_comma(text: str, draw: Draw) -> str:
    return _replaced(r"(?<=[\w\"\]}])(\s*[\]}])", r",\1", text, draw)


def missing_comma(text: str, draw: Draw) -> str:
    return _replaced(r",(\s)", r"\1", text, draw)


def unclosed(text: str, draw: Draw) -> str:
    """Without the brackets at the end."""
    ends = len(text) - len(re.sub(r"[\]}\s]+$", "", text))
    return text[: -draw.between(1, ends)].rstrip() if ends else text


def cut_off(text: str, draw: Draw) -> str:
    """Broken off after a whole value, inside brackets."""
    return re.sub(r"[\]}\s]+$", draw.one(("", ",", "\n")), text)


def python_words(text: str, _: Draw) -> str:
    for word, other in (("true", "True"), ("false", "False"), ("null", "None")):
        text = re.sub(rf"(?<=[:\[,])(\s*){word}\b", rf"\1{other}", text)
    return text


def comment(text: str, draw: Draw) -> str:
    note = draw.one(("check this", "main value", "todo", "from the form", "required", "do not change"))
    mark = draw.one((f" // {note}\n", f" /* {note} */", f" # {note}\n"))
    return _replaced(r"(?<=\w)\"?,(?=\s)", r"\g<0>" + mark, text, draw)


def equals_sign(text: str, draw: Draw) -> str:
    return _replaced(r'(?<="):\s', draw.one((" = ", "=", " => ")), text, draw)


def all_equals(text: str, draw: Draw) -> str:
    return re.sub(r'(?<="):\s', draw.one((" = ", " => ")), text)


def semicolons(text: str, _: Draw) -> str:
    return re.sub(r",(?=\s*\")", ";", text)


def lost_quote(text: str, draw: Draw) -> str:
    """A text value without its last quotation mark."""
    return _replaced(r'(:\s"[^"]*)"(?=\s*[,}])', r"\1", text, draw)


def lost_key_quote(text: str, draw: Draw) -> str:
    return _replaced(r'"(\w+)"(?=\s*:)', draw.one((r'\1"', r'"\1')), text, draw)


def bare_value(text: str, draw: Draw) -> str:
    return _replaced(r'(:\s)"([A-Za-z]\w*)"', r"\1\2", text, draw)


def double_comma(text: str, draw: Draw) -> str:
    return _replaced(r",(?=\s)", ",,", text, draw)


def lost_colon(text: str, draw: Draw) -> str:
    return _replaced(r'(?<="):(?=\s)', "", text, draw)


def extra_bracket(text: str, _: Draw) -> str:
    return text + text.rstrip()[-1]


def curly_quotes(text: str, _: Draw) -> str:
    return re.sub(r'"([^"]*)"', "\u201c\\1\u201d", text)


def no_braces(text: str, _: Draw) -> str:
    return re.sub(r"^\{\s*|\s*\}$", "", text)


FAULTS: dict[str, tuple[Fault, int]] = {
    "single-quotes": (single_quotes, 4),
    "bare-keys": (bare_keys, 4),
    "bare-key": (bare_key, 2),
    "trailing-comma": (trailing_comma, 4),
    "missing-comma": (missing_comma, 4),
    "unclosed": (unclosed, 4),
    "cut-off": (cut_off, 2),
    "python": (python_words, 3),
    "comment": (comment, 3),
    "equals": (equals_sign, 1),
    "all-equals": (all_equals, 2),
    "semicolons": (semicolons, 2),
    "lost-quote": (lost_quote, 3),
    "lost-key-quote": (lost_key_quote, 2),
    "bare-value": (bare_value, 2),
    "double-comma": (double_comma, 1),
    "lost-colon": (lost_colon, 2),
    "extra-bracket": (extra_bracket, 2),
    "curly-quotes": (curly_quotes, 1),
    "no-braces": (no_braces, 1),
}
FIRST_IN_PAIR = ("single-quotes", "bare-keys", "trailing-comma", "python", "missing-comma")


def document(world: World, draw: Draw) -> Any:
    """An object, one with a list in it, or a list of two objects."""
    fields = world.some(draw, draw.between(2, 5))
    keys = keys_for(fields, draw)
    form = draw.weighted(("object", "list", "within"), (7, 2, 2))
    if form == "list":
        fields = fields[:2]
        return [{keys[f]: value for f, value in world.record(draw, fields).items()} for _ in range(2)]
    record = {keys[field]: value for field, value in world.record(draw, fields).items()}
    if draw.chance(0.1):
        record[draw.one(list(record))] = None
    if form == "within":
        return {draw.one((world.noun.replace(" ", "_"), "data", "result")): record}
    return record


def _repair(world: World, draw: Draw, names: list[str]) -> Task | None:
    answer = document(world, draw)
    text = json.dumps(answer, ensure_ascii=False, indent=2) if draw.chance(0.25) else compact(answer)
    for name in names:
        before, text = text, FAULTS[name][0](text, draw)
        if before == text:
            return None
    if _parses(text) or len(text) > 300:
        return None
    asked = request("repair", draw, text)
    tag = f"repair-{names[0]}" if len(names) == 1 else "repair-two"
    level = 1 if len(names) == 1 and isinstance(answer, dict) else 2
    return Task(asked, answer, level if len(names) == 1 else 3, (tag,))


def one_fault(world: World, draw: Draw) -> Task | None:
    name = draw.weighted(list(FAULTS), [weight for _, weight in FAULTS.values()])
    return _repair(world, draw, [name])


def two_faults(world: World, draw: Draw) -> Task | None:
    first = draw.one(FIRST_IN_PAIR)
    second = draw.one([name for name in ("unclosed", "trailing-comma", "comment", "python") if name != first])
    return _repair(world, draw, [second, first] if second == "unclosed" else [first, second])


def wrapped(world: World, draw: Draw) -> Task | None:
    """JSON inside an answer or a string."""
    answer = document(world, draw)
    text = compact(answer)
    form = draw.one(("fence", "string", "twice"))
    if form == "fence":
        start = draw.one(("Sure! Here is the JSON", "Here you are", "The result is", "Of course"))
        end = draw.one(("Hope this helps!", "Anything else?", "Have a nice day."))
        broken = single_quotes(text, draw) if draw.chance(0.5) else trailing_comma(text, draw)
        payload = f"{start}:\n```json\n{broken}\n```\n{end}"
        if _parses(broken):
            return None
        return Task(request("repair", draw, payload), answer, 2, ("repair-wrapped",))
    payload = json.dumps(text, ensure_ascii=False)
    result = draw.one(("real JSON", "the JSON in it", "a JSON object", "the object itself"))
    name = draw.one(("escaped JSON", "JSON string", "stringified JSON", "escaped string"))
    return Task(
        request(
            "convert",
            draw,
            payload,
            [draw.one(("unescaped", "no backslashes", "not as a string"))],
            format=name,
            result=result,
        ),
        answer,
        2,
        ("repair-escaped",),
    )


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
