"""Names, tools and folders as injection into what `init` and `matrix` write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.areas.manifests import ESCAPES
from tests.adversary.attempt import Area, Attempt

NAMES = (
    "../outside",
    "/tmp/expert-adversary-outside",
    "a/b",
    "a b",
    "a\nb",
    "a;touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "${{ secrets.TOKEN }}",
    "-rf",
    "--parent=..",
    "x" * 5000,
    ".git",
    ".",
    "..",
    "con",
    "nul.txt",
    "ASH",
    "ünï",
    'a"b',
    "a'b",
    "a\\b",
    "a" + ESCAPES,
    "",
)
TOOLS = (
    "a/b@main; curl evil",
    "a/b@${{ github.token }}",
    "a/b@" + "0" * 39,
    "a/b@" + "g" * 40,
    "../b@" + "0" * 40,
    "a/b/c@" + "0" * 40,
    "a/b@" + "0" * 40 + "\n        run: curl evil",
    "a/b" + ESCAPES + "@" + "0" * 40,
)
FOLDERS = (
    "shelf'; touch pwned; '",
    "shelf\n- run: touch pwned",
    "${{ github.event.head_commit.message }}",
    "$(touch pwned)",
    "a b",
    "shelf" + ESCAPES.replace("/", ""),
)


def attempts(quick: bool) -> Iterator[Attempt]:
    step = 6 if quick else 1
    for name in NAMES[::step]:
        yield Attempt(f"init {name[:20]!r}", partial(init, name))
    for tool in TOOLS[::step]:
        yield Attempt(f"init --ci --tool {tool[:24]!r}", partial(workflow_of_tool, tool))
    for folder in FOLDERS[::step]:
        yield Attempt(f"init --ci and matrix in {folder[:20]!r}", partial(workflow_of_folder, folder))


def init(name: str, folder: Path) -> None:
    inside = folder / "here"
    inside.mkdir()
    outside = world.snapshot(folder)
    said = cli.check(cli.run("init", "--", name, cwd=inside, seconds=20))
    made = [path for path in inside.iterdir() if path.name != "experts"]
    assert len(made) <= 1 and world.snapshot(folder).keys() >= outside.keys()
    written = [path for path in folder.rglob("*") if not path.is_relative_to(inside)]
    assert written == [inside] or not [path for path in written if path != inside], written
    assert not Path("/tmp/expert-adversary-outside").exists()
    assert not list(folder.rglob("pwned"))
    if said.code == 0:
        for manifest in inside.rglob("manifest.json"):
            cli.check(cli.run("validate", manifest.parent, cwd=inside, seconds=20), {0})


def workflow_of_tool(tool: str, folder: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    said = cli.check(cli.run("init", "--ci", "--tool", tool, cwd=folder, seconds=20))
    _harmless(folder)
    assert said.code == 2, f"taken: {tool!r}"


def workflow_of_folder(name: str, folder: Path) -> None:
    """Either refused, or a workflow in which the name is data."""
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    shelf = folder / name
    world.write_rows(shelf / "ash/train.jsonl", world.rows(count=2))
    (shelf / "ash/manifest.json").write_text(json.dumps(world.manifest("../base")))
    tool = "owner/name@" + "0" * 40
    cli.check(cli.run("init", "--ci", "--parent", name, "--tool", tool, cwd=folder, seconds=20))
    _harmless(folder)
    listed = cli.check(cli.run("matrix", name, cwd=folder, seconds=20), data=True)
    if listed.code == 0:
        document = json.loads(listed.out)
        assert isinstance(document["include"], list)
        assert listed.out.count(b"\n") == 1


def _harmless(folder: Path) -> None:
    import yaml

    for path in folder.glob(".github/workflows/*"):
        document = yaml.safe_load(path.read_text())
        for job in document["jobs"].values():
            for step in job["steps"]:
                script = step.get("run", "")
                assert "${{" not in script, f"an expression in a script: {script}"
                assert "touch pwned" not in script or "'" in script, script
                assert "curl evil" not in script, script
        assert "head_commit" not in path.read_text()
        assert "github.token" not in path.read_text()


AREA = Area("scaffolds", "init, init --ci, matrix: names, tools, folders as injection", attempts)
