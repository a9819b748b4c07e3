"""Tab in bash, zsh and fish, typed into a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux import CLI, MISSING, Terminal, is_here

pytestmark = pytest.mark.skipif(not is_here(), reason=MISSING)
# The prompt shows that the shell has read its files.
RC = {
    "bash": "PS1='ready> '; bind 'set show-all-if-ambiguous on'; source ./script\n",
    "zsh": "PS1='ready> '; fpath=($PWD $fpath); autoload -U compinit; compinit -u; setopt LIST_AMBIGUOUS\n",
    "fish": "function fish_prompt; echo 'ready> '; end; function fish_greeting; end; source ./script",
}
SCRIPT = {"bash": "script", "zsh": "_expert-cli", "fish": "script"}


@pytest.fixture(params=list(RC))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here, and `make test` could not install it")
    script = subprocess.run([CLI, "completions", name], check=True, capture_output=True, text=True).stdout
    (tmp_path / SCRIPT[name]).write_text(script)
    (tmp_path / {"bash": "rc", "zsh": ".zshrc", "fish": "rc"}[name]).write_text(RC[name])
    start = {
        "bash": "exec bash --noprofile --rcfile rc -i",
        "zsh": "ZDOTDIR=$PWD exec zsh -i",
        "fish": f"exec fish --no-config -i -C {shlex.quote(RC[name])}",
    }[name]
    path = os.pathsep.join([str(CLI.parent), os.environ.get("PATH", "")])
    environment = {"PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    with Terminal(100, start, folder=tmp_path, environment=environment, lines=40) as terminal:
        terminal.waits("ready>")
        yield terminal


def test_tab_completes_commands_flags_and_values(shell: Terminal) -> None:
    """A word that has one continuation is written out; of several, the list is shown."""
    for typed, completed in (
        ("expert-cli pretok", "expert-cli pretokenize"),
        ("expert-cli bench abl", "expert-cli bench ablate"),
        ("expert-cli train --learning", "expert-cli train --learning-rate"),
        ("expert-cli init --preset consu", "expert-cli init --preset consumer-24gb"),
    ):
        shell.type("-l", typed)
        shell.type("Tab")
        shell.shows(completed)
        # While it still completes, zsh takes Ctrl-C for an end of that and keeps the line.
        shell.type("C-c")
        shell.waits("ready>", again="C-c")
    shell.type("-l", "expert-cli bench ")
    shell.type("Tab")
    screen = shell.shows("timeline")
    assert all(name in screen for name in ("watch", "tune", "ablate")), screen
