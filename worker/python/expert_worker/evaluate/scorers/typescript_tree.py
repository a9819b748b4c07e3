"""Syntax trees in a normal form: what differs only in taste comes out the same.

Gone are comments, separators, quotes' style, parentheses that the tree already stands for (those that end an
optional chain, as in `(a?.b).c`, are kept: the tree has no other sign of that), `export` before a
declaration, blocks around a lone statement or return, the order of what `&&` and `||` join where it says
nothing (`typescript_logic`), of members and of unions, the two ways to write an array type, and names that
nobody outside can see: parameters, local variables, type parameters, keys of mapped types and of index
signatures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tree_sitter_typescript
from tree_sitter import Language, Parser

from expert_worker.evaluate.scorers.typescript_logic import any_order, is_optional, joined, lone, unwrapped
from expert_worker.evaluate.scorers.typescript_scope import FUNCTIONS, TYPE_SCOPES, Scope, text_of

Tree = tuple[Any, ...]
DROPPED = frozenset({"comment", ";", ",", "(", ")", "{", "}", "'", '"', "empty_statement"})
HOLE: Tree = ("hole",)
ARRAYS = {"Array": "array_type", "ReadonlyArray": "readonly_array"}
NAME = re.compile(r"[A-Za-z_$][\w$]*")
ESCAPE = re.compile(r"\\(.)", re.S)
# What continues a chain, by the field that holds what comes before.
CHAINED = {"member_expression": "object", "subscript_expression": "object", "call_expression": "function"}
# What a constructor's type is read too narrowly in: `new () => A | B` makes what is an A or a B.
WIDER_TYPES = frozenset({"union_type", "intersection_type", "conditional_type"})
# Of constructors in constructors' types.
_MOST_ROUNDS = 20
_PARSER = Parser(Language(tree_sitter_typescript.language_typescript()))


def parsed(code: str) -> Any | None:
    """The tree's root; None where the code is not TypeScript."""
    source = code.encode("utf-8", "replace")
    root = _PARSER.parse(source).root_node
    for _ in range(_MOST_ROUNDS):
        narrow = _narrow_constructors(root) if b"new" in source else []
        if root.has_error or not narrow:
            break
        for start, end in reversed(narrow):
            source = b"%b(%b)%b" % (source[:start], source[start:end], source[end:])
        root = _PARSER.parse(source).root_node
    if root.has_error or not root.named_child_count or (b"{" in source and _has_bare_object(root, source)):
        return None
    return root


def _has_bare_object(root: Any, source: bytes) -> bool:
    """Whether an object begins a statement or what an arrow function returns, where the parser takes one and
    TypeScript reads a block: `x => { id: x.id, name: x.name }` is an error."""
    left = [root]
    while left:
        node = left.pop()
        is_arrow = node.type == "arrow_function"
        begins = node.child_by_field_name("body") if is_arrow else node
        is_value = node.type == "expression_statement" or (is_arrow and begins.type != "statement_block")
        if is_value and source.startswith(b"{", begins.start_byte):
            return True
        left += node.children
    return False


def _narrow_constructors(root: Any) -> list[tuple[int, int]]:
    """Where parentheses are missing around what constructors make, outermost types only, in order. The parser
    takes `new () => A | B` for `(new () => A) | B`, unlike TypeScript, and reads `() => A | B` rightly.
    """
    found: list[tuple[int, int]] = []
    left = [root]
    while left:
        node = left.pop()
        first = node
        while first.type in WIDER_TYPES:
            first = first.named_children[0]
        made = first.child_by_field_name("type") if first.type == "constructor_type" else None
        if made is not None and first != node:
            found.append((made.start_byte, node.end_byte))
        else:
            left += reversed(node.children)
    return found


def normal(root: Any | None) -> Tree | None:
    return None if root is None else _normal(root, Scope.of_file())


def _normal(node: Any, scope: Scope) -> Tree:
    if node.type in FUNCTIONS or node.type in TYPE_SCOPES:
        return _scoped(node, scope)
    special = _SPECIAL.get(node.type)
    found = special(node, scope) if special else None
    if found is not None:
        return found
    return _leaf(node, scope) if not node.children else _branch(node, scope)


