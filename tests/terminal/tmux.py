"""A real terminal: commands typed into tmux, and the screen as a person sees it."""

from __future__ import annotations

import os
import shutil
import subprocess
import termios
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

PATIENCE = 120.0
ROOT = Path(__file__).parents[2]
# EXPERT_CLI names another build than the one that `make setup` leaves.
CLI = Path(os.environ.get("EXPERT_CLI", ROOT / "target" / "release" / "expert-cli"))
MISSING = "there is no tmux here, and `make test` could not install it"


def is_here() -> bool:
    return shutil.which("tmux") is not None


class Terminal:
    """One window of this many columns. `command` is what runs in it; without one nothing is shown."""

    def __init__(
        self, columns: int, command: str, *, folder: Path, environment: Mapping[str, str], lines: int = 120
    ) -> None:
        self._socket = f"expert-{uuid.uuid4().hex[:12]}"
        surroundings = {**os.environ, **environment}
        for name in ("TMUX", "TMUX_PANE", "NO_COLOR", "CLICOLOR_FORCE"):
            surroundings.pop(name, None)
        size = ["-x", str(columns), "-y", str(lines)]
        self._call(
            "-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), command, env=surroundings
        )

    def _call(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *words], check=True, capture_output=True, text=True, env=env
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        """Names of keys (`Tab`, `C-c`) and texts, as tmux takes them."""
        self._call("send-keys", *keys)

    def screen(self) -> str:
        lines = self._call("capture-pane", "-p").splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def resize(self, columns: int) -> None:
        self._call("resize-window", "-x", str(columns))

    def shows(self, text: str, without: str | None = None) -> str:
        """The screen once `text` is on it, and `without` is not."""
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if text in screen and (without is None or without not in screen):
                return screen
            assert time.monotonic() < deadline, f"{text!r} did not appear:\n{screen}"
            time.sleep(0.1)

    def reads_keys(self) -> None:
        """Until the program reads keys and no longer lines: a Ctrl-D before that ends a line nobody reads."""
        deadline = time.monotonic() + PATIENCE
        pane = os.open(self._call("display-message", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        try:
            while termios.tcgetattr(pane)[3] & termios.ICANON:
                assert time.monotonic() < deadline, f"lines are read, not keys:\n{self.screen()}"
                time.sleep(0.02)
        finally:
            os.close(pane)

    def waits(self, prompt: str, again: str | None = None) -> None:
        """Until the last line is the prompt and nothing else; the key `again` is pressed each second."""
        deadline = time.monotonic() + PATIENCE
        pressed = time.monotonic()
        while not (screen := self.screen()).endswith(f"\n{prompt}") and screen != prompt:
            now = time.monotonic()
            assert now < deadline, f"no prompt:\n{screen}"
            if again is not None and now - pressed > 1:
                self.type(again)
                pressed = now
            time.sleep(0.1)

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
