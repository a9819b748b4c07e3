"""A real S3 server on the loopback (moto), whose objects outlive a stop, and which fails on request."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from s3fs import S3FileSystem
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

BUCKET = "shelf"
DENIED = ("403 Forbidden", "AccessDenied")
FULL = ("507 Insufficient Storage", "XMinioStorageFull")
OVER_QUOTA = ("400 Bad Request", "XMinioAdminBucketQuotaExceeded")
REJECTED = ("403 Forbidden", "SignatureDoesNotMatch")
# Each with that value: nothing that is left or said may contain it.
SECRET = "hush-9d27"
_WRITES = ("POST", "PUT", "DELETE")


# Credentials of this machine's user, or of the machine itself, are not looked for.
_ALONE = {
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


class S3Server:
    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        # A real server decides a conditional write at once; moto looks first and writes then.
        self._conditional = threading.Lock()
        self._answers = threading.Event()
        self._answers.set()
        # The answer to every write, where it is refused.
        self.refusal: tuple[str, str] | None = None
        self.ignores_conditions = False
        self.writes: list[str] = []
        self._server: BaseWSGIServer | None = None
        self._port = 0
        self.start()
        self.variables = {
            "AWS_ACCESS_KEY_ID": SECRET,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
        }
        # Of an earlier server of this process.
        urlopen(f"{self.variables['AWS_ENDPOINT_URL']}/moto-api/reset", data=b"").close()
        client = boto3.client(
            "s3",
            endpoint_url=self.variables["AWS_ENDPOINT_URL"],
            aws_access_key_id=SECRET,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)

    def start(self) -> None:
        self._server = make_server(
            "127.0.0.1", self._port, self._serve, threaded=True, request_handler=_Quiet
        )
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self._port = self._server.port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Nobody is at the port any more."""
        self._answers.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """No request is answered meanwhile."""
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    def _serve(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        self._answers.wait()
        method = environ["REQUEST_METHOD"]
        if method in _WRITES and self.refusal is not None:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status, code = self.refusal
            respond(status, [("Content-Type", "application/xml")])
            error = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No: {code}</Message></Error>"
            return [error.encode()]
        if method == "PUT":
            self.writes.append(environ["PATH_INFO"])
        if self.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if "HTTP_IF_NONE_MATCH" in environ:
            with self._conditional:
                return list(self._app(environ, respond))
        return self._app(environ, respond)  # type: ignore[no-any-return]


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The environment leads to the server."""
    server = S3Server()
    for name, value in {**server.variables, **_ALONE}.items():
        monkeypatch.setenv(name, value)
    # fsspec keeps a connection for each set of options, and the port is none of them.
    S3FileSystem.clear_instance_cache()
    try:
        yield server
    finally:
        server.stop()
