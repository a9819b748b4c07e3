"""The small faults that are put into Python code, one at a time, as changes of its syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """`line` only helps to find it: `within`, `was` and `now` still name it after lines were added above."""

    line: int
    within: str
    was: str
    now: str
    nth: int
    tree: ast.Module
    node: ast.AST
    other: ast.AST

    @property
    def name(self) -> str:
        return f"{self.within}: {self.was} -> {self.now}" + (f" (#{self.nth})" if self.nth else "")

    @property
    def module(self) -> ast.Module:
        """The module with this fault. The copy finds the node by identity: equal code elsewhere stays."""
        return ast.fix_missing_locations(copy.deepcopy(self.tree, {id(self.node): self.other}))


def faults(source: str) -> list[Fault]:
    tree = ast.parse(source)
    seen: dict[tuple[str, str, str], int] = {}
    found = []
    for place, within in _places(tree):
        for other in _others(place):
            was, now = (ast.unparse(node).splitlines()[0] for node in (place, other))
            seen[within, was, now] = nth = seen.get((within, was, now), -1) + 1
            found.append(Fault(getattr(place, "lineno", 0), within, was, now, nth, tree, place, other))
    return found


def _places(tree: ast.AST, within: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Every node whose change can change what the program does; not types, nor what is said to people."""
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(
                child, ast.JoinedStr | ast.Import | ast.ImportFrom
            ):
                continue
            inside = f"{within}.{child.name}".lstrip(".") if hasattr(child, "name") and child.name else within
            yield child, inside
            if not _speaks(child):
                yield from _places(child, inside)


def _speaks(node: ast.AST) -> bool:
    """A docstring, or an error with its message."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Raise)


def _others(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, [op, *ops], comparators):
            yield ast.Compare(left, [_COMPARE[type(op)](), *ops], comparators)
        case ast.BoolOp(ast.And(), values):
            yield ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(ast.Or(), values):
            yield ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC and not _joins_text(node):
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in _ARITHMETIC:
            yield ast.AugAssign(target, _ARITHMETIC[type(op)](), value)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Dict(keys, values):
            for index, key in enumerate(keys):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    other: list[ast.expr | None] = [
                        *keys[:index],
                        ast.Constant(f"{key.value}?"),
                        *keys[index + 1 :],
                    ]
                    yield ast.Dict(other, values)
        case ast.Subscript(value, ast.Constant(str() as key), context):
            yield ast.Subscript(value, ast.Constant(f"{key}?"), context)
        case ast.If(test, body, orelse) if not _is_changed_itself(test):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse) if not _is_changed_itself(test):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Return(value) if value is not None and not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_changed_itself(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _joins_text(node: ast.BinOp) -> bool:
    """Paths and texts: any other operator is an error at once, and would only raise the score."""
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in sides)


def _is_text(side: ast.expr) -> bool:
    return isinstance(side, ast.Constant) and isinstance(side.value, str)
