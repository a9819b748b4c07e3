"""The thin scripts over data sets, run as a user runs them."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from datasets import load_from_disk
from datasets.naming import camelcase_to_snakecase

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "scripts"
CLI = Path(os.environ.get("EXPERT_CLI", ROOT / "target" / "release" / "expert-cli"))
needs_cli = pytest.mark.skipif(not CLI.is_file(), reason="expert-cli is not built: run `make setup`")


HF_VARIABLES = {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE"}


def run(
    name: str, *arguments: str, home: Path | None, more: dict[str, str] | None = None, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    homes = {} if home is None else {"HF_HOME": str(home), "EXPERT_HOME": str(home)}
    environment = {
        **os.environ,
        **homes,
        "EXPERT_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "worker" / "python"),
    }
    for override in HF_VARIABLES - homes.keys():
        environment.pop(override, None)
    environment |= more or {}
    return subprocess.run(
        [sys.executable, str(SCRIPTS / name), *arguments],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def found(experts: Path, home: Path | None) -> list[dict[str, Any]]:
    done = run("find_datasets.py", "--experts", str(experts), "--json", home=home)
    assert done.returncode == 0, done.stderr
    datasets: list[dict[str, Any]] = json.loads(done.stdout)["datasets"]
    return datasets


def test_data_sets_are_found_with_their_users(tmp_path: Path) -> None:
    expert = tmp_path / "experts" / "expert-one"
    (expert / "datasets").mkdir(parents=True)
    (expert / "datasets" / "train.jsonl").write_text("x" * 100)
    dataset = {"path": "datasets/train.jsonl", "tasks": [{"path": "owner/name::train::main"}]}
    (expert / "manifest.json").write_text(json.dumps({"training": {"dataset": dataset}}))
    blobs = tmp_path / "home" / "hub" / "datasets--owner--name" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "a").write_text("y" * 50)
    (tmp_path / "home" / "datasets" / "other___set").mkdir(parents=True)
    by_name = {one["name"]: one for one in found(tmp_path / "experts", tmp_path / "home")}
    assert (by_name["datasets/train.jsonl"]["bytes"], by_name["datasets/train.jsonl"]["used_by"]) == (
        100,
        ["expert-one"],
    )
    assert (by_name["owner/name"]["bytes"], by_name["owner/name"]["used_by"]) == (50, ["expert-one"])
    assert (by_name["other/set"]["place"], by_name["other/set"]["used_by"]) == ("datasets", [])


def test_a_data_set_named_by_a_plain_text_is_used(tmp_path: Path) -> None:
    for expert, dataset in (("one", "datasets/train.jsonl"), ("two", "owner/name")):
        (tmp_path / "experts" / expert / "datasets").mkdir(parents=True)
        manifest = json.dumps({"training": {"dataset": dataset}})
        (tmp_path / "experts" / expert / "manifest.json").write_text(manifest)
    (tmp_path / "experts" / "one" / "datasets" / "train.jsonl").write_text("x")
    (tmp_path / "hub" / "datasets--owner--name").mkdir(parents=True)
    used = [(one["name"], one["used_by"]) for one in found(tmp_path / "experts", tmp_path)]
    assert used == [("datasets/train.jsonl", ["one"]), ("owner/name", ["two"])]


def test_caches_are_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    for kind, name in (("hub", "datasets--owner--name"), ("datasets", "other___set")):
        (tmp_path / "caches" / "huggingface" / kind / name).mkdir(parents=True)
    (tmp_path / "experts").mkdir()
    assert [one["name"] for one in found(tmp_path / "experts", home=None)] == ["other/set", "owner/name"]


@pytest.mark.parametrize(
    ("variables", "hub", "prepared"),
    [
        ({"HF_HOME": "~/hfx"}, "hfx/hub", "hfx/datasets"),
        ({"HF_HOME": "$HFX/${HFX}"}, "named/named/hub", "named/named/datasets"),
        ({"HF_HOME": "", "XDG_CACHE_HOME": ""}, ".cache/huggingface/hub", ".cache/huggingface/datasets"),
        ({"HF_HOME": "", "XDG_CACHE_HOME": "~/xdg"}, "xdg/huggingface/hub", "xdg/huggingface/datasets"),
        ({"HUGGINGFACE_HUB_CACHE": "~/old", "HF_HOME": "~/hfx"}, "old", "hfx/datasets"),
        ({"HUGGINGFACE_HUB_CACHE": "~/old", "HF_HUB_CACHE": "~/new", "HF_HOME": "~/h"}, "new", "h/datasets"),
        # `datasets` takes it literally.
        ({"HF_DATASETS_CACHE": "~/own", "HF_HOME": "~/hfx"}, "hfx/hub", "~/own"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_caches_are_where_the_variables_of_hugging_face_say(
    tmp_path: Path, variables: dict[str, str], hub: str, prepared: str
) -> None:
    (tmp_path / hub / "datasets--owner--name").mkdir(parents=True)
    (tmp_path / prepared / "other___set").mkdir(parents=True)
    (tmp_path / "experts").mkdir()
    user = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "HFX": "named"}
    script = ("find_datasets.py", "--experts", str(tmp_path / "experts"), "--json")
    done = run(*script, home=None, more=user | variables, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = [(one["name"], one["place"]) for one in json.loads(done.stdout)["datasets"]]
    assert listed == [("other/set", "datasets"), ("owner/name", "hub")]


@pytest.mark.parametrize("name", ["Owner/MySet", "Owner/GLUEData2Go", "owner/Set-v1.0", "IMDb", "plain_set"])
def test_a_prepared_data_set_with_capital_letters_is_used(tmp_path: Path, name: str) -> None:
    expert = tmp_path / "experts" / "expert-one"
    expert.mkdir(parents=True)
    manifest = json.dumps({"training": {"dataset": f"{name}::train"}})
    (expert / "manifest.json").write_text(manifest)
    *namespace, last = name.split("/")
    folder = "___".join([*namespace, camelcase_to_snakecase(last)])
    (tmp_path / "home" / "datasets" / folder).mkdir(parents=True)
    listed = [(one["place"], one["used_by"]) for one in found(tmp_path / "experts", tmp_path / "home")]
    assert listed == [("datasets", ["expert-one"])]


def test_data_of_patterns_and_test_sets_is_found(tmp_path: Path) -> None:
    expert = tmp_path / "experts" / "expert-one"
    for name in ("train-1.jsonl", "train-2.jsonl", "more/deep.jsonl", "[1].jsonl", "people.jsonl"):
        (expert / "datasets" / name).parent.mkdir(parents=True, exist_ok=True)
        (expert / "datasets" / name).write_text("x")
    tasks = [
        "datasets/train-*.jsonl",
        "datasets/**/deep.jsonl",
        "datasets/train-1.jsonl",
        "datasets/[1].jsonl",
    ]
    document = {
        "training": {"dataset": {"tasks": tasks}},
        "evaluation": {"test_sets": {"people": "datasets/people.jsonl", "broken": 1}},
    }
    # As Windows' editors write it.
    (expert / "manifest.json").write_text(json.dumps(document), encoding="utf-8-sig")
    names = ["[1].jsonl", "more/deep.jsonl", "people.jsonl", "train-1.jsonl", "train-2.jsonl"]
    listed = [(Path(one["name"]).as_posix(), one["used_by"]) for one in found(tmp_path / "experts", tmp_path)]
    assert listed == [(f"datasets/{name}", ["expert-one"]) for name in names]


def test_the_folder_of_one_expert_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expert = tmp_path / "experts" / "expert-one"
    expert.mkdir(parents=True)
    (expert / "train.jsonl").write_text("x")
    (expert / "manifest.json").write_text(json.dumps({"training": {"dataset": "train.jsonl"}}))
    monkeypatch.chdir(expert)
    for named in (expert, Path()):
        assert [(one["name"], one["used_by"]) for one in found(named, tmp_path)] == [
            ("train.jsonl", ["expert-one"])
        ]


def test_nothing_found_is_said(tmp_path: Path) -> None:
    done = run("find_datasets.py", "--experts", str(tmp_path), home=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("No data sets")
    assert f"There is no expert in {tmp_path}" in done.stderr


def test_manifests_of_any_shape_are_skipped(tmp_path: Path) -> None:
    shapes = {
        "list": "[1]",
        "null": '{"training": null}',
        "tasks": '{"training": {"dataset": {"tasks": 5}}}',
        "broken": "{",
    }
    for name, text in shapes.items():
        (tmp_path / "experts" / name).mkdir(parents=True)
        (tmp_path / "experts" / name / "manifest.json").write_text(text)
    done = run("find_datasets.py", "--experts", str(tmp_path / "experts"), "--json", home=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"datasets": []})
    assert "Traceback" not in done.stderr and str(Path("broken", "manifest.json")) in done.stderr


def test_a_folder_of_experts_that_is_not_there(tmp_path: Path) -> None:
    done = run("find_datasets.py", "--experts", str(tmp_path / "nowhere"), home=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("There is no folder of experts at")


def test_an_expert_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run("pretokenize_datasets.py", "--expert", "expert-nowhere", home=tmp_path)
    assert done.returncode == 1
    assert "No such expert: expert-nowhere" in done.stderr


def pretokenize(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run("pretokenize_datasets.py", "--cli", str(CLI), *arguments, home=home)


def write_rows(path: Path) -> Path:
    rows = ({"prompt": f"Question {i}", "completion": "Some words. " * (i % 5 + 1)} for i in range(60))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@needs_cli
def test_one_file_with_a_tokenizer_alone(tmp_path: Path, base: Path, home: Path) -> None:
    assert not (base / "config.json").exists()
    data, out = write_rows(tmp_path / "rows.jsonl"), tmp_path / "out"
    chosen = ["--dataset", str(data), "--tokenizer", str(base), "--output-dir", str(out)]
    done = pretokenize(home, *chosen, "--chunk-size", "64", "--num-proc", "2", "--max-chunks", "3")
    assert done.returncode == 0, done.stderr
    # The manifest is gone: there is no next command.
    assert "next:" not in done.stderr
    rows = load_from_disk(str(out / "train"))
    assert len(rows) == 3
    assert all(32 < len(ids) <= 64 for ids in rows["input_ids"])
    again = pretokenize(home, *chosen)
    assert again.returncode == 1 and f"{out / 'train'} exists already" in again.stderr
    forced = pretokenize(home, *chosen, "--chunk-size", "128", "--force")
    assert forced.returncode == 0, forced.stderr
    whole = load_from_disk(str(out / "train"))
    assert sum(map(len, whole["seq_lengths"])) == 60 and max(map(len, whole["input_ids"])) > 64


@needs_cli
@pytest.mark.skipif(os.name != "posix", reason="makes links")
def test_a_link_in_a_cache_of_the_hub_is_read_by_its_own_name(tmp_path: Path, base: Path, home: Path) -> None:
    data, out = write_rows(tmp_path / "blobs" / "0a1b2c"), tmp_path / "out"
    link = tmp_path / "snapshots" / "main" / "rows.jsonl"
    link.parent.mkdir(parents=True)
    link.symlink_to(Path("../../blobs") / data.name)
    done = pretokenize(home, "--dataset", str(link), "--tokenizer", str(base), "--output-dir", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rows: ") and len(load_from_disk(str(out / "train"))) > 0


@needs_cli
def test_rows_that_are_lost_are_counted(tmp_path: Path, base: Path, home: Path) -> None:
    data = tmp_path / "longq.jsonl"
    rows = ({"prompt": "1 2 3 4 " * (80 if i % 2 else 1), "completion": "A"} for i in range(20))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    chosen = ["--dataset", str(data), "--tokenizer", str(base), "--output-dir", str(tmp_path / "out")]
    done = pretokenize(home, *chosen, "--chunk-size", "128")
    assert done.returncode == 0, done.stderr
    packed = len(load_from_disk(str(tmp_path / "out" / "train")))
    first, second, *_ = done.stdout.splitlines()
    assert first == f"longq: {packed} packed rows of train"
    assert second == "  train: 20 rows read; 10 rows used; 10 dropped, nothing to learn"


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@needs_cli
def test_force_deletes_nothing_before_the_new_rows_are_there(tmp_path: Path, base: Path, home: Path) -> None:
    data, out = write_rows(tmp_path / "rows.jsonl"), tmp_path / "out"
    chosen = ["--dataset", str(data), "--tokenizer", str(base), "--output-dir", str(out), "--force"]
    assert pretokenize(home, *chosen).returncode == 0
    before = files_of(out)
    data.write_text("{")
    assert pretokenize(home, *chosen).returncode != 0
    assert files_of(out) == before


def test_force_leaves_data_that_somebody_else_saved(tmp_path: Path) -> None:
    data, own = write_rows(tmp_path / "rows.jsonl"), tmp_path / "out" / "train"
    own.mkdir(parents=True)
    for name in ("state.json", "data.arrow"):
        (own / name).write_text("{}")
    done = pretokenize(tmp_path, "--dataset", str(data), "--output-dir", str(own.parent), "--force")
    assert done.returncode == 1 and f"{own} exists already" in done.stderr
    assert set(files_of(own)) == {"state.json", "data.arrow"}


@needs_cli
@pytest.mark.parametrize(
    "name", ["My Data.jsonl", "rows.ndjson", "rows.TSV", "_.jsonl.gz", "rows.zip", "rows.2024.zip"]
)
def test_files_that_training_reads_are_read(name: str, tmp_path: Path, base: Path, home: Path) -> None:
    plain = write_rows(tmp_path / "rows.jsonl").read_text()
    data, out = tmp_path / "given" / name, tmp_path / "out"
    data.parent.mkdir()
    if name.endswith(".gz"):
        data.write_bytes(gzip.compress(plain.encode()))
    elif name.endswith(".zip"):
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("inside.jsonl", plain)
    elif name.endswith(".TSV"):
        data.write_text("prompt\tcompletion\n" + "Question\tSome words.\n" * 60)
    else:
        data.write_text(plain)
    chosen = ["--dataset", str(data), "--tokenizer", str(base), "--output-dir", str(out)]
    done = pretokenize(home, *chosen, "--chunk-size", "64")
    assert done.returncode == 0, done.stderr
    assert len(load_from_disk(str(out / "train"))) > 0
    assert sorted(path.name for path in out.iterdir()) == ["train"]


@needs_cli
def test_experts_by_name_and_again_by_force(tmp_path: Path, base: Path, home: Path) -> None:
    shelf = tmp_path / "experts"
    for name in ("expert-one", "expert-two"):
        write_rows(shelf / name / "datasets" / "train.jsonl")
        config = {"method": "sft", "adapter_type": "lora", "rank": 8, "alpha": 16, "packing": True}
        document = {
            "name": name,
            "version": "1.0.0",
            "schema_version": "2.0",
            "base_models": [{"name": str(tmp_path / "base")}],
            "training": {"dataset": {"path": "datasets/train.jsonl"}, "config": config},
        }
        (shelf / name / "manifest.json").write_text(json.dumps(document))
    (tmp_path / "base").mkdir()
    for file in base.iterdir():
        (tmp_path / "base" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "base" / "config.json").write_text("{}")
    chosen = ["--experts", str(shelf), "--expert", "expert-two", "--chunk-size", "64"]
    first = pretokenize(home, *chosen)
    assert first.returncode == 0, first.stderr
    assert "expert-two" in first.stdout and "expert-one" not in first.stdout
    assert "packed rows of train\n  train: 60 rows read; 60 rows used; 12 truncated, too long" in first.stdout
    reused, forced = pretokenize(home, *chosen), pretokenize(home, *chosen, "--force")
    assert "from cache" in reused.stderr and "from cache" not in forced.stderr
    # A folder is relative to where the command runs, and needs no config.json.
    shutil.rmtree(tmp_path / "base")
    relative = os.path.relpath(base)
    other = pretokenize(home, *chosen, "--tokenizer", relative, "--output-dir", str(tmp_path / "out"))
    assert other.returncode == 0, other.stderr
    assert len(load_from_disk(str(tmp_path / "out" / "expert-two" / "train"))) > 0


MISTAKES = [
    (["--experts", "nowhere"], "There is no expert in nowhere"),
    (["--dataset", "{data}", "--expert", "expert-sql"], "leave out --expert"),
    (["--dataset", "{data}", "--experts", "."], "leave out --expert"),
    (["--dataset", "nowhere.jsonl"], "There is no data at nowhere.jsonl"),
    (["--dataset", __file__], "the format is none of"),
    (["--dataset", "{data}", "--tokenizer", "/nowhere"], "/nowhere is not a folder with a tokenizer.json"),
    (["--dataset", "{data}", "--num-proc", "0"], "0 is less than 1"),
    (["--dataset", "{data}", "--cli", "/nowhere/cli"], "/nowhere/cli is not a program"),
    # The base that comes with the worker needs no folder.
    (
        ["--dataset", "{data}", "--tokenizer", "SmolLM2-135M-Instruct", "--cli", "/nowhere"],
        "/nowhere is not a program",
    ),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=lambda value: str(value)[-30:])
def test_a_mistake_is_named_before_any_work(tmp_path: Path, arguments: list[str], said: str) -> None:
    data = write_rows(tmp_path / "rows.jsonl")
    given = [argument.replace("{data}", str(data)) for argument in arguments]
    done = run("pretokenize_datasets.py", *given, "--output-dir", str(tmp_path / "out"), home=tmp_path)
    assert done.returncode in (1, 2)
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_limit_of_what_is_copied_needs_a_place_to_copy_to(tmp_path: Path) -> None:
    done = run("pretokenize_datasets.py", "--max-chunks", "3", home=tmp_path)
    assert done.returncode == 2 and "name a folder with --output-dir" in done.stderr
