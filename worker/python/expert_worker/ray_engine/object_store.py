"""Shared storage without a mounted file system: objects below a URL, by fsspec.

Nothing can be renamed there. Processes agree by `create`: it writes an object only where none has that name,
and one of several that try succeeds. Backends without such a call are refused.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import fsspec

from expert_worker.errors import FULL, BadInput, ExpertError, Missing, Storage, first_line
from expert_worker.storage import waits_for

T = TypeVar("T")

# Where fsspec's "create" is one call of the server (or O_EXCL), not a look and then a write.
_LOCAL = ("file", "local")
_CONDITIONAL = (*_LOCAL, "s3", "s3a", "gs", "gcs")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
_EXTRAS = {"s3fs": "'expert-worker[s3]'"}
_CREDENTIALS = {
    "s3fs": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gcsfs": "GOOGLE_APPLICATION_CREDENTIALS",
}
# How long a server may be away.
PATIENCE = 120.0
_PAUSE = 2.0
_REJECTED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
_S3_LIMITS = {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 1}}


class ObjectStore:
    """Objects by name below the URL. An error names the URL, and is `storage` unless the URL is wrong."""

    def __init__(self, url: str, patience: float = PATIENCE) -> None:
        self.url = checked(url)
        self._patience = patience
        self._files, self._root = _open(self.url)

    def read(self, name: str) -> bytes | None:
        """None where there is no such object."""

        def fetch() -> bytes | None:
            try:
                return bytes(self._files.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

        return self._patiently(f"read {name}", fetch)

    def write(self, name: str, content: bytes) -> None:
        self._patiently(f"write {name}", lambda: self._files.pipe_file(self._path(name), content))

    def create(self, name: str, content: bytes) -> bool:
        """False where another process has made the object. `content` must differ from that of any other
        process: a call whose answer was lost is repeated, and finds what it wrote itself."""

        def put() -> bool:
            try:
                self._create(self._path(name), content)
            except FileExistsError:
                return False
            return True

        return self._patiently(f"write {name}", put) or self.read(name) == content

    def _create(self, path: str, content: bytes) -> None:
        if _protocol(self.url) in _LOCAL:
            # fsspec 2025.2 makes folders for "w", but not for "x".
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(path, "xb") as file:
                file.write(content)
        else:
            self._files.pipe_file(path, content, mode="create")

    def upload(self, path: Path, name: str) -> None:
        self._patiently(f"write {name}", lambda: self._files.put_file(str(path), self._path(name)))

    def download(self, name: str, path: Path) -> bool:
        """False where there is no such object."""

        def fetch() -> bool:
            try:
                self._files.get_file(self._path(name), str(path))
            except FileNotFoundError:
                return False
            return True

        return self._patiently(f"read {name}", fetch)

    def size(self, name: str) -> int | None:
        def look() -> int | None:
            try:
                return int(self._files.info(self._path(name))["size"])
            except FileNotFoundError:
                return None

        return self._patiently(f"read {name}", look)

    def names(self, folder: str) -> list[str]:
        """Of what is directly below the folder."""

        def look() -> list[str]:
            try:
                return [path.rstrip("/") for path in self._files.ls(self._path(folder), detail=False)]
            except FileNotFoundError:
                return []

        found = self._patiently(f"list {folder}", look)
        return sorted({path.rpartition("/")[2] for path in found})

    def remove(self, name: str) -> None:
        """An object, or all below the name."""

        def away() -> None:
            with suppress(FileNotFoundError):
                self._files.rm(self._path(name), recursive=True)

        self._patiently(f"remove {name}", away)

    def demand_create(self) -> None:
        """Asks the server itself: one that ignores the condition would let two processes train one expert."""
        name = f"probe/{uuid.uuid4().hex}"
        first, second = self.create(name, b"first"), self.create(name, b"second")
        if not first or second:
            raise _no_create(self.url)
        self.remove(name)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _patiently(self, doing: str, call: Callable[[], T]) -> T:
        """A server that is away is asked again; one that refuses is not."""
        deadline = time.monotonic() + self._patience
        with waits_for(self.url):
            while True:
                try:
                    return call()
                except ExpertError:
                    raise
                except Exception as error:  # Every backend has its own kinds.
                    if _is_final(error) or time.monotonic() >= deadline:
                        raise self._in_words(doing, error) from error
                    time.sleep(_PAUSE)

    def _in_words(self, doing: str, error: Exception) -> ExpertError:
        message = f"Cannot {doing} in {self.url}: {first_line(error)}"
        if _lacks_credentials(error):
            named = _CREDENTIALS[_PACKAGES[_protocol(self.url)]]
            hint = f"Set {named} in the environment of the command and of each `ray start`."
            return Missing(message, hint=hint, code="storage-credentials")
        return Storage(message, hint=f"{_remedy(error)}. {_LATER}")


_LATER = (
    "Nothing that was saved is lost: the same command resumes each expert from its newest checkpoint there."
)


def checked(url: str) -> str:
    """A URL goes into files and messages: it may not hold a secret."""
    protocol, separator, rest = url.rpartition("://")
    if "@" in rest.partition("/")[0] or "?" in rest:
        raise BadInput(
            "The URL of --storage holds more than a place",
            hint="Leave user, password and options out: s3fs and gcsfs read them from their environment "
            "variables and configuration files, on every node.",
            code="storage-url",
        )
    if not separator or not re.fullmatch(r"[a-z0-9+]+", protocol) or not rest.strip("/"):
        message = f"--storage takes a URL such as s3://bucket/folder or file:///folder, and not {url}"
        raise BadInput(message, code="storage-url")
    if protocol not in _CONDITIONAL:
        raise _no_create(url)
    return url.rstrip("/")


def _protocol(url: str) -> str:
    return url.partition("://")[0]


def _open(url: str) -> tuple[Any, str]:
    protocol = _protocol(url)
    # What another node has written must be seen.
    options: dict[str, Any] = {"use_listings_cache": False}
    if protocol in ("s3", "s3a"):
        options["config_kwargs"] = _S3_LIMITS
    if protocol in ("file", "local"):
        options["auto_mkdir"] = True
    try:
        files, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        package = _PACKAGES.get(protocol, protocol)
        raise Missing(
            f"{url} needs the Python package {package}",
            hint=f"Install it on every machine of the cluster: pip install {_EXTRAS.get(package, package)}",
            code="storage-package",
        ) from error
    except ValueError as error:
        raise BadInput(f"{url} cannot be opened: {error}", code="storage-url") from error
    if hasattr(files, "retries"):
        files.retries = 1  # `_patiently` asks again, and no longer than it may.
    return files, str(root).rstrip("/")


def _no_create(url: str) -> BadInput:
    return BadInput(
        f"{url} cannot write an object only where there is none, so two nodes could train one expert at once",
        hint="Use s3:// (a server that honours If-None-Match on writes), gs:// or file://.",
        code="storage-not-conditional",
    )


def _is_final(error: Exception) -> bool:
    """Asking again will not help."""
    final = (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError)
    credentials = _lacks_credentials(error) or _answer(error)[1] in _REJECTED
    return isinstance(error, final) or credentials or _is_full(error) or _is_read_only(error)


def _remedy(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "Make the bucket or folder, or correct --storage"
    if _is_full(error):
        return "Free some space there, or raise its quota"
    if _answer(error)[1] in _REJECTED:
        return "Correct the credentials on the machine that is named"
    if isinstance(error, PermissionError) or _is_read_only(error):
        return "Allow reading and writing there"
    return "Make the server reachable"


def _lacks_credentials(error: Exception) -> bool:
    return "credential" in type(error).__name__.lower()


def _is_read_only(error: Exception) -> bool:
    return isinstance(error, OSError) and "read-only" in str(error).lower()


def _is_full(error: Exception) -> bool:
    status, code = _answer(error)
    by_code = "quota" in code.lower() or "full" in code.lower()
    return by_code or status == 507 or (isinstance(error, OSError) and error.errno in FULL)


def _answer(error: Exception) -> tuple[int | None, str]:
    """The server's, as HTTP status and S3's word for it; s3fs keeps it in the cause."""
    response = getattr(error.__cause__ or error, "response", None)
    if not isinstance(response, dict):
        return None, ""
    said = response.get("Error", {}), response.get("ResponseMetadata", {})
    return said[1].get("HTTPStatusCode"), str(said[0].get("Code", ""))
