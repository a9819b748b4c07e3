"""Storage that fails while processes use it: a small file system that fills up or turns read-only, and calls
that take long."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

static void wait_for_storage(void) {
    usleep(150000);
    while (access(HELD, F_OK) == 0) usleep(50000);
}

int fsync(int file) {
    wait_for_storage();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
    wait_for_storage();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}

int rename(const char *from, const char *to) {
    wait_for_storage();
    return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
}

int mkdir(const char *path, unsigned mode) {
    wait_for_storage();
    return ((int (*)(const char *, unsigned))dlsym(RTLD_NEXT, "mkdir"))(path, mode);
}
"""


AS_ROOT = [] if os.name == "nt" or os.geteuid() == 0 else ["sudo", "-n"]
"""Mounting needs it; a machine of CI has sudo without a password."""


def mount(*words: str | Path) -> None:
    subprocess.run([*AS_ROOT, "mount", *words], check=True, capture_output=True, text=True)


def mount_or_skip(*words: str | Path) -> None:
    try:
        mount(*words)
    except FileNotFoundError as error:
        pytest.skip(f"cannot mount: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"cannot mount: {error.stderr.strip()}")


def unmount(folder: Path) -> None:
    subprocess.run([*AS_ROOT, "umount", folder], check=True)


class SlowStorage:
    """For LD_PRELOAD: calls that wait for a file server take 150 ms longer; none returns while it is held."""

    def __init__(self, folder: Path) -> None:
        if sys.platform != "linux" or shutil.which("gcc") is None:
            pytest.skip("needs Linux with gcc")
        source, self._library, self._held = folder / "slow.c", folder / "slow.so", folder / "held"
        source.write_text(_SLOW)
        define = f'-DHELD="{self._held}"'
        subprocess.run(["gcc", "-shared", "-fPIC", define, "-o", self._library, source, "-ldl"], check=True)
        self.variables = {"LD_PRELOAD": str(self._library)}

    def slows(self, pid: int) -> bool:
        return str(self._library) in Path(f"/proc/{pid}/maps").read_text()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._held.touch()
        try:
            yield
        finally:
            self._held.unlink()


class Disk:
    """ext4 in a file. Mounting needs a privilege that not every machine gives."""

    def __init__(self, folder: Path, size: int = 96 << 20) -> None:
        if sys.platform != "linux" or shutil.which("mkfs.ext4") is None:
            pytest.skip("needs Linux with mkfs.ext4")
        self._image, self.folder = folder / "image", folder / "disk"
        self.folder.mkdir()
        with self._image.open("wb") as image:
            os.truncate(image.fileno(), size)
        owner = f"root_owner={os.getuid()}:{os.getgid()}"
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-E", owner, self._image], check=True)
        mount_or_skip("-o", "loop", self._image, self.folder)

    def fail(self, how: str) -> None:
        if how == "full":
            with (self.folder / "ballast").open("wb", buffering=0) as ballast:
                for size in (1 << 20, 1 << 10):
                    with suppress(OSError):
                        while True:
                            ballast.write(b"\0" * size)
        else:  # What ext4 does after an error of its disk; a plain remount waits for open files.
            os.sync()  # The files of the test itself are on the disk.
            mount("-o", "remount,abort", self.folder)

    def repair(self) -> None:
        """Once nothing uses it."""
        self.close()
        mount("-o", "loop", self._image, self.folder)
        (self.folder / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        unmount(self.folder)
