"""Labels, relationships and properties that a prompt's description of a graph names.

People describe graphs in many notations. What all of them have are arrows, and names before lists of names:
labels and relationships are read from these. Every other word of the description may be a property.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELDS = r"(?:\{[^{}]*\}[ \t]*)?"
_TYPE = r"\[?[ \t]*(?:\w*[ \t]*:[ \t]*)?(?P<type>\w+)[ \t]*" + _FIELDS + r"(?:\*[\d.]*)?[ \t]*\]?"


def _node(name: str) -> str:
    inside = rf"\([ \t]*(?:\w*[ \t]*:[ \t]*)?(?P<{name}_inside>\w+)[ \t]*{_FIELDS}\)"
    return rf"(?:{inside}|(?P<{name}_bare>\w+)[ \t]*{_FIELDS})"


# The second node may be the first of another arrow.
_ARROW = re.compile(
    rf"{_node('start')}[ \t]*(?P<back><)?-[ \t]*{_TYPE}[ \t]*-[ \t]*(?P<on>>)?[ \t]*"
    rf"(?={_node('end')})"
)
_IN_BRACKETS = re.compile(r"\([ \t]*(?:\w*[ \t]*:[ \t]*)?(\w+)[ \t]*[){]")
_LISTED = re.compile(r"^[ \t]*[-*]?[ \t]*(\w+)[ \t]*(?:\{|\(|:[ \t]*\S)", re.M)
_LINE = re.compile(
    r"->|<-|\]-|^[ \t]*[-*]?[ \t]*\(?[ \t]*:?\w+[ \t]*[{(]|^[ \t]*[-*][ \t]*\w+[ \t]*:|"
    r"^[ \t]*\w+:[ \t]*(?:\[|\w+[ \t]*,)"
)
_ANSWER = re.compile(r"\b(?:RETURN|return)\b")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Relationship:
    start: str
    type: str
    end: str


@dataclass(frozen=True)
class GraphNames:
    labels: tuple[str, ...]
    relationships: tuple[Relationship, ...]
    properties: tuple[str, ...]


def graph_of(prompt: str) -> GraphNames | None:
    """Of the last description in the prompt: examples before it have other graphs. None where there is
    none that can be read."""
    text = _QUOTED.sub("", _description(prompt))
    relationships = tuple(dict.fromkeys(_relationships(text)))
    types = {it.type for it in relationships}
    ends = [label for it in relationships for label in (it.start, it.end)]
    heads = [*_IN_BRACKETS.findall(text), *_LISTED.findall(text)]
    labels = tuple(dict.fromkeys(name for name in (*ends, *heads) if name not in types))
    properties = tuple(dict.fromkeys(word for word in _WORD.findall(text) if word not in types))
    unread = re.search(r"->|<-", text) is not None and not relationships
    return None if not labels or unread else GraphNames(labels, relationships, properties)


def _description(prompt: str) -> str:
    """Up to the last line with a node or an arrow, from behind the answer of an example before it."""
    lines = prompt.splitlines()
    answers = [number for number, line in enumerate(lines) if _ANSWER.search(line)]
    found = [number for number, line in enumerate(lines) if number not in answers and _LINE.search(line)]
    if not found:
        return ""
    last = found[-1]
    first = max((number + 1 for number in answers if number < last), default=0)
    return "\n".join(lines[first : last + 1])


def _relationships(text: str) -> list[Relationship]:
    found = []
    for arrow in _ARROW.finditer(text):
        start, end = (arrow[f"{end}_inside"] or arrow[f"{end}_bare"] for end in ("start", "end"))
        if arrow["back"] and not arrow["on"]:
            start, end = end, start
        if arrow["back"] or arrow["on"]:
            found.append(Relationship(start, arrow["type"], end))
    return found
