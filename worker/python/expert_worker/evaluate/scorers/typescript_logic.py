"""Whether the order of what `&&` and `||` join says anything.

It does where a part's value is what is left (`name || "x"`), where a part may have effects, and where a part
protects a later one: `x !== null && x.length > 0` may not be turned around.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from expert_worker.evaluate.scorers.typescript_scope import FUNCTIONS, text_of

PARENTHESES = frozenset({"parenthesized_expression", "parenthesized_type"})
COMPARISONS = frozenset({"===", "!==", "==", "!=", "<", "<=", ">", ">=", "instanceof", "in"})
JOINS = frozenset({"&&", "||"})
# A value beside one of these may be missing or of another kind.
ASKS = JOINS | {"===", "!==", "==", "!=", "instanceof", "in"}
NAMES = frozenset({"identifier", "this"})
READS = frozenset({"member_expression", "subscript_expression"})
EFFECTS = frozenset(
    {
        "assignment_expression",
        "augmented_assignment_expression",
        "update_expression",
        "await_expression",
        "yield_expression",
    }
)
# What says of a value only which type it has.
ASSERTIONS = PARENTHESES | {"as_expression", "satisfies_expression", "non_null_expression"}
# A value of these is only asked whether it counts as true.
CONDITIONS = frozenset({"if_statement", "while_statement", "do_statement", "for_statement"})
ASKING = frozenset({"filter", "find", "findIndex", "findLast", "findLastIndex", "some", "every"})


def joined(node: Any, sign: str) -> list[Any]:
    """The parts of `a && b && c`, whatever their grouping."""
    node = unwrapped(node)
    if node.type != "binary_expression" or _operator(node) != sign:
        return [node]
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return [*joined(left, sign), *joined(right, sign)]


def unwrapped(node: Any) -> Any:
    while node.type in PARENTHESES:
        node = lone(node)
    return node


def lone(node: Any) -> Any:
    return next(child for child in node.named_children if child.type != "comment")


def any_order(parts: Sequence[Any]) -> bool:
    is_condition = _is_condition(parts[0])
    if any(node.type in EFFECTS for part in parts for node in _all(part)):
        return False
    earlier = _Earlier()
    for part in parts:
        if not _is_test(part, is_condition) or earlier.protects(part):
            return False
        earlier.add(part)
    return True


@dataclass
class _Earlier:
    """What the parts before one ask about, name and need."""

    asked: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)

    def add(self, part: Any) -> None:
        self.asked.update(_asked(part))
        self.named.update(_names(part))
        self.needed.update(_text(node) for node in (*_holders(part), *_called(part)))

    def protects(self, part: Any) -> bool:
        """Whether the part may fail, or mean something else, unless those before it hold."""
        if any(_text(used) in self.asked for used in _called(part)):
            return True
        return any(self._is_unsure(holder) for holder in _holders(part) if _text(holder) not in self.needed)

    def _is_unsure(self, holder: Any) -> bool:
        """What a deeper member holds may rest on any earlier test of the same object."""
        if holder.type in NAMES:
            return _text(holder) in self.asked
        return any(name in self.named for name in _names(holder))


def _is_condition(node: Any) -> bool:
    """Whether only the truth of the whole expression counts, not its value."""
    child, parent = node, node.parent
    while parent.type in PARENTHESES or (parent.type == "binary_expression" and _operator(parent) in JOINS):
        child, parent = parent, parent.parent
    if parent.type in CONDITIONS or parent.type == "ternary_expression":
        return bool(parent.child_by_field_name("condition") == child)
    if parent.type == "unary_expression":
        return _operator(parent) == "!"
    if parent.type == "arrow_function":
        return _is_asked(parent)
    if parent.type != "return_statement":
        return False
    while parent is not None and parent.type not in FUNCTIONS:
        parent = parent.parent
    return parent is not None and _is_asked(parent)


def _is_asked(function: Any) -> bool:
    """Whether the function returns `boolean`, or is given to `filter` and its like."""
    returned = function.child_by_field_name("return_type")
    if returned is not None:
        return returned.type == "type_predicate_annotation" or text_of(returned).strip(": \n\t") == "boolean"
    call = function.parent.parent if function.parent.type == "arguments" else None
    called = call.child_by_field_name("function") if call is not None else None
    method = called.child_by_field_name("property") if called is not None else None
    return method is not None and text_of(method) in ASKING


def _is_test(part: Any, is_condition: bool) -> bool:
    """Whether its value is true or false, or nothing else is asked of it."""
    part = unwrapped(part)
    if part.type == "binary_expression":
        sign = _operator(part)
        return sign in COMPARISONS or (
            sign in JOINS and all(_is_test(inner, is_condition) for inner in joined(part, sign))
        )
    if part.type == "unary_expression":
        return _operator(part) == "!" and _is_test(part.child_by_field_name("argument"), True)
    return part.type in {"true", "false"} or (is_condition and _is_path(part))


def _holders(part: Any) -> Iterator[Any]:
    """Objects whose members the part reads: they must be there."""
    for node in _all(part):
        if node.type in READS and not is_optional(node):
            yield _asserted(node.child_by_field_name("object"))
        elif node.type == "binary_expression" and _operator(node) == "in":
            yield _asserted(node.child_by_field_name("right"))


def _called(part: Any) -> Iterator[Any]:
    """Functions and what they are given."""
    for node in _all(part):
        if node.type == "call_expression":
            given = node.child_by_field_name("arguments")
            yield from map(_asserted, given.named_children if given is not None else ())
            if not is_optional(node):
                yield _asserted(node.child_by_field_name("function"))


def _asked(part: Any) -> Iterator[str]:
    """The values whose kind, presence or truth the part asks about."""
    for node in _all(part):
        if is_optional(node):
            yield _text(_asserted(node.child_by_field_name("object") or node.child_by_field_name("function")))
        elif node.type == "unary_expression" and _operator(node) in {"!", "typeof"}:
            yield _text(_asserted(node.child_by_field_name("argument")))
        elif node.type == "binary_expression" and _operator(node) in ASKS:
            yield from (_text(_asserted(child)) for child in node.named_children if _is_path(child))
    if _is_path(part):
        yield _text(_asserted(part))


def _names(part: Any) -> Iterator[str]:
    return (text_of(node) for node in _all(part) if node.type in NAMES)


def _is_path(node: Any) -> bool:
    """A name, or members of one."""
    node = _asserted(node)
    return node.type in NAMES or (node.type in READS and _is_path(node.child_by_field_name("object")))


def is_optional(node: Any) -> bool:
    return any(child.type == "optional_chain" for child in node.children)


def _asserted(node: Any) -> Any:
    while node.type in ASSERTIONS:
        node = lone(node)
    return node


def _text(node: Any) -> str:
    """Without white space: `o?.m` is `o.m` that may be missing."""
    return "".join(text_of(node).split()).replace("?.", ".")


def _operator(node: Any) -> str:
    return text_of(node.child_by_field_name("operator"))


def _all(node: Any) -> Iterator[Any]:
    left = [node]
    while left:
        found = left.pop()
        yield found
        left += found.children
