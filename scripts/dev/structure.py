#!/usr/bin/env python3
"""Print figures about the structure of the code: sizes of files, import circles, users of the whole plan.

    python scripts/dev/structure.py

The figures are for comparison over time; nothing fails because of them.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
WORKER = "worker/python/expert_worker/"
AREAS = {
    "contract": "contract/src/",
    "cli": "cli/src/",
    "native module": "worker/native/src/",
    "worker": WORKER,
    "tests": "tests/",
}
# Whole-plan parameters: `plan: Plan` in Python, `plan: &Plan` or `resolved: &Resolved` in Rust.
RUST_PLAN = re.compile(r"\bfn \w+[^{;]*?\(([^{;]*?\b\w+: &?(?:mut )?(?:Plan|Resolved)\b[^{;]*?)\)", re.DOTALL)
# Not the start of a list, and not a field that is written.
RUST_KEYS = re.compile(r"(?<=[\w\])])\[\"[a-z_]+\"\](?! = )|\.(?:get|pointer)\(\"[^\"]+\"\)")
# In a module of this file, `super` is the file.
INLINE_MODULE = re.compile(r"^mod \w+ \{$(.*?)^\}$", re.DOTALL | re.MULTILINE)
# Tests are at the end of a file, or in a separate one that is declared near the beginning.
RUST_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod \w+ \{", re.MULTILINE)
RUST_USE = re.compile(r"\buse (\w+::[^;]+);|\b(crate(?:::\w+)+)")

Graph = dict[str, set[str]]


def tracked(prefix: str, *endings: str) -> list[str]:
    command = ["git", "ls-files", "--", prefix]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [path for path in listed.splitlines() if path.endswith(endings)]


def read(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


def without_tests(path: str) -> str:
    return RUST_TESTS.split(read(path), maxsplit=1)[0]


def sizes(paths: Iterable[str]) -> tuple[int, int, int]:
    """Number of files, median and 90th percentile of their lines."""
    lines = sorted(read(path).count("\n") for path in paths)
    if len(lines) < 2:
        return len(lines), sum(lines), sum(lines)
    return len(lines), round(statistics.median(lines)), round(statistics.quantiles(lines, n=10)[-1])


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one file, the largest first (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in number:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], number[target])
        if lowest[node] == number[node]:
            at = stack.index(node)
            component, stack[at:] = stack[at:], []
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in number:
            visit(node)
    return sorted(found, key=len, reverse=True)


def python_imports(paths: Iterable[str]) -> Graph:
    """File -> imported files, for imports that run when the module is loaded."""
    known = {_module(path): path for path in paths}
    graph: Graph = {}
    for name, path in known.items():
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        targets: set[str] = set()
        for node in _loaded(ast.parse(read(path))):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            else:
                base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    targets.add(inner if inner in known else module)
        graph[path] = {known[target] for target in targets if target in known} - {path}
    return graph


def _module(path: str) -> str:
    return path.removeprefix("worker/python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _loaded(tree: ast.Module) -> Iterable[ast.Import | ast.ImportFrom]:
    """Imports at the top of the module, without those for type checking or inside functions."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def rust_imports(paths: Iterable[str], root: str) -> Graph:
    """File -> files named in `use` declarations and in paths that begin with `crate::`."""
    known = {_rust_module(path, root): path for path in paths}
    graph: Graph = {}
    for name, path in known.items():
        source = re.sub(r"//[^\n]*", "", without_tests(path))
        source = INLINE_MODULE.sub(lambda block: block[1].replace("super::", "self::"), source)
        targets: set[str] = set()
        for found in RUST_USE.finditer(source):
            for used in _expand("".join((found[1] or found[2]).split())):
                targets |= _resolve(used, name, known)
        graph[path] = {known[target] for target in targets} - {path}
    return graph


def _rust_module(path: str, root: str) -> tuple[str, ...]:
    parts = path.removeprefix(root).removesuffix(".rs").split("/")
    return tuple(part for part in parts if part not in ("mod", "lib", "main"))


def _expand(used: str) -> list[str]:
    """`a::{b, c::d}` as `a::b` and `a::c::d`."""
    opened = used.find("{")
    if opened < 0:
        return [used.partition(" as ")[0]]
    head, inner, depth, part = used[:opened], used[opened + 1 : used.rfind("}")], 0, ""
    parts: list[str] = []
    for letter in inner + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [whole for part in parts if part for whole in _expand(head + part)]


def _resolve(
    used: str, module: tuple[str, ...], known: Mapping[tuple[str, ...], str]
) -> set[tuple[str, ...]]:
    parts = used.split("::")
    base = list(module)
    while parts and parts[0] in ("crate", "self", "super"):
        first = parts.pop(0)
        base = [] if first == "crate" else base[:-1] if first == "super" else base
    if parts == used.split("::") and (*module, parts[0]) not in known:
        return set()
    place = (*base, *parts)
    while place and place not in known:
        place = place[:-1]
    return {place} if place in known and place else set()


def python_plans(path: str) -> int:
    functions = (it for it in ast.walk(ast.parse(read(path))) if isinstance(it, ast.FunctionDef))
    return sum(
        any(_is_plan(it.annotation) for it in (*one.args.args, *one.args.kwonlyargs)) for one in functions
    )


def _is_plan(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'\"") == "Plan"


def python_keys(path: str) -> int:
    """Reads by a constant string: `document["key"]` and `document.get("key")`."""
    count = 0
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            count += isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            first = node.args[0] if node.args else None
            count += isinstance(first, ast.Constant) and isinstance(first.value, str)
    return count


def main() -> None:
    print("files                      count  median lines  90% up to")
    for name, prefix in AREAS.items():
        count, median, most = sizes(tracked(prefix, ".rs", ".py"))
        print(f"  {name:<24} {count:>5}  {median:>12}  {most:>9}")

    rust = {area: tracked(AREAS[area], ".rs") for area in ("contract", "cli", "native module")}
    python = tracked(WORKER, ".py")
    graphs = {area: rust_imports(paths, AREAS[area]) for area, paths in rust.items()}
    graphs["worker"] = python_imports(python)
    print("import circles             of more than two files  files in them  pairs")
    for area, graph in graphs.items():
        found = circles(graph)
        large = [one for one in found if len(one) > 2]
        print(f"  {area:<24} {len(large):>22}  {sum(map(len, large)):>13}  {len(found) - len(large):>5}")

    plans = sum(len(RUST_PLAN.findall(read(path))) for path in (*rust["cli"], *rust["contract"]))
    print(f"functions that take the whole plan: {plans} in Rust, {sum(map(python_plans, python))} in Python")
    # `import` reads configurations of other programs.
    own = [path for path in rust["cli"] if not path.startswith("cli/src/import/")]
    keys = sum(len(RUST_KEYS.findall(without_tests(path))) for path in own)
    readers = [path for path in python if path.startswith((f"{WORKER}report/", f"{WORKER}bench/"))]
    print(f"reads by a string key: {keys} in cli, {sum(map(python_keys, readers))} in report and bench")


if __name__ == "__main__":
    main()
