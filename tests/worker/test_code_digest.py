"""The digest of the worker in locks leaves out what training and scoring do not import (`lock/code.rs`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import expert_worker

PACKAGE = Path(expert_worker.__file__).parent
CODE = Path(__file__).parents[2] / "cli" / "src" / "lock" / "code.rs"
ROOTS = ("__main__", "warm.loop", "train.stage", "pretokenize.stage", "evaluate.stage", "base.stage")
# Imported by training and scoring to show what they did: they decide nothing.
SHOWN = {"report", "tracking"}
# Loaded by their names, so that no import shows them.
BY_NAME = {"evaluate.scorers", "train.fast.kernels", "train.fast.families"}


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imported(name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[0] == "expert_worker":
                yield from (".".join(parts[1:end]) for end in range(2, len(parts) + 1))


def reached() -> set[str]:
    by_name = [name for name in MODULES if any(name.startswith(f"{it}.") for it in BY_NAME)]
    found: set[str] = set()
    waiting = [*ROOTS, *by_name]
    while waiting:
        name = waiting.pop()
        if name in MODULES and name not in found:
            found.add(name)
            waiting += imported(name) if name.split(".")[0] not in SHOWN else ()
    return found


def neutral() -> set[str]:
    listed = re.search(r"const NEUTRAL: .*?= \[(.*?)\];", CODE.read_text(), re.DOTALL)
    assert listed is not None
    return {name.removesuffix(".py").replace("/", ".") for name in re.findall(r'"([^"]+)"', listed[1])}


def is_in(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


def test_only_what_training_and_scoring_do_not_import_is_left_out() -> None:
    used = reached()
    assert len(used) > 100 and set(ROOTS) <= used
    for part in neutral():
        assert any(is_in(module, part) for module in MODULES), f"there is no {part}"
        assert part in SHOWN or not any(is_in(module, part) for module in used), part


def test_every_package_that_they_do_not_import_is_left_out() -> None:
    used = {module.split(".")[0] for module in reached()}
    packages = {module.split(".")[0] for module in MODULES if "." in module}
    assert packages - used <= neutral()
