"""Names that only their function, type or loop can see: each gets the name of its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FUNCTIONS = frozenset(
    {
        "function_declaration",
        "generator_function_declaration",
        "arrow_function",
        "function_expression",
        "generator_function",
        "method_definition",
        "function_signature",
        "method_signature",
        "abstract_method_signature",
        "call_signature",
        "construct_signature",
        "function_type",
        "constructor_type",
    }
)
# Declarations whose type parameters are seen inside them; a mapped type's key is seen in its member.
TYPE_SCOPES = frozenset(
    {
        "interface_declaration",
        "type_alias_declaration",
        "class_declaration",
        "abstract_class_declaration",
        "class",
        "index_signature",
    }
)
# What declares names, and the field that holds them.
DECLARING = {
    "required_parameter": "pattern",
    "optional_parameter": "pattern",
    "variable_declarator": "name",
    "catch_clause": "parameter",
}
PATTERNS = frozenset({"array_pattern", "object_pattern", "rest_pattern"})
DEFAULTS = frozenset({"assignment_pattern", "object_assignment_pattern"})
# They make a parameter of a constructor a property, which everybody can see.
OF_PROPERTIES = frozenset({"accessibility_modifier", "readonly", "override_modifier"})


@dataclass(frozen=True)
class Scope:
    values: Mapping[str, str]
    types: Mapping[str, str]
    depth: int

    @classmethod
    def of_file(cls) -> Scope:
        return cls({}, {}, 0)

    def inside(self, node: Any) -> Scope:
        values = _variables(node) if node.type in FUNCTIONS else {}
        seen = {name: name for name in _properties(node)}
        return Scope(
            {**self.values, **self._places(values), **seen},
            {**self.types, **self._places(_type_names(node))},
            self.depth + 1,
        )

    def with_inferred(self, condition: Any) -> Scope:
        names = dict.fromkeys(_inferred(condition))
        return Scope(self.values, {**self.types, **self._places(names)}, self.depth + 1)

    def _places(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"{self.depth}.{place}" for place, name in enumerate(names)}


def text_of(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


def _variables(function: Any) -> dict[str, None]:
    """Parameters and variables in order; those of functions inside belong to these."""
    found: dict[str, None] = {}
    _note(function.child_by_field_name("parameter"), found)
    for child in function.named_children:
        _declarations(child, found)
    return found


def _properties(function: Any) -> Iterable[str]:
    """The parameters of a constructor that are properties."""
    parameters = function.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else ():
        if any(child.type in OF_PROPERTIES for child in parameter.children):
            yield text_of(parameter.child_by_field_name("pattern"))


def _declarations(node: Any, found: dict[str, None]) -> None:
    if node.type in FUNCTIONS:
        return
    if node.type in DECLARING:
        _note(node.child_by_field_name(DECLARING[node.type]), found)
    elif node.type == "for_in_statement" and node.child_by_field_name("kind") is not None:
        _note(node.child_by_field_name("left"), found)
    for child in node.named_children:
        _declarations(child, found)


def _note(pattern: Any, found: dict[str, None]) -> None:
    if pattern is None:
        return
    if pattern.type in {"identifier", "shorthand_property_identifier_pattern"}:
        found.setdefault(text_of(pattern))
    elif pattern.type == "pair_pattern":
        _note(pattern.child_by_field_name("value"), found)
    elif pattern.type in DEFAULTS:
        _note(pattern.child_by_field_name("left"), found)
    elif pattern.type in PATTERNS:
        for child in pattern.named_children:
            _note(child, found)


def _type_names(node: Any) -> dict[str, None]:
    parameters = node.child_by_field_name("type_parameters")
    named = list(parameters.named_children) if parameters is not None else []
    named += [child for child in node.named_children if child.type == "mapped_type_clause"]
    names = (child.child_by_field_name("name") for child in named)
    return dict.fromkeys(text_of(name) for name in names if name is not None)


def _inferred(node: Any) -> Iterable[str]:
    if node.type == "infer_type":
        yield text_of(node.named_children[0])
    for child in node.named_children:
        yield from _inferred(child)
