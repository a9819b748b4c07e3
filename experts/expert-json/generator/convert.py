"""From another format to JSON. Unless the question wants strings only, numbers become numbers and true and false booleans."""

from __future__ import annotations

import json
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from . import formats
from .extract import GROUPS
from .task import Task
from .wording import phrase, request
from .worlds import World, keys_for

SCALARS = ("string", "integer", "number", "boolean")


def _rows(
    world: World, draw: Draw, columns: tuple[int, int], count: int, types: tuple[str, ...]
) -> list[dict[str, Any]]:
    fields = world.some(draw, draw.between(*columns), types)
    keys = keys_for(fields, draw)
    return [{keys[field]: value for field, value in world.record(draw, fields).items()} for _ in range(count)]


def _asked(draw: Draw, payload: str, format: str, result: str, hints: list[str] | None = None) -> str:
    return request("convert", draw, payload, hints or [], format=format, result=result)


def table(world: World, draw: Draw) -> Task:
    """CSV, tab-separated lines, or a markdown table to an array of objects."""
    form = draw.weighted(("CSV", "TSV", "markdown", "semicolons", "bars"), (6, 2, 3, 1, 0.5))
    types = ("string",) if draw.chance(0.3) else SCALARS
    rows = _rows(world, draw, (2, 4), draw.between(1, 4), types)
    names = {
        "CSV": ("CSV", "csv", "CSV file", "comma separated text"),
        "TSV": ("TSV", "tab separated text", "tab-separated table"),
        "markdown": ("table", "markdown table", "Markdown table"),
        "semicolons": ("CSV", "semicolon CSV", "semicolon separated text"),
        "bars": ("pipe separated text", "table"),
    }[form]
    marks = {"CSV": ",", "TSV": "\t", "semicolons": ";", "bars": "|"}
    payload = formats.markdown(rows) if form == "markdown" else formats.delimited(rows, marks[form])
    hints, answer = _strings(rows, draw, 0.25)
    if not hints and any(not isinstance(v, str) for v in rows[0].values()) and draw.chance(0.35):
        hints = [phrase("numbers", draw)] if any(type(v) in (int, float) for v in rows[0].values()) else []
    result = draw.one(("a JSON array", "an array of objects", "a list of objects", "a JSON array of objects"))
    return Task(
        _asked(draw, payload, draw.one(names), result, hints),
        answer,
        1 if len(rows) == 1 else 2,
        ("convert-table",),
    )


def _strings(rows: list[dict[str, Any]], draw: Draw, share: float) -> tuple[list[str], list[dict[str, Any]]]:
    """Sometimes everything as a string, and the words for that."""
    if all(isinstance(value, str) for value in rows[0].values()) or not draw.chance(share):
        return [], rows
    return [phrase("strings", draw)], [
        {key: formats.text_of(value) for key, value in row.items()} for row in rows
    ]


def yaml(world: World, draw: Draw) -> Task | None:
    form = draw.weighted(("flat", "list", "nested", "records"), (5, 2, 3, 2))
    names = ("YAML", "yaml", "YAML file", "yml")
    if form == "records":
        rows = _rows(world, draw, (2, 3), 2, SCALARS)
        return Task(
            _asked(draw, formats.yaml_list(rows), draw.one(names), "a JSON array"), rows, 3, ("convert-yaml",)
        )
    record = _rows(world, draw, (2, 6), 1, SCALARS)[0]
    level = 1
    if form == "list":
        fields = world.some(draw, 1, ("array",))
        if not fields:
            return None
        record |= {keys_for(fields, draw, "snake")[fields[0]]: world.record(draw, fields)[fields[0]]}
        level = 2
    elif form == "nested":
        keys, group = list(record), draw.one(GROUPS)
        if group in keys or len(keys) < 3:
            return None
        record = {keys[0]: record[keys[0]], group: {key: record[key] for key in keys[1:]}}
        level = 2
    return Task(
        _asked(draw, formats.yaml(record), draw.one(names), "a JSON object"), record, level, ("convert-yaml",)
    )