def _leaf(node: Any, scope: Scope) -> Tree:
    text = text_of(node)
    local = scope.values.get(text, text)
    if node.type == "identifier":
        return ("identifier", local)
    if node.type == "type_identifier":
        return ("type_identifier", scope.types.get(text, text))
    if node.type == "shorthand_property_identifier":
        return ("pair", ("property_identifier", text), (":", ":"), ("identifier", local))
    if node.type == "shorthand_property_identifier_pattern":
        return ("pair_pattern", ("property_identifier", text), (":", ":"), ("identifier", local))
    if node.type == "number":
        return ("number", text.replace("_", ""))
    return (node.type, text)


def _branch(node: Any, scope: Scope) -> Tree:
    parts: list[Tree] = []
    for place, child in enumerate(node.children):
        if child.type in DROPPED:
            continue
        field = node.field_name_for_child(place)
        if field in {"body", "consequence"} or node.type == "else_clause":
            parts.append(_statement(child, scope))
        elif field in {"name", "key"} and (name := _property(child)) is not None:
            parts.append(name)
        else:
            parts.append(_normal(child, scope))
    return (node.type, *parts)


def _property(node: Any) -> Tree | None:
    """A quoted name of a property that needs no quotes."""
    text = text_of(node)[1:-1]
    return ("property_identifier", text) if node.type == "string" and NAME.fullmatch(text) else None


def _statement(node: Any, scope: Scope) -> Tree:
    """`if (a) b();` and `if (a) { b(); }` are one; `else if` stays what it is."""
    found = _normal(node, scope)
    single = node.type.endswith("_statement") and node.type != "if_statement"
    return ("statement_block", found) if single else found


def _scoped(node: Any, outer: Scope) -> Tree:
    """Functions, and declarations with type parameters: their names are seen inside only."""
    scope = outer.inside(node)
    parts: list[Tree] = []
    for place, child in enumerate(node.children):
        field = node.field_name_for_child(place)
        if field == "name":
            plain = node.type == "index_signature"
            parts.append(("identifier", "key") if plain else _property(child) or _normal(child, outer))
        elif field == "parameter":
            parts.append(("formal_parameters", ("required_parameter", _normal(child, scope))))
        elif field == "body" and node.type == "arrow_function":
            parts.append(_arrow_body(child, scope))
        elif child.type not in DROPPED:
            parts.append(_normal(child, scope))
    return (node.type, *parts)


def _arrow_body(node: Any, scope: Scope) -> Tree:
    """`e` and `{ return e; }` are one."""
    statements = [child for child in node.named_children if child.type != "comment"]
    if node.type == "statement_block" and len(statements) == 1 and statements[0].type == "return_statement":
        returned = [child for child in statements[0].named_children if child.type != "comment"]
        if len(returned) == 1:
            return _normal(returned[0], scope)
    return _normal(node, scope)


def _inner(node: Any, scope: Scope) -> Tree:
    inner = unwrapped(node)
    found = _normal(inner, scope)
    return ("parenthesized_expression", found) if _ends_chain(node, inner) else found


def _ends_chain(node: Any, inner: Any) -> bool:
    """`(a?.b).c` fails where there is no `a`, and `a?.b.c` does not."""
    while node.parent.type == "non_null_expression":
        node = node.parent
    after = node.parent
    field = CHAINED.get(after.type)
    if field is None or after.child_by_field_name(field) != node or is_optional(after):
        return False
    while not is_optional(inner):
        if inner.type not in {*CHAINED, "non_null_expression"}:
            return False
        inner = inner.child_by_field_name(CHAINED[inner.type]) if inner.type in CHAINED else lone(inner)
    return True


def _exported(node: Any, scope: Scope) -> Tree | None:
    """The declaration after `export`; `export default` says something else."""
    declared = node.child_by_field_name("declaration")
    if declared is None or any(child.type == "default" for child in node.children):
        return None
    return _normal(declared, scope)


def _members(node: Any, scope: Scope) -> Tree:
    """Members by name; overloads, which share one, keep their order."""
    found = [(_member_name(child), _normal(child, scope)) for child in node.named_children]
    kept = [(name, tree) for name, tree in found if tree[0] not in DROPPED]
    return ("members", *(tree for _, tree in sorted(kept, key=lambda pair: pair[0])))


def _member_name(node: Any) -> str:
    name = node.child_by_field_name("name")
    if node.type == "index_signature":
        return f"[{text_of(node.child_by_field_name('index_type') or node)}]"
    return node.type if name is None else text_of(name).strip("'\"")


