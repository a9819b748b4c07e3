"""A graph's schema as the prompt has it: mostly compact patterns, sometimes as people's own notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .graphs import Column, Edge, Node, World


def written(world: World) -> str:
    return WRITERS[world.layout](world)


def _fields(columns: Sequence[Column], by: str = ",", of: str = ":") -> str:
    """A name follows its brace or comma at once, as it follows a dot in a query: its tokens are the same in both."""
    return by.join(f"{column.field}{of}{column.type}" for column in columns)


def _arrow(edge: Edge, fields: str) -> str:
    return f"(:{edge.start.label})-[:{edge.type}{fields}]->(:{edge.end.label})"


def _pattern(world: World) -> str:
    nodes = [f"(:{node.label} {{{_fields(node.columns)}}})" for node in world.nodes]
    edges = [_arrow(edge, f" {{{_fields(edge.columns)}}}" if edge.columns else "") for edge in world.edges]
    return "\n".join([*nodes, *edges])


def _spaced(world: World) -> str:
    nodes = [f"(:{node.label} {{{_fields(node.columns, ', ', ': ')}}})" for node in world.nodes]
    edges = [
        _arrow(edge, f" {{{_fields(edge.columns, ', ', ': ')}}}" if edge.columns else "")
        for edge in world.edges
    ]
    return "\n".join([*nodes, *edges])


def _sections(world: World) -> str:
    """As tools print a graph's schema."""
    lines = ["Node properties:"]
    lines += [f"{node.label} {{{_fields(node.columns, ', ', ': ')}}}" for node in world.nodes]
    own = [edge for edge in world.edges if edge.columns]
    if own:
        lines += ["Relationship properties:"]
        lines += [f"{edge.type} {{{_fields(edge.columns, ', ', ': ')}}}" for edge in own]
    if world.edges:
        lines += ["Relationships:", *(_arrow(edge, "") for edge in world.edges)]
    return "\n".join(lines)


def _bare(world: World) -> str:
    """Names only."""
    nodes = [f"{node.label}({', '.join(column.field for column in node.columns)})" for node in world.nodes]
    edges = [
        f"({edge.start.label})-[{edge.type}{_bare_fields(edge)}]->({edge.end.label})" for edge in world.edges
    ]
    return "\n".join([*nodes, *edges])


def _bare_fields(edge: Edge) -> str:
    return f" {{{', '.join(column.field for column in edge.columns)}}}" if edge.columns else ""


def _list(world: World) -> str:
    nodes = [f"- {node.label}: {_fields(node.columns, ', ', ' ')}" for node in world.nodes]
    edges = [
        f"- {edge.start.label} -{edge.type}-> {edge.end.label}"
        + (f": {_fields(edge.columns, ', ', ' ')}" if edge.columns else "")
        for edge in world.edges
    ]
    return "\n".join(["Nodes:", *nodes, *(["Relationships:", *edges] if edges else [])])


def _commented(world: World) -> str:
    """With the values of categories behind the nodes."""
    lines = [f"(:{node.label} {{{_fields(node.columns)}}}){_note(node)}" for node in world.nodes]
    lines += [_arrow(edge, f" {{{_fields(edge.columns)}}}" if edge.columns else "") for edge in world.edges]
    return "\n".join(lines)


def _note(node: Node) -> str:
    listed = [f"{column.field}: {', '.join(column.spec[2])}" for column in node.of_kind("cat")]
    return f" // {'; '.join(listed)}" if listed else ""


WRITERS: dict[str, Callable[[World], str]] = {
    "pattern": _pattern,
    "spaced": _spaced,
    "sections": _sections,
    "bare": _bare,
    "list": _list,
    "commented": _commented,
}
