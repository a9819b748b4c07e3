"""Syntax trees in a normal form: what differs only in taste comes out the same.

Gone are comments, separators, quotes' style, parentheses that the tree already stands for, blocks around a
lone return in an arrow function, the order of what `&&` and `||` join, and the names of parameters and of
variables inside functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tree_sitter_typescript
from tree_sitter import Language, Parser

Tree = tuple[Any, ...]
DROPPED = frozenset({"comment", ";", ",", "(", ")", "{", "}", "'", '"'})
FUNCTIONS = frozenset({"function_declaration", "arrow_function", "function_expression", "method_definition"})
LOCAL_NAMES = frozenset({"identifier", "shorthand_property_identifier"})
_PARSER = Parser(Language(tree_sitter_typescript.language_typescript()))


def parsed(code: str) -> Any | None:
    """The tree's root; None where the code is not TypeScript."""
    root = _PARSER.parse(code.encode("utf-8", "replace")).root_node
    return None if root.has_error or not root.named_child_count else root


@dataclass(frozen=True)
class Scope:
    """Local names by their function's depth and their place in it."""

    names: Mapping[str, str]
    depth: int

    def inside(self, function: Any) -> Scope:
        declared = enumerate(_declared(function))
        return Scope({**self.names, **{name: f"{self.depth}.{k}" for k, name in declared}}, self.depth + 1)


def normal(root: Any | None) -> Tree | None:
    return None if root is None else _normal(root, Scope({}, 0))


def _normal(node: Any, scope: Scope) -> Tree:
    if node.type in FUNCTIONS:
        scope = scope.inside(node)
    if node.type == "parenthesized_expression":
        return _normal(node.named_children[0], scope)
    if node.type == "string":
        return ("string", _text(node)[1:-1])
    if node.type == "arrow_function":
        return _arrow(node, scope)
    if node.type == "binary_expression" and _text(node.child_by_field_name("operator")) in {"&&", "||"}:
        sign = _text(node.child_by_field_name("operator"))
        return ("joined", sign, *sorted((_normal(part, scope) for part in _joined(node, sign)), key=repr))
    if not node.children:
        text = _text(node)
        return (node.type, scope.names.get(text, text) if node.type in LOCAL_NAMES else text)
    return (node.type, *_children(node, scope))


def _children(node: Any, scope: Scope) -> list[Tree]:
    return [_normal(child, scope) for child in node.children if child.type not in DROPPED]


def _arrow(node: Any, scope: Scope) -> Tree:
    """`x => e`, `(x) => e` and `(x) => { return e; }` are one."""
    parts: list[Tree] = []
    for place, child in enumerate(node.children):
        field = node.field_name_for_child(place)
        if field == "parameter":
            parts.append(("formal_parameters", ("required_parameter", _normal(child, scope))))
        elif field == "body":
            parts.append(_body(child, scope))
        elif child.type not in DROPPED:
            parts.append(_normal(child, scope))
    return ("arrow_function", *parts)


def _body(node: Any, scope: Scope) -> Tree:
    statements = [child for child in node.named_children if child.type != "comment"]
    if node.type == "statement_block" and len(statements) == 1 and statements[0].type == "return_statement":
        returned = [child for child in statements[0].named_children if child.type != "comment"]
        if len(returned) == 1:
            return _normal(returned[0], scope)
    return _normal(node, scope)


def _joined(node: Any, sign: str) -> list[Any]:
    """The parts of `a && b && c`, whatever their grouping."""
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    if node.type != "binary_expression" or _text(node.child_by_field_name("operator")) != sign:
        return [node]
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return [*_joined(left, sign), *_joined(right, sign)]


def _declared(function: Any) -> dict[str, None]:
    """Names of its parameters and variables in order; those of functions inside are their own."""
    found: dict[str, None] = {}
    _note(function.child_by_field_name("parameter"), found)
    for child in function.named_children:
        _declarations(child, found)
    return found


def _declarations(node: Any, found: dict[str, None]) -> None:
    if node.type in {"required_parameter", "optional_parameter"}:
        _note(node.child_by_field_name("pattern"), found)
    elif node.type == "variable_declarator":
        _note(node.child_by_field_name("name"), found)
    if node.type not in FUNCTIONS:
        for child in node.named_children:
            _declarations(child, found)


def _note(name: Any, found: dict[str, None]) -> None:
    if name is not None and name.type == "identifier":
        found.setdefault(_text(name))


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))
