"""Which files of a run's folder go to a store, and what of them replaces those that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from expert_worker.ray_engine.run_folder import INCOMING, files_of, install

OWN_RS = Path(__file__).parents[3] / "cli" / "src" / "run" / "own.rs"
# Temporary names, and locks of one machine.
PASSING = re.compile(r".*\.(partial|trash)|\.writing-.*|lock|lease")
FOLDERS = ("tensorboard", "previous", "replaced", "final")


def write(folder: Path, name: str, text: str = "run") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_runs_own_names_travel_and_the_users_stay(tmp_path: Path) -> None:
    source = OWN_RS.read_text(encoding="utf-8")
    lists = re.findall(r"(?:const|static) (\w+): \[&str; \d+\] =\s*\[(.*?)\]", source, re.DOTALL)
    names = {name: re.findall(r'"(.*?)"', body) for name, body in lists}
    assert {"REPLACEABLE", "OTHERS", "OWN", "MINE"} <= names.keys()
    own = {*names["REPLACEABLE"], *names["OTHERS"], *names["OWN"], "final", "events.jsonl"}
    own = {name for name in own if not PASSING.fullmatch(name) and not name.startswith("checkpoint-")}
    for name in own:
        write(tmp_path, f"{name}/file" if name in FOLDERS else name)
    write(tmp_path, "checkpoint-3.damaged/state.json")
    write(tmp_path, "wandb/run-1/log")
    for name in [*names["MINE"], "export/model.gguf", "notes/old.md", "lock", "final.partial/a"]:
        write(tmp_path, name, "mine")
    found = {name.partition("/")[0] for name in files_of(tmp_path)}
    assert found == own | {"checkpoint-3.damaged", "wandb"}


def test_a_store_of_an_older_version_replaces_nothing_of_the_users(tmp_path: Path) -> None:
    for name in ("export/adapter/a", "notes/a", "wandb/run-1/log", "final/a", "final/gone", "mine.txt"):
        write(tmp_path, name, "here")
    for name in ("export/adapter/a", "notes/a", "wandb/run-2/log", "final/a", "mine.txt", "run.json"):
        write(tmp_path / INCOMING, name, "store")
    install(tmp_path / INCOMING, tmp_path)
    left = {
        path.relative_to(tmp_path).as_posix(): path.read_text()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert left == {
        "export/adapter/a": "here",
        "notes/a": "here",
        "mine.txt": "here",
        "wandb/run-1/log": "here",
        "wandb/run-2/log": "store",
        "final/a": "store",
        "run.json": "store",
    }


@pytest.mark.parametrize("same", [True, False])
def test_scores_of_an_adapter_that_comes_back_changed_go(tmp_path: Path, same: bool) -> None:
    weights = "final/adapter_model.safetensors"
    write(tmp_path, weights, "before")
    for name in ("evaluation.json", "answers.jsonl"):
        write(tmp_path, name, '{"adapter": {"accuracy": 0.5}}')
    write(tmp_path / INCOMING, weights, "before" if same else "longer")
    install(tmp_path / INCOMING, tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"final", *(("evaluation.json", "answers.jsonl") if same else ())}
