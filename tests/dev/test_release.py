"""The checks before a release, and the bill of materials."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ["Cargo.toml", "pyproject.toml", "cli/pyproject.toml", "worker/python/expert_worker/__init__.py"]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def call(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts/dev" / name
    command = [sys.executable, str(script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    text = f"## Unreleased\n\n- later\n\n## {VERSION} - 2026-12-01\n\n- new\n\n## 0.0.1\n\n- old\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    return tmp_path


def test_a_release_whose_parts_agree_prints_its_changes(project: Path) -> None:
    done = call("check_release.py", f"v{VERSION}", "--root", project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "- new\n", "")


@pytest.mark.parametrize("name", FILES)
def test_a_version_that_differs_is_named(project: Path, name: str) -> None:
    file = project / name
    file.write_text(file.read_text().replace(f'"{VERSION}"', '"9.9.9"', 1))
    done = call("check_release.py", f"v{VERSION}", "--root", project)
    assert done.returncode == 2
    place = name.removeprefix("worker/python/")
    assert done.stderr == f"error: {place} has version 9.9.9, and the tag is v{VERSION}\n"


@pytest.mark.parametrize("tag", ["v9.9.9", VERSION])
def test_another_tag_is_refused(project: Path, tag: str) -> None:
    done = call("check_release.py", tag, "--root", project)
    assert done.returncode == 2 and f"the tag is {tag}" in done.stderr


def test_the_requirement_on_the_worker_is_compared(project: Path) -> None:
    file = project / "cli/pyproject.toml"
    file.write_text(file.read_text().replace(f"expert-worker=={VERSION}", "expert-worker==9.9.9"))
    done = call("check_release.py", f"v{VERSION}", "--root", project)
    assert done.returncode == 2 and "its requirement has version 9.9.9" in done.stderr


def test_a_release_without_changes_is_refused(project: Path) -> None:
    log = project / "CHANGELOG.md"
    log.write_text(log.read_text().replace("- new\n", ""))
    done = call("check_release.py", f"v{VERSION}", "--root", project)
    assert done.returncode == 2 and f'no text below "## {VERSION}"' in done.stderr


def test_the_bill_lists_every_locked_package(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for file in (first, second):
        assert call("write_sbom.py", file).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    bill = json.loads(first.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert uuid.UUID(bill["serialNumber"].removeprefix("urn:uuid:")).version == 8
    links = [one["purl"] for one in bill["components"]]
    assert len(set(links)) == len(links)
    outside = [one for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"] if "source" in one]
    pinned = re.findall(r"^[a-z0-9._-]+==", (ROOT / "requirements/worker.lock").read_text(), re.MULTILINE)
    assert sum(link.startswith("pkg:cargo/") for link in links) == len(outside) > 100
    assert sum(link.startswith("pkg:pypi/") for link in links) == len(pinned) > 50
    torch = [link for link in links if link.startswith("pkg:pypi/torch@")]
    assert len(torch) == 1
