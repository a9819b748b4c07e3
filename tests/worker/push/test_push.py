"""Uploads against a stand-in for the Hub on loopback, which speaks the calls that huggingface_hub makes."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
from huggingface_hub import constants

from expert_worker.plan import GgufQuantization
from expert_worker.push import upload
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
        # huggingface_hub asks for this list once per process, where an agent runs it.
        if self.path != "/api/agent-harnesses":
            self.server.calls.append(f"GET {self.path}")
        name = self.path.removeprefix("/api/models/")
        if name in self.server.private:
            held = [{"rfilename": file} for file in self.server.files]
            known = {"id": name, "modelId": name, "private": self.server.private[name], "siblings": held}
            self.reply(known)
        else:
            self.reply({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def do_PUT(self) -> None:
        blob = self.body()
        self.server.blobs[hashlib.sha256(blob).hexdigest()] = blob
        self.reply({})

    def do_POST(self) -> None:
        self.server.calls.append(f"POST {self.path}")
        body = self.body()
        if self.path == "/api/validate-yaml":
            wrong = "license: wrong" in json.loads(body)["content"]
            self.reply({"error": '"license" must be one of [mit]'} if wrong else {}, 400 if wrong else 200)
        elif self.headers["Authorization"] != f"Bearer {TOKEN}" or self.server.refuses:
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
            self.reply({}, 404)

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
            elif line["key"] == "deletedFile":
                del self.server.files[value["path"]]
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

    def reply(
        self, document: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
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
    (folder / "expert.json").write_text('{"name": "sql"}')
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


def test_a_dry_run_writes_nothing(hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), REPOSITORY, "--dry-run"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [file["name"] for file in document["files"]] == sorted(contents(folder))
    assert document["url"] is None
    assert hub.calls == [f"GET /api/models/{REPOSITORY}"] and document["deleted"] == []


def test_a_public_repository_is_not_taken_for_a_private_one(
    hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.private[REPOSITORY] = False
    assert main([str(folder), REPOSITORY, "--private"]) == 2
    assert "is public on the Hub" in capsys.readouterr().err
    assert hub.files == {}
    assert main([str(folder), "me/other", "--private"]) == 0
    assert hub.private["me/other"]


# What each form leaves that another one has not.
FORMS = {
    "adapter": ["adapter_config.json", "adapter_model.safetensors", "tokenizer.json"],
    "shards": ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
               "model.safetensors.index.json", "LICENSE.base"],
    "gguf": ["Modelfile", "base.Q8_0.gguf", "sql.gguf"],
    "mlx": ["adapter_config.json", "adapters.safetensors", "grammar.gbnf"],
}  # fmt: skip
MINE = ["README.md", "LICENSE", "sql.Q6_K.gguf", "notes.md", "data/config.json", ".gitattributes"]


@pytest.mark.parametrize("form", FORMS)
def test_another_form_is_deleted_in_the_same_commit_and_files_of_people_stay(
    form: str, hub: Hub, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "merged"
    other.mkdir()
    for name in ["config.json", "model.safetensors", "expert.json"]:
        (other / name).write_text('{"name": "sql"}')
    hub.private[REPOSITORY] = False
    hub.files = dict.fromkeys([*FORMS[form], *MINE, "expert.json"], b"before")
    gone = sorted(set(FORMS[form]) - set(contents(other)))
    assert main([str(other), REPOSITORY, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == gone
    assert len(hub.calls) == 1
    assert main([str(other), REPOSITORY]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == gone
    assert hub.files == dict.fromkeys(MINE, b"before") | contents(other)
    assert sum(call.endswith("/commit/main") for call in hub.calls) == 1


def test_quantizations_stay_beside_one_another(hub: Hub, folder: Path, tmp_path: Path) -> None:
    gguf = tmp_path / "gguf"
    gguf.mkdir()
    for name in ["sql.Q4_1.gguf", "Modelfile", "expert.json"]:
        (gguf / name).write_text('{"name": "sql"}')
    hub.private[REPOSITORY] = False
    hub.files = dict.fromkeys(["sql.Q8_0.gguf", "model.safetensors", "Modelfile", "expert.json"], b"before")
    assert main([str(gguf), REPOSITORY]) == 0
    assert hub.files == {"sql.Q8_0.gguf": b"before"} | contents(gguf)


def test_a_repository_of_somebody_else_is_refused(
    hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.private[REPOSITORY] = False
    hub.files = {"config.json": b"{}", "model.safetensors": b"", ".gitattributes": b""}
    for words in [[], ["--dry-run"]]:
        assert main([str(folder), REPOSITORY, *words]) == 2
        assert f"{REPOSITORY} holds config.json, model.safetensors, and no" in capsys.readouterr().err
    assert set(hub.files) == {"config.json", "model.safetensors", ".gitattributes"}


def test_every_name_that_exports_write_is_known() -> None:
    from expert_worker.adapter import CONFIG, WEIGHTS
    from expert_worker.export.folders import _BESIDE
    from expert_worker.export.gguf_export import MODELFILE, model_file_name
    from expert_worker.export.licenses import BASE_LICENSE
    from expert_worker.export.mlx_export import MLX_WEIGHTS

    models = [
        model_file_name("sql", merge=merge, quantize=quantize)
        for merge in (True, False)
        for quantize in (None, *get_args(GgufQuantization))
    ]
    names = {CONFIG, WEIGHTS, MODELFILE, MLX_WEIGHTS, BASE_LICENSE, "sql.gguf", *models, *_BESIDE}
    for name in names - {"README.md"}:
        assert upload._is_written(name, "sql"), name
    assert not any(upload._is_written(name, "sql") for name in MINE)


def test_a_card_that_the_hub_refuses_leaves_no_repository(
    hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("---\nlicense: wrong\n---\n# expert-sql\n")
    assert main([str(folder), REPOSITORY]) == 2
    said = capsys.readouterr().err
    assert "refuses the model card" in said and "must be one of" in said and "hint: " in said
    assert hub.private == {}


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
    assert main([str(folder), REPOSITORY, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] is None
    assert hub.calls == []


def test_links_are_not_followed(hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.md").symlink_to("/etc/hostname")
    assert main([str(folder), REPOSITORY]) == 2
    assert "notes.md is not a plain file" in capsys.readouterr().err
    assert hub.calls == []