def xml(world: World, draw: Draw) -> Task:
    tag = world.noun.replace(" ", "_")
    record = _rows(world, draw, (2, 3), 1, ("string", "integer"))[0]
    hints, answer = _typed_or_strings(record, draw)
    keep = draw.chance(0.35)
    if keep:
        hints.append(
            draw.one((f"keep {tag} as the outer key", f"{tag} is the outer key", f"wrapped in {tag}"))
        )
    else:
        hints.append(
            draw.one(
                (f"without the outer {tag}", "only the inner keys", f"no {tag} key", "drop the root element")
            )
        )
    payload = formats.xml(tag, record, draw)
    asked = _asked(draw, payload, draw.one(("XML", "xml", "XML snippet")), "a JSON object", hints)
    return Task(asked, {tag: answer} if keep else answer, 2, ("convert-xml",))


def _typed_or_strings(record: dict[str, Any], draw: Draw) -> tuple[list[str], dict[str, Any]]:
    if all(isinstance(value, str) for value in record.values()):
        return [], record
    if draw.chance(0.5):
        return [phrase("strings", draw)], {key: formats.text_of(value) for key, value in record.items()}
    return [phrase("numbers", draw)], record


def pairs(world: World, draw: Draw) -> Task:
    """Query strings, environment files and INI sections, whose values are texts until somebody says otherwise."""
    form = draw.weighted(("query", "env", "ini"), (4, 3, 2))
    record = _rows(world, draw, (2, 4), 1, ("string", "integer", "number"))[0]
    if form == "env":
        record = {_upper(key): value for key, value in record.items()}
    hints, answer = _typed_or_strings(record, draw)
    result = draw.one(("a JSON object", "an object"))
    if form == "query":
        name = draw.one(("query string", "URL query", "form data", "url encoded string"))
        return Task(
            _asked(draw, formats.query(record, draw), name, result, hints), answer, 1, ("convert-query",)
        )
    if form == "env":
        name = draw.one((".env file", "env file", ".env", "list of environment variables"))
        return Task(
            _asked(draw, formats.environment(record, draw), name, result, hints), answer, 1, ("convert-env",)
        )
    section = draw.one(("main", "server", "user", "paths", "defaults", "display"))
    name = draw.one(("INI file", "ini", "INI section", "config file"))
    asked = _asked(
        draw, formats.ini(section, record), name, result, [*hints, f"section {section} as a nested object"]
    )
    return Task(asked, {section: answer}, 2, ("convert-ini",))


def _upper(key: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in key).upper()


def lines(world: World, draw: Draw) -> Task:
    """TOML, header lines, Python and JavaScript literals, one JSON document per line."""
    form = draw.weighted(("toml", "headers", "python", "jsonl"), (3, 3, 3, 3))
    if form == "jsonl":
        rows = _rows(world, draw, (2, 3), draw.between(2, 3), SCALARS)
        payload = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        asked = _asked(draw, payload, draw.one(("JSON Lines", "jsonl", "NDJSON")), "a JSON array")
        return Task(asked, rows, 2, ("convert-lines",))
    record = _rows(world, draw, (2, 4), 1, SCALARS if form != "headers" else ("string", "integer"))[0]
    if form == "python":
        name = draw.one(("Python dict", "python dictionary", "dict"))
        return Task(_asked(draw, str(record), name, "a JSON object"), record, 1, ("convert-python",))
    if form == "toml":
        name = draw.one(("TOML", "toml", "TOML file"))
        return Task(_asked(draw, formats.toml(record), name, "a JSON object"), record, 1, ("convert-toml",))
    hints = [phrase("numbers", draw)] if any(type(v) is int for v in record.values()) else []
    name = draw.one(("text", "list of values", "key: value list", "block"))
    return Task(
        _asked(draw, formats.headers(record), name, "a JSON object", hints), record, 1, ("convert-headers",)
    )
