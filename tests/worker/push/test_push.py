"""Uploads against a stand-in for the Hub on loopback, which speaks the calls that huggingface_hub makes."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from expert_worker.push.__main__ import main

TOKEN = "hf_hush1234567890"
REPOSITORY = "me/expert-sql"


class Hub(ThreadingHTTPServer):
    """Repositories with their files; files whose name ends in .safetensors go through LFS."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.private: dict[str, bool] = {}
        self.files: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.refuses: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.calls.append(f"GET {self.path}")
        name = self.path.removeprefix("/api/models/")
        if name in self.server.private:
            known = {"id": name, "modelId": name, "private": self.server.private[name], "siblings": []}
            self.reply(known)
        else:
            self.reply({"error": "Repository not found"}, 404)

    def do_PUT(self) -> None:
        blob = self.body()
        self.server.blobs[hashlib.sha256(blob).hexdigest()] = blob
        self.reply({})

    def do_POST(self) -> None:
        self.server.calls.append(f"POST {self.path}")
        body = self.body()
        if self.headers["Authorization"] != f"Bearer {TOKEN}" or self.server.refuses:
            self.reply({"error": "You cannot write here"}, self.server.refuses or 401)
        elif self.path == "/api/repos/create":
            self.create(json.loads(body))
        elif self.path.endswith("/preupload/main"):
            self.reply({"files": [self.mode(file) for file in json.loads(body)["files"]]})
        elif self.path.endswith("/info/lfs/objects/batch"):
            objects = [self.object(asked) for asked in json.loads(body)["objects"]]
            self.reply({"transfer": "basic", "objects": objects})
        elif self.path.endswith("/commit/main"):
            self.commit(body)
        else:
            self.reply({}, 200 if self.path == "/api/validate-yaml" else 404)

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        address = {"url": f"{self.server.url}/{name}"}
        if name in self.server.private:
            self.reply({"error": "You already created this repo"} | address, 409)
        else:
            self.server.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.reply(address)

    def mode(self, file: dict[str, Any]) -> dict[str, Any]:
        large = file["path"].endswith(".safetensors")
        return {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}

    def object(self, asked: dict[str, Any]) -> dict[str, Any]:
        return asked | {"actions": {"upload": {"href": f"{self.server.url}/blobs/{asked['oid']}"}}}

    def commit(self, body: bytes) -> None:
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                self.server.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.server.files[value["path"]] = self.server.blobs[value["oid"]]
        self.reply({"commitUrl": f"{self.server.url}/{REPOSITORY}/commit/abc", "commitOid": "abc"})

    def body(self) -> bytes:
        if self.headers["Transfer-Encoding"] != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def reply(self, document: dict[str, Any], status: int = 200) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    # With xet the library asks for a server of its kind, which this is not.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlibrary_name: peft\n---\n# expert-sql\n")
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(bytes(range(256)) * 40)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_file_arrives(hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), REPOSITORY]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert hub.files == contents(folder)
    assert hub.private == {REPOSITORY: False}
    assert document["url"] == f"{hub.url}/{REPOSITORY}/commit/abc"
    assert {file["name"]: file["bytes"] for file in document["files"]} == {
        name: len(content) for name, content in hub.files.items()
    }
    assert TOKEN not in printed.out + printed.err
    # A repository that is there takes a second upload.
    (folder / "README.md").write_text("# changed\n")
    assert main([str(folder), REPOSITORY]) == 0
    assert hub.files["README.md"] == b"# changed\n"


def test_a_dry_run_calls_nobody(hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), REPOSITORY, "--dry-run"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [file["name"] for file in document["files"]] == sorted(contents(folder))
    assert document["url"] is None
    assert hub.calls == []


def test_a_public_repository_is_not_taken_for_a_private_one(
    hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.private[REPOSITORY] = False
    assert main([str(folder), REPOSITORY, "--private"]) == 2
    assert "is public on the Hub" in capsys.readouterr().err
    assert hub.files == {}
    assert main([str(folder), "me/other", "--private"]) == 0
    assert hub.private["me/other"]


def test_refusals_are_in_words(
    hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.refuses = 403
    assert main([str(folder), REPOSITORY]) == 2
    said = capsys.readouterr().err
    assert "does not let this token write to me/expert-sql (status 403)" in said and "hint: " in said
    hub.refuses = 400
    assert main([str(folder), REPOSITORY]) == 1
    assert f"The export is in {folder}" in capsys.readouterr().err
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert main([str(folder), REPOSITORY]) == 1
    assert "The upload to me/expert-sql failed" in capsys.readouterr().err
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert main([str(folder), REPOSITORY]) == 3
    assert "HF_HUB_OFFLINE" in capsys.readouterr().err


def test_without_a_token_nobody_is_called(
    hub: Hub,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    assert main([str(folder), REPOSITORY]) == 3
    assert "hf auth login" in capsys.readouterr().err
    assert hub.calls == []


def test_links_are_not_followed(hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.md").symlink_to("/etc/hostname")
    assert main([str(folder), REPOSITORY]) == 2
    assert "notes.md is not a plain file" in capsys.readouterr().err
    assert hub.calls == []