def _readonly(node: Any, scope: Scope) -> Tree:
    inner = _normal(lone(node), scope)
    return ("readonly_array", *inner[1:]) if inner[0] == "array_type" else ("readonly_type", inner)


def _generic(node: Any, scope: Scope) -> Tree | None:
    """`T[]` for `Array<T>`; one form for `readonly T[]`, `ReadonlyArray<T>` and `Readonly<T[]>`."""
    name = text_of(node.child_by_field_name("name"))
    arguments = node.child_by_field_name("type_arguments")
    given = [child for child in arguments.named_children if child.type != "comment"]
    if name in scope.types or len(given) != 1:
        return None
    inner = _normal(given[0], scope)
    if name in ARRAYS:
        return (ARRAYS[name], inner, ("[", "["), ("]", "]"))
    if name == "Readonly" and inner[0] == "array_type":
        return ("readonly_array", *inner[1:])
    return None


def _conditional(node: Any, scope: Scope) -> Tree:
    """What `infer` names is seen in the condition and where it holds."""
    inferred = scope.with_inferred(node.child_by_field_name("right"))
    parts = (
        _normal(node.child_by_field_name(field), inferred if field in {"right", "consequence"} else scope)
        for field in ("left", "right", "consequence", "alternative")
    )
    return ("conditional_type", *parts)


def _combined(node: Any, scope: Scope) -> Tree:
    """`A | B` and `A & B` in any order; where functions are joined, the first that fits is called."""
    types = _types(node, node.type)
    parts = list(dict.fromkeys(_normal(part, scope) for part in types))
    if node.type == "union_type" or not any(part.type == "function_type" for part in types):
        parts.sort(key=repr)
    return (node.type, *parts) if len(parts) > 1 else parts[0]


def _types(node: Any, kind: str) -> list[Any]:
    """The parts of `A | B | C`, whatever their grouping."""
    inner = unwrapped(node)
    if inner.type != kind:
        return [inner]
    children = [child for child in inner.named_children if child.type != "comment"]
    return [part for child in children for part in _types(child, kind)]


def _logical(node: Any, scope: Scope) -> Tree | None:
    sign = text_of(node.child_by_field_name("operator"))
    if sign not in {"&&", "||"}:
        return None
    parts = joined(node, sign)
    trees = [_normal(part, scope) for part in parts]
    return ("any order", sign, *sorted(trees, key=repr)) if any_order(parts) else ("in order", sign, *trees)


def _array(node: Any, scope: Scope) -> Tree:
    """`[, b]` is not `[b]`; a comma after the last element says nothing."""
    parts: list[Tree] = []
    after_element = False
    for child in node.children:
        if child.type == "," and not after_element:
            parts.append(HOLE)
        elif child.type not in DROPPED:
            parts.append(_normal(child, scope))
        if child.type != "comment":
            after_element = child.type not in {",", "["}
    return (node.type, *parts)


def _for(node: Any, scope: Scope) -> Tree:
    """Each part has its place, also where another is left out."""
    head = (node.child_by_field_name(field) for field in ("initializer", "condition", "increment"))
    body = _statement(node.child_by_field_name("body"), scope)
    left_out = (None, "empty_statement")
    parts = (() if getattr(part, "type", None) in left_out else _normal(part, scope) for part in head)
    return (node.type, *parts, body)


def _string(node: Any, _scope: Scope) -> Tree | None:
    """The text of a string, or of a template without holes that no function is called with."""
    text = text_of(node)[1:-1]
    if node.type == "string":
        return ("string", ESCAPE.sub(lambda found: found[1] if found[1] in "'\"" else found[0], text))
    called = node.parent is not None and node.parent.type == "call_expression"
    return None if called or "${" in text or "\\" in text or "\n" in text else ("string", text)


_SPECIAL: dict[str, Callable[[Any, Scope], Tree | None]] = {
    "parenthesized_expression": _inner,
    "parenthesized_type": _inner,
    "export_statement": _exported,
    "string": _string,
    "template_string": _string,
    "union_type": _combined,
    "intersection_type": _combined,
    "interface_body": _members,
    "object_type": _members,
    "generic_type": _generic,
    "readonly_type": _readonly,
    "conditional_type": _conditional,
    "binary_expression": _logical,
    "array": _array,
    "array_pattern": _array,
    "for_statement": _for,
}
