#!/usr/bin/env python3
"""Checks that a release's tag, versions and changelog agree, and prints its section of the changelog.

check_release.py v0.2.0
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def versions(root: Path) -> dict[str, str]:
    """Each place that gives the version, and what it gives."""

    def toml(name: str) -> dict[str, dict[str, dict[str, str]]]:
        return tomllib.loads((root / name).read_text())

    init = (root / "worker/python/expert_worker/__init__.py").read_text()
    told = re.search(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    cli = tomllib.loads((root / "cli/pyproject.toml").read_text())["project"]
    return {
        "Cargo.toml": str(toml("Cargo.toml")["workspace"]["package"]["version"]),
        "pyproject.toml": str(toml("pyproject.toml")["project"]["version"]),
        "cli/pyproject.toml": str(cli["version"]),
        "cli/pyproject.toml, its requirement": ", ".join(cli["dependencies"]).removeprefix("expert-worker=="),
        "expert_worker/__init__.py": told[1] if told else "",
    }


def section(changelog: str, version: str) -> str:
    """The text below `## 0.2.0` or `## 0.2.0 - 2026-12-01`."""
    title = rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)"
    found = re.search(title, changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tag", help="such as v0.2.0")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    version = options.tag.removeprefix("v")
    problems = [
        f"{place} has version {found}, and the tag is {options.tag}"
        for place, found in versions(options.root).items()
        if options.tag != f"v{found}"
    ]
    notes = section((options.root / "CHANGELOG.md").read_text(), version)
    if not notes:
        problems.append(f'CHANGELOG.md has no text below "## {version}"')
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if problems:
        return 2
    print(notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
