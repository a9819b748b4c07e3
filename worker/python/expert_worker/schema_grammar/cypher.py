"""A grammar of one reading Cypher query over the graph that a prompt describes.

A path follows the relationships of the graph in their direction: after `(a:Person)-[:OWNS]->` comes a node
that a Person can own. Variables are free.
"""

from __future__ import annotations

from collections.abc import Iterator

from .graph_names import GraphNames, graph_of
from .rules import Rules, any_of, literal, template

TERMINALS = frozenset(["sp", "variable", "number", "string", "digits"])


def rules(prompt: str) -> Rules:
    """Without a graph in the prompt, names are free."""
    common, _ = template("cypher.txt")
    graph = graph_of(prompt)
    return Rules({**common, **(_free() if graph is None else _with_names(graph))}, TERMINALS)


def _free() -> dict[str, str]:
    inside = 'variable? ":" type range? (sp? fields)?'
    node = '"(" variable? (":" label){0,2} (sp? fields)? ")"'
    steps = f'("-[" {inside} "]" ("->" | "-") | "<-[" {inside} "]" "-") path | untyped'
    return {
        "label": "variable",
        "type": "variable",
        "property": "variable",
        "path": f"{node} ({steps})?",
        "path-condition": f"{node} ({steps})",
    }


def _with_names(graph: GraphNames) -> dict[str, str]:
    _, scope = template("cypher.txt")
    types = dict.fromkeys(it.type for it in graph.relationships)
    numbers = range(len(graph.labels))
    found = {
        "label": any_of(graph.labels),
        "type": any_of(types) or "variable",
        "property": any_of(graph.properties) or "variable",
        "path": " | ".join(f"path-{number}" for number in numbers),
        "path-condition": " | ".join(f"node-{number} step-{number}" for number in numbers),
    }
    for number, label in enumerate(graph.labels):
        steps = " | ".join(["untyped", *_steps(graph, label)])
        found |= {**scope(str(number)), f"label-{number}": literal(label), f"step-{number}": steps}
    return found


def _steps(graph: GraphNames, label: str) -> Iterator[str]:
    for it in graph.relationships:
        inside = f'variable? ":" {literal(it.type)} range? (sp? fields)?'
        if it.start == label:
            yield f'"-[" {inside} "]" ("->" | "-") path-{graph.labels.index(it.end)}'
        if it.end == label:
            yield f'("<-[" | "-[") {inside} "]" "-" path-{graph.labels.index(it.start)}'
