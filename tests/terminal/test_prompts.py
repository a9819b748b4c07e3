"""Prompts typed to `generate` on a terminal are edited, earlier ones come back, and Ctrl-C leaves at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux import CLI, MISSING, ROOT, Terminal, is_here

pytestmark = pytest.mark.skipif(not is_here(), reason=MISSING)
GENERATE = "expert-cli generate words --device cpu"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    """A shell beside the expert `words`, whose worker answers each prompt with its capitals."""
    subprocess.run([CLI, "init", "words", "-q"], cwd=tmp_path, check=True, capture_output=True)
    environment = {
        "EXPERT_PYTHON": sys.executable,
        "EXPERT_HOME": str(tmp_path / "home"),
        "EXPERT_TEST_STAGE": "expert_test_stage",
        "EXPERT_TEST_ACTS": "echo",
        "EXPERT_TEST_PID_FILE": str(tmp_path / "pid"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "worker/python"), str(ROOT / "tests/cli/stage")]),
        "PATH": os.pathsep.join([str(CLI.parent), os.environ.get("PATH", "")]),
        "LC_ALL": "C.UTF-8",
    }
    (tmp_path / "rc").write_text("PS1='ready> '\n")
    start = "exec bash --noprofile --rcfile rc -i"
    with Terminal(100, start, folder=tmp_path, environment=environment, lines=40) as terminal:
        terminal.waits("ready>")
        yield terminal


def begins(shell: Terminal, command: str = GENERATE) -> None:
    shell.type("-l", command)
    shell.type("Enter")
    shell.waits(">")
    shell.reads_keys()


def test_a_line_is_edited_and_those_before_it_come_back(shell: Terminal) -> None:
    begins(shell)
    assert "Ctrl-D or Ctrl-C leaves" in shell.screen()
    shell.type("-l", "one wood")
    shell.type("Left", "BSpace")
    shell.type("-l", "r")
    shell.type("Enter")
    shell.shows("[base] ONE WORD")
    shell.type("-l", "two")
    shell.type("Enter")
    shell.shows("[base] TWO\n>")
    shell.reads_keys()
    shell.type("Up", "Up")
    shell.shows("TWO\n> one word")
    shell.type("Enter")
    screen = shell.shows("> one word\n[base] ONE WORD\n>")
    assert "^[[A" not in screen, screen
    shell.reads_keys()
    shell.type("C-d")
    shell.waits("ready>")
    assert "stop" not in shell.screen().lower(), shell.screen()
    shell.type("-l", "echo $?")
    shell.type("Enter")
    shell.shows("echo $?\n0")


@pytest.mark.parametrize("typed", ["", "half a line"])
def test_ctrl_c_leaves_at_once_and_the_terminal_works(shell: Terminal, typed: str) -> None:
    begins(shell)
    if typed:
        shell.type("-l", typed)
    shell.type("C-c")
    shell.waits("ready>")
    shell.type("-l", "echo code $?")
    shell.type("Enter")
    screen = shell.shows("\ncode 130")
    for word in ("sav", "within", "progress"):
        assert word not in screen, screen


def test_a_signal_from_elsewhere_leaves_a_terminal_that_works(shell: Terminal) -> None:
    begins(shell)
    pane = shell._call("display-message", "-p", "#{pane_pid}").strip()
    (command,) = Path(f"/proc/{pane}/task/{pane}/children").read_text().split()
    os.kill(int(command), 15)
    shell.waits("ready>")
    shell.type("-l", "stty -a | tr ' ' '\\n' | grep -x -e -icanon -e -echo -e icanon")
    shell.type("Enter")
    screen = shell.shows("\nicanon")
    assert "\n-icanon" not in screen and "\n-echo" not in screen, screen
    assert "saves" not in screen, screen


def test_a_prompt_is_awaited_only_after_the_answer(shell: Terminal) -> None:
    """Standard output may be a file: prompts are typed all the same."""
    begins(shell, f"{GENERATE} > answers")
    for word in ("one", "two"):
        shell.type("-l", word)
        shell.type("Enter")
        shell.shows(f"> {word}\n>")
    shell.reads_keys()
    shell.type("C-d")
    shell.waits("ready>")
    shell.type("-l", "cat answers")
    shell.type("Enter")
    shell.shows("[base] ONE\n[base] TWO\n")
