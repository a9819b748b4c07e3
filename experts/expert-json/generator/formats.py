"""Records in formats other than JSON: CSV, tables, YAML, XML, query strings, INI and environment files, Python."""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape

from expert_worker.evaluate.authoring.draw import Draw

Flat = dict[str, Any]
# What YAML reads as a text without quotes.
PLAIN_YAML = re.compile(r"(?!(?:yes|no|on|off|true|false|null|y|n)$)[A-Za-z][\w .@/-]*[\w]", re.IGNORECASE)


def text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def delimited(records: list[Flat], mark: str) -> str:
    """CSV and the like; a value that holds the mark stands in quotes."""
    rows = [list(records[0]), *([text_of(value) for value in record.values()] for record in records)]
    return "\n".join(mark.join(f'"{cell}"' if mark in cell else cell for cell in row) for row in rows)


def markdown(records: list[Flat]) -> str:
    keys = list(records[0])
    head = ["| " + " | ".join(keys) + " |", "|" + "|".join("---" for _ in keys) + "|"]
    return "\n".join(
        [*head, *("| " + " | ".join(text_of(v) for v in record.values()) + " |" for record in records)]
    )


def yaml(value: Any, indent: int = 0) -> str:
    pad = "  " * indent
    lines = []
    for key, part in value.items():
        if isinstance(part, dict):
            lines.append(f"{pad}{key}:\n{yaml(part, indent + 1)}")
        elif isinstance(part, list):
            lines.append(f"{pad}{key}:")
            lines += [f"{pad}  - {_scalar(item)}" for item in part]
        else:
            lines.append(f"{pad}{key}: {_scalar(part)}")
    return "\n".join(lines)


def yaml_list(records: list[Flat]) -> str:
    blocks = []
    for record in records:
        first, *others = yaml(record).splitlines()
        blocks += [f"- {first}", *(f"  {line}" for line in others)]
    return "\n".join(blocks)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if PLAIN_YAML.fullmatch(value) else f'"{value}"'
    return "null" if value is None else text_of(value)


def xml(tag: str, record: Flat, draw: Draw) -> str:
    parts = [f"<{key}>{escape(text_of(value))}</{key}>" for key, value in record.items()]
    if draw.chance(0.5):
        return f"<{tag}>{''.join(parts)}</{tag}>"
    return "\n".join([f"<{tag}>", *(f"  {part}" for part in parts), f"</{tag}>"])


def query(record: Flat, draw: Draw) -> str:
    start = draw.one(("", "", "?"))
    parts = []
    for key, value in record.items():
        text = text_of(value).replace("%", "%25").replace("&", "%26").replace("+", "%2B")
        parts.append(f"{key}={text.replace(' ', draw.one(('%20', '+')))}")
    return start + "&".join(parts)


def environment(record: Flat, draw: Draw) -> str:
    lines = []
    for key, value in record.items():
        text = text_of(value)
        lines.append(f'{key}="{text}"' if " " in text or draw.chance(0.15) else f"{key}={text}")
    return "\n".join(lines)


def ini(section: str, record: Flat) -> str:
    return "\n".join([f"[{section}]", *(f"{key} = {text_of(value)}" for key, value in record.items())])


def toml(record: Flat) -> str:
    lines = []
    for key, value in record.items():
        lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {text_of(value)}")
    return "\n".join(lines)


def headers(record: Flat) -> str:
    return "\n".join(f"{key}: {text_of(value)}" for key, value in record.items())
