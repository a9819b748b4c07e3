"""The set-up's steps say what they wait for, and show a command's output only when it fails."""

import os
import pty
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "dev" / "show_progress.py"


def run(code: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SCRIPT), "packages", *options, "--", sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_pipe_gets_a_line_now_and_then_and_no_output(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(b"0" * 400_000_000)
    written = tmp_path / "written"
    write = f"open({str(written)!r}, 'wb').write(b'0' * 250_000_000)"
    code = f"import time; print('chatter'); {write}; time.sleep(1)"
    done = run(code, "--every", "0.2", "--grows", str(tmp_path))
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and done.stdout == ""
    assert lines[0] == "installing packages" and lines[-1].startswith("installed packages in ")
    assert any(line.endswith(", 0.2 GB so far") for line in lines)
    assert "chatter" not in done.stderr


def test_a_failure_shows_what_the_command_said_last() -> None:
    done = run("print('\\n'.join(f'line {n}' for n in range(100))); raise SystemExit(3)")
    assert done.returncode == 3
    assert "line 99" in done.stderr and "line 60\n" in done.stderr and "line 59\n" not in done.stderr
    assert "installed" not in done.stderr


def test_a_terminal_sees_the_commands_own_progress() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, str(SCRIPT), "packages", "--", sys.executable, "-c", "print('own progress')"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # Linux ends a terminal without writers so.
        pass
    assert process.wait() == 0
    assert b"own progress" in said
