"""Which nodes may train a shelf, without a cluster."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from expert_worker.ray_engine.node import Node, environment

ORDER = json.dumps({"code": {}, "training": None})


def here(place: Path, **changes: Any) -> dict[str, Any]:
    (place / "mark").write_text("seen")
    found = {"folder": str(place), "mark": "mark", "content": "seen", "cli": str(place / "expert-cli")}
    return {**found, "environment": environment(), **changes}


def cli(folder: Path, answer: str) -> None:
    """A stand-in that prints its answer to any order."""
    program = folder / "expert-cli"
    program.write_text(f"#!/bin/sh\nread order\necho '{answer}'\n")
    program.chmod(0o755)


def test_the_environment_holds_what_decides_an_adapter() -> None:
    found = environment()
    assert found["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert {"torch", "transformers", "peft", "safetensors"} <= found.keys()
    assert "aiohttp" not in found, "an extra"


def test_another_package_is_named_with_both_versions(tmp_path: Path) -> None:
    theirs = environment() | {"torch": "1.2.3"}
    refused = Node(here(tmp_path, environment=theirs)).refusal(ORDER)
    assert refused is not None and refused["code"] == "node-differs"
    assert refused["message"].endswith(f"torch {environment()['torch']} (driver: 1.2.3)")


@pytest.mark.parametrize("changes", [{"content": "other"}, {"folder": "/nowhere/experts"}])
def test_a_folder_that_is_not_the_drivers_is_named(tmp_path: Path, changes: dict[str, str]) -> None:
    seen = here(tmp_path, **changes)
    refused = Node(seen).refusal(ORDER)
    assert refused is not None and refused["code"] == "not-shared"
    assert seen["folder"] in refused["message"]
    assert [json.loads(line) for line in Node(seen).run(ORDER)] == [{"failed": refused}], (
        "a task is refused too"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_the_cli_compares_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = Node(here(tmp_path)).refusal(ORDER)
    assert refused is not None and refused["code"] == "node-without-cli"
    cli(tmp_path, '"same_code"')
    assert Node(here(tmp_path)).refusal(ORDER) is None
    cli(tmp_path, '{"failed": {"exit": 3, "code": "node-differs", "message": "other", "hint": null}}')
    refused = Node(here(tmp_path)).refusal(ORDER)
    assert refused is not None and refused["message"] == "other"


@pytest.mark.parametrize(("address", "said"), [("127.0.0.1:1", "refused"), ("nowhere", "is not HOST:PORT")])
def test_a_cluster_that_does_not_answer_is_an_error(tmp_path: Path, address: str, said: str) -> None:
    shelf = {
        "folder": str(tmp_path),
        "mark": "mark",
        "cli": "expert-cli",
        "storage": None,
        "address": address,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "expert_worker.ray_engine"],
        input=json.dumps(shelf),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    failed = json.loads(ended.stdout)["failed"]
    assert (ended.returncode, failed["exit"], failed["code"]) == (2, 2, "no-cluster")
    assert said in failed["message"] and address in failed["message"]
    assert "Traceback" not in ended.stderr
