"""`make` sets up the virtual environment, also after an attempt that failed halfway."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = ROOT / "Makefile"
INCLUDED = re.compile(r'include_(?:str|bytes)!\("([^"]+)"\)')

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def test_an_environment_without_pip_is_completed(tmp_path: Path) -> None:
    """Debian's Python leaves one where the package python3-venv is missing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "bootstrap.lock").write_text("")
    command = ["make", f"PYTHON={sys.executable}", ".venv/bin/uv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "and there is no cargo: install it"),
        ("1.91.1", "cargo is 1.91.1: run rustup update"),
        ("1.92.0", ""),
        ("2.0.0-nightly", ""),
    ],
)
def test_rust_is_asked_for_before_packages_are_downloaded(
    tmp_path: Path, found: str | None, said: str
) -> None:
    """With a stand-in for uv, which says that it was asked for packages."""
    for name in ("Makefile", "Cargo.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("requirements/bootstrap.lock", "requirements/worker.lock", "scripts/dev/show_progress.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("print('downloading')")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "sed", "cut", "find", "touch", "test", "echo"):
        (programs / name).symlink_to(shutil.which(name) or name)
    if found is not None:
        (programs / "cargo").write_text(f"#!/bin/sh\necho 'cargo {found} (abc 2026-01-01)'\n")
        (programs / "cargo").chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "uv").touch()
    done = subprocess.run(
        [shutil.which("make") or "make", f"PYTHON={sys.executable}", ".venv/.runtime"],
        cwd=tmp_path, env={"PATH": str(programs)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ("downloading" in done.stdout) == (done.returncode == 0) == (not said), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("variable", "folders"),
    [("RUST_SOURCES", ("contract", "cli")), ("NATIVE_SOURCES", ("worker/native",))],
)
def test_what_is_compiled_in_is_built_again_when_it_changes(variable: str, folders: tuple[str, ...]) -> None:
    rule = f"include Makefile\nlisted:\n\t@echo $({variable})\n"
    command = ["make", "--no-print-directory", "-f", "-", "listed"]
    done = subprocess.run(command, cwd=ROOT, input=rule, capture_output=True, text=True, check=True)
    listed = {(ROOT / name).resolve() for name in done.stdout.split()}
    sources = [source for folder in folders for source in (ROOT / folder / "src").rglob("*.rs")]
    included = {
        (source.parent / name).resolve()
        for source in sources
        for name in INCLUDED.findall(source.read_text().split("#[cfg(test)]")[0])
    }
    assert len(included) >= 9
    assert {str(path) for path in {*included, *sources} - listed} == set()


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize("sudo", [True, False])
def test_programs_for_the_tests_are_installed_with_sudo_where_it_asks_nothing(
    tmp_path: Path, sudo: bool
) -> None:
    """As on GitHub's machines, whose user is not root."""
    stand_ins = {
        "id": "echo 1000",
        "sudo": 'test "$1" = -n && shift && "$@"' if sudo else "exit 1",
        "apt-get": f'echo "$*" >>"{tmp_path}/asked"',
    }
    for name, text in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("env", "true"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    done = subprocess.run(
        [shutil.which("make") or "make", "--no-print-directory", "programs"],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    asked = (tmp_path / "asked").read_text().splitlines() if sudo else []
    assert [line for line in asked if line.startswith("install") and line.endswith(" chromium")] == asked[1:2]
    assert any("tmux zsh fish" in line for line in asked) == sudo
    assert ("not here: tmux zsh fish" in done.stderr) != sudo, done.stderr


@pytest.mark.parametrize(("full", "ignored"), [("", False), ("0", False), ("1", True)])
def test_only_the_long_tests_run_those_that_rust_ignores(full: str, ignored: bool) -> None:
    command = ["make", "--dry-run", "--old-file=setup", "test-rust"]
    environment = {**os.environ, "EXPERT_FULL_TESTS": full}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert ("-- --include-ignored" in done.stdout) == ignored


@pytest.mark.skipif(os.name == "nt", reason="a line for a shell")
@pytest.mark.parametrize("is_there", [True, False])
def test_the_demo_says_how_to_type_the_next_command_where_that_would_not_be_found(
    tmp_path: Path, is_there: bool
) -> None:
    make = shutil.which("make") or "make"
    # Under another make its lines about entering and leaving a folder would come last.
    dry_run = [make, "--dry-run", "--no-print-directory", "demo"]
    recipe = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if is_there:
        (tmp_path / "expert-cli").write_text("#!/bin/sh\n")
        (tmp_path / "expert-cli").chmod(0o755)
    last = recipe.splitlines()[-1]
    done = subprocess.run(
        ["/bin/sh", "-c", last],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = 'to type it: export PATH="$PWD/target/release:$PATH"\n'
    assert done.stdout == ("" if is_there else said)
