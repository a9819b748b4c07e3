"""What `init` writes from a schema alone is trained as it is, here on a base of two layers, and learns."""

import json
import subprocess
from pathlib import Path

import pytest
from defaults import ROOT, run_cli, train_on_small_base

from expert_worker.base.embedded import embedded_tokenizer

DDL = ROOT / "tests" / "worker" / "schema_rows" / "ddl" / "music_shop.sql"


def init(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The folder has no experts/ and is in no checkout."""
    return run_cli(folder, "init", *arguments)


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    done = init(folder, "--preset", "sql", "--ddl", str(DDL), "--rows", "60")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "expert-music-shop\n"
    assert "rows dropped: " in done.stderr and "1 CREATE INDEX" in done.stderr
    assert "Traceback" not in done.stderr
    return folder / "expert-music-shop"


def test_the_folder_is_whole(expert: Path) -> None:
    found = {str(path.relative_to(expert)) for path in expert.rglob("*") if path.is_file()}
    data = {f"datasets/{name}" for name in ("train.jsonl", "validation.jsonl", "test.jsonl", "tables.sql")}
    assert found == {
        "manifest.json", "manifest.schema.json", "README.md", ".gitignore", ".gitattributes",
        "schema.sql", *data,
    }  # fmt: skip
    assert (expert / "schema.sql").read_bytes() == DDL.read_bytes()
    assert "--rows 60 --seed 1" in (expert / "README.md").read_text()
    manifest = json.loads((expert / "manifest.json").read_text())
    assert manifest["evaluation"]["scorer"] == "sql"
    lengths = (
        manifest["training"]["decoding"]["max_new_tokens"],
        manifest["training"]["config"]["max_seq_length"],
    )
    assert lengths == (112, 512)


@pytest.fixture(scope="module")
def api_expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    done = init(folder, "--preset", "json", "--schema", str(DDL.with_name("order.json")), "--rows", "60")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "expert-order\n"
    assert (folder / "expert-order" / "schema.json").is_file()
    # llguidance does not know uniqueItems.
    assert "schema.json is not the grammar of answers" in " ".join(done.stderr.split())
    assert "grammar_file" not in (folder / "expert-order" / "manifest.json").read_text()
    return folder / "expert-order"


def test_a_schema_of_an_openapi_document_is_named_behind_the_file(tmp_path: Path) -> None:
    order = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "by": {"type": "string"}},
    }
    api = {"openapi": "3.1.0", "components": {"schemas": {"LateOrder": order}}}
    (tmp_path / "api.json").write_text(json.dumps(api))
    whole = init(tmp_path, "--preset", "json", "--schema", "api.json", "--rows", "40")
    assert whole.returncode == 2 and "--schema 'api.json#LateOrder'" in " ".join(whole.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["api.json"]
    done = init(tmp_path, "--preset", "json", "--schema", "api.json#LateOrder", "--rows", "40")
    assert (done.returncode, done.stdout) == (0, "expert-lateorder\n"), done.stderr
    assert "grammar" not in done.stderr
    schema = json.loads((tmp_path / "expert-lateorder" / "schema.json").read_text())
    assert schema == {"title": "LateOrder", **order}
    manifest = json.loads((tmp_path / "expert-lateorder" / "manifest.json").read_text())
    assert manifest["training"]["decoding"]["grammar_file"] == "schema.json"


def test_lengths_are_those_that_long_answers_need(tmp_path: Path) -> None:
    forms = {"date-time": 2, "uuid": 4, "email": 1, "ipv4": 1, "date": 1}
    keys = {f"{form}_{n}": {"type": "string", "format": form} for form in forms for n in range(forms[form])}
    schema = {"title": "Order", "properties": keys, "required": list(keys)}
    (tmp_path / "api.json").write_text(json.dumps(schema))
    done = init(tmp_path, "--preset", "json", "--schema", "api.json", "--rows", "40")
    assert done.returncode == 0, done.stderr
    expert, tokenizer = tmp_path / "expert-api", embedded_tokenizer()
    lines = [it for file in (expert / "datasets").glob("*.jsonl") for it in file.read_text().splitlines()]
    rows = [json.loads(line)["messages"] for line in lines]
    answers = [len(tokenizer.encode(row[-1]["content"])) for row in rows]
    whole = [len(tokenizer.apply_chat_template(row, return_dict=False)) for row in rows]
    training = json.loads((expert / "manifest.json").read_text())["training"]
    assert 224 < max(answers) < training["decoding"]["max_new_tokens"]
    assert 512 < max(whole) <= training["config"]["max_seq_length"]


def test_lengths_are_those_that_long_names_need(tmp_path: Path) -> None:
    columns = ", ".join(
        f"CRM_40917_XQJ_2291_{name}_{kind}"
        for name in ("OPENING", "CLOSING", "RENEWAL")
        for kind in ("AMOUNT_XQJ INT", "DATE_XQJ DATE", "DESCRIPTION_XQJ TEXT")
    )
    (tmp_path / "s.sql").write_text(
        f"CREATE TABLE TBL_CRM_XQJ_HEADERS (TBL_CRM_XQJ_HEADERS_ID INT PRIMARY KEY, {columns});"
    )
    done = init(tmp_path, "--preset", "sql", "--ddl", "s.sql", "--rows", "60")
    assert done.returncode == 0, done.stderr
    expert, tokenizer = tmp_path / "expert-s", embedded_tokenizer()
    lines = [it for name in ("validation", "test") for it in _rows(expert, name)]
    answers = [len(tokenizer.encode(row[-1]["content"])) for row in lines]
    whole = [len(tokenizer.apply_chat_template(row, return_dict=False)) for row in lines]
    training = json.loads((expert / "manifest.json").read_text())["training"]
    assert 112 < max(answers) < training["decoding"]["max_new_tokens"]
    assert 512 < max(whole) <= training["config"]["max_seq_length"]


def _rows(expert: Path, name: str) -> list[list[dict[str, str]]]:
    lines = (expert / "datasets" / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line)["messages"] for line in lines]


@pytest.mark.parametrize("made", ["expert", "api_expert"])
def test_it_learns(made: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    expert: Path = request.getfixturevalue(made)
    steps = {"max_steps": 60, "save_steps": 60, "eval_steps": 60, "eval_rows": 2}
    bodies = train_on_small_base(expert, tmp_path / "base", learning_rate=0.02, **steps)
    losses = [body.loss for body in bodies if body.type == "progress"]
    assert len(losses) > 3
    assert losses[-1] < losses[0] - 0.25


def test_a_schema_that_cannot_be_read_leaves_no_folder(tmp_path: Path) -> None:
    ddl = tmp_path / "schema.sql"
    ddl.write_text("CREATE TABLE t (a TEXT DEFAULT 'x);")
    done = init(tmp_path, "new", "--preset", "sql", "--ddl", str(ddl))
    assert done.returncode == 2
    assert "schema.sql, line 1: a quoted text or name has no end" in done.stderr
    assert "hint: " in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["schema.sql"]
