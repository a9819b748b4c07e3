"""Chromium without a window, spoken to over a pipe: just enough to look at a page as a reader does."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_READ, _WRITE = 3, 4
"""Where Chromium reads commands and writes answers with --remote-debugging-pipe."""


def program() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


NEEDS_BROWSER = pytest.mark.skipif(
    program() is None, reason="there is no Chromium here, and `make test` could not install it"
)


class Browser:
    def __init__(self, executable: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()

        def connect() -> None:
            import fcntl

            # Moved to high numbers first, since each may have the number that the other needs.
            reading = fcntl.fcntl(commands, fcntl.F_DUPFD, 10)
            writing = fcntl.fcntl(answers, fcntl.F_DUPFD, 10)
            os.dup2(reading, _READ)
            os.dup2(writing, _WRITE)

        self._process = subprocess.Popen(
            [
                executable,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            preexec_fn=connect,  # noqa: PLW1509 (the tests have no threads)
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._number, self._buffer, self.messages = 0, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session: str | None = None
    messages: list[dict[str, Any]]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.messages.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._answers, 1 << 16)
            assert piece, "the browser has gone away"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def look(self, page: Path | str, *, width: int, scheme: str, media: str = "screen") -> None:
        """Opens a page from disk, or by its URL, and waits until it is drawn."""
        # The page before may still ask a server that has ended; its complaint is not of this page.
        self._open("about:blank")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self._open(page if isinstance(page, str) else page.as_uri())

    def _open(self, url: str) -> None:
        self.messages.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.messages):
            self.messages.append(self._next())

    def ask(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self) -> list[Any]:
        """Messages of the console, and exceptions."""
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event for event in self.messages if event.get("method") in kinds]

    def requests(self) -> list[str]:
        asked = (event for event in self.messages if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in asked]

    def close(self) -> None:
        os.close(self._commands)
        os.close(self._answers)
        self._process.terminate()
        self._process.wait()
