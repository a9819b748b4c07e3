"""Storage that fails while processes use it: a small file system that fills up or turns read-only."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest


class Disk:
    """ext4 in a file. Mounting needs a privilege that not every machine gives."""

    def __init__(self, folder: Path, size: int = 96 << 20) -> None:
        if sys.platform != "linux" or shutil.which("mkfs.ext4") is None:
            pytest.skip("needs Linux with mkfs.ext4")
        self._image, self.folder = folder / "image", folder / "disk"
        self.folder.mkdir()
        with self._image.open("wb") as image:
            os.truncate(image.fileno(), size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", self._image], check=True)
        mounted = self._mount()
        if mounted.returncode:
            pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")

    def _mount(self) -> subprocess.CompletedProcess[bytes]:
        command = ["mount", "-o", "loop", self._image, self.folder]
        return subprocess.run(command, check=False, capture_output=True)

    def fail(self, how: str) -> None:
        if how == "full":
            with (self.folder / "ballast").open("wb", buffering=0) as ballast:
                for size in (1 << 20, 1 << 10):
                    with suppress(OSError):
                        while True:
                            ballast.write(b"\0" * size)
        else:  # What ext4 does after an error of its disk; a plain remount waits for open files.
            os.sync()  # The files of the test itself are on the disk.
            subprocess.run(["mount", "-o", "remount,abort", self.folder], check=True)

    def repair(self) -> None:
        """Once nothing uses it."""
        self.close()
        assert self._mount().returncode == 0
        (self.folder / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", self.folder], check=True)
