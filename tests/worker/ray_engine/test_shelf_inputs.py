"""Which files of the driver's machine go to a store."""

from __future__ import annotations

import json
from pathlib import Path

from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.shelf_inputs import send


def test_no_text_of_a_manifest_sends_a_file(tmp_path: Path) -> None:
    """The manifest may be of somebody else. The CLI says what its keys name."""
    expert = tmp_path / "shelf" / "ash"
    expert.mkdir(parents=True)
    (tmp_path / "key").write_text("secret")
    for name in ("own.jinja", "notes.txt"):
        (expert / name).write_text("a text")
    manifest = expert / "manifest.json"
    manifest.write_text(json.dumps({"description": "notes.txt", "_note": ["own.jinja", "../../key"]}))
    store = ObjectStore((tmp_path / "store").as_uri())
    paths = {
        "expert": "ash/run", "expert_dir": str(expert), "manifest": str(manifest),
        "inputs": [str(expert / "own.jinja")], "run": str(expert / "weights"), "cache": str(expert / "cache"),
    }  # fmt: skip
    order = {"training": {"options": {"allow_path": []}}, "code": "1"}
    sent = {Path(name).name for name in send(store, paths, order, {})["files"]}
    assert sent == {"manifest.json", "own.jinja"}
