"""Which files of the driver's machine go to a store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.shelf_inputs import send

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")


def test_no_text_of_a_manifest_sends_a_file_from_elsewhere(tmp_path: Path) -> None:
    """The manifest may be of somebody else."""
    expert = tmp_path / "shelf" / "ash"
    expert.mkdir(parents=True)
    (tmp_path / "private").mkdir()
    secret, shared = tmp_path / "private" / "key", tmp_path / "shared.jinja"
    secret.write_text("secret")
    shared.write_text("{{ messages }}")
    (expert / "own.jinja").write_text("{{ messages }}")
    (expert / "linked.jinja").symlink_to(secret)
    manifest = expert / "manifest.json"
    texts = ["own.jinja", "linked.jinja", "../../private/key", "../../shared.jinja"]
    manifest.write_text(json.dumps({"_note": texts}))

    def sent(allowed: list[str]) -> set[str]:
        store = ObjectStore((tmp_path / f"store-{len(allowed)}").as_uri())
        paths = {
            "expert": "ash/run", "expert_dir": str(expert), "manifest": str(manifest), "inputs": [],
            "run": str(expert / "weights"), "cache": str(expert / "cache"),
        }  # fmt: skip
        order = {"training": {"options": {"allow_path": allowed}}, "code": "1"}
        return {Path(name).name for name in send(store, paths, order, {})["files"]}

    assert sent([]) == {"manifest.json", "own.jinja"}
    assert sent([str(shared)]) == {"manifest.json", "own.jinja", "shared.jinja"}
