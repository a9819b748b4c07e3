"""The documented commands install this project's packages from files, never by a name on an index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"(?:pip|uv tool|pipx|uvx) (?:install|run)? ?[^`|\n]*")
PAGES = [
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile")),
    *(ROOT / "cli/src").rglob("*.rs"),
    *(ROOT / "worker/python/expert_worker").rglob("*.py"),
]


def faults(text: str) -> list[str]:
    found = []
    for command in COMMAND.findall(text):
        words = [word.strip("'\",.;") for word in command.split()]
        # An extra of the worker is asked for where the worker is installed, which then satisfies the name.
        ours = [
            word for word in words if re.fullmatch(r"expert[-_](?:cli(?:[-_]lora)?|worker)(?:[=<>].*)?", word)
        ]
        if "--no-index" not in words and ("--find-links" in words or ours):
            found.append(command.strip())
    return found


def test_no_command_asks_an_index_for_a_package_of_this_project() -> None:
    texts = {page: page.read_text() for page in PAGES}
    assert sum(len(COMMAND.findall(text)) for text in texts.values()) > 15
    assert {str(page): found for page, text in texts.items() if (found := faults(text))} == {}


@pytest.mark.parametrize(
    "command",
    [
        "pip install --find-links target/packages expert-cli",
        "uv tool install --find-links target/packages any-name",
        "python -m pip install expert-cli==0.1.0 other",
        "uv pip install expert-worker",
    ],
)
def test_a_bare_name_is_found(command: str) -> None:
    assert faults(f"| wheels | `{command}` |") == [
        command[command.index("pip" if "pip" in command else "uv") :]
    ]
    assert faults(f"`{command} --no-index`") == []


def test_the_documented_files_have_the_names_of_the_packages() -> None:
    text = (ROOT / "docs/install.md").read_text()
    names = {
        tomllib.loads((ROOT / project).read_text())["project"]["name"].replace("-", "_")
        for project in ("pyproject.toml", "cli/pyproject.toml")
    }
    assert set(re.findall(r"target/packages/(\w+)-\*\.whl", text)) == names
