"""What `init --data` makes of a user's file is trained as it is, here on a base of two layers, and learns."""

import json
import shutil
from pathlib import Path

import pytest
from defaults import run_cli, save_base, train_on_small_base

from expert_worker.base.embedded import embedded_tokenizer

TABLE = "ticket;team\n" + "".join(
    f'"The {thing} of order {number} {what}";{team}\n'
    for number in range(1000, 1020)
    for thing in ("lamp", "kettle", "chair")
    for what, team in (("is broken", "repairs"), ("was billed twice", "billing"), ("never came", "shipping"))
)


MAPPED = ("--map", "prompt=ticket", "--map", "completion=team")


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "Support tickets.csv").write_text(TABLE)
    done = run_cli(folder, "init", "--data", "Support tickets.csv", *MAPPED)
    assert (done.returncode, done.stdout) == (0, "expert-support-tickets\n"), done.stderr
    return folder / "expert-support-tickets"


def test_it_validates_without_a_warning_and_says_how_rows_are_scored(expert: Path) -> None:
    checked = run_cli(expert.parent, "validate", expert.name)
    assert (checked.returncode, checked.stdout) == (0, f"{expert.name}/manifest.json: ok\n")
    assert "warning" not in checked.stderr and "advice" not in checked.stderr
    manifest = json.loads((expert / "manifest.json").read_text())
    assert manifest["training"]["dataset"]["field_mapping"] == {"prompt": "ticket", "completion": "team"}
    labels = ["billing", "repairs", "shipping"]
    assert manifest["evaluation"]["scorer"] == {"classification": {"labels": labels}}
    rows = {path.stem: len(path.read_text().splitlines()) for path in (expert / "datasets").iterdir()}
    assert sum(rows.values()) == TABLE.count("\n") - 1 and rows["test"] >= 12


def test_lengths_are_those_that_answers_of_digits_need(tmp_path: Path) -> None:
    answers = [
        {"invoice": f"INV-2024-{at * 7919:06}", "date": f"2024-10-{at % 28 + 1:02}", "total": at * 38.98}
        for at in range(120)
    ]
    rows = [{"prompt": f"Read page {at}", "completion": json.dumps(it)} for at, it in enumerate(answers)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run_cli(tmp_path, "init", "--data", "t.jsonl", "invoices")
    assert done.returncode == 0, done.stderr
    tokenizer = embedded_tokenizer()
    longest = max(len(tokenizer.encode(row["completion"])) for row in rows)
    training = json.loads((tmp_path / "invoices" / "manifest.json").read_text())["training"]
    assert 48 < longest < training["decoding"]["max_new_tokens"] < 2 * longest


def test_it_learns(expert: Path, tmp_path: Path) -> None:
    bodies = train_on_small_base(expert, tmp_path / "base", learning_rate=0.02)
    losses = [body.loss for body in bodies if body.type == "progress"]
    assert len(losses) > 3
    assert losses[-1] < losses[0] - 0.25
    # No row of one file is a copy of a row of another.
    assert not [body for body in bodies if getattr(body, "code", "") == "data-leak"]


def test_a_second_training_starts_from_the_adapter_of_the_first(expert: Path, tmp_path: Path) -> None:
    work = tmp_path / "tickets"
    shutil.copytree(expert, work, ignore=shutil.ignore_patterns("weights", "datasets_optimized"))
    manifest = json.loads((work / "manifest.json").read_text())
    manifest["base_models"][0] |= {
        "name": str(save_base(tmp_path / "base")),
        "overrides": {"learning_rate": 0.005},
    }
    (work / "manifest.json").write_text(json.dumps(manifest))

    def losses(*arguments: str) -> list[float]:
        done = run_cli(work, "train", "--device", "cpu", "--max-steps", "20", *arguments)
        assert done.returncode == 0, done.stderr
        lines = (work / arguments[1] / "events.jsonl").read_text().splitlines()
        bodies = [json.loads(line)["body"] for line in lines]
        return [body["loss"] for body in bodies if body["type"] == "progress"]

    first = losses("-o", "weights/first")
    initial = ("--set", "training.config.initial_adapter=weights/first/final")
    second = losses("-o", "weights/second", *initial)
    assert second[0] < first[0] - 0.25, (first, second)
    assert sum(second) < sum(first), (first, second)
    # What it started from is what it was; the run is finished, and a second command does nothing.
    again = run_cli(work, "train", "--device", "cpu", "--max-steps", "20", "-o", "weights/second", *initial)
    assert again.returncode == 0
    own = run_cli(work, "train", "--device", "cpu", "-o", "weights/first", *initial)
    assert own.returncode == 2 and "into another folder with --output" in " ".join(own.stderr.split())
    rank = run_cli(work, "plan", "--set", "training.config.rank=4", *initial)
    assert rank.returncode == 2 and "error[initial-adapter]" in rank.stderr


def test_fields_of_other_names_are_asked_for_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    done = run_cli(tmp_path, "init", "--data", "t.csv")
    assert done.returncode == 2
    assert "180 rows are broken:" in done.stderr and 'fields "ticket", "team"' in done.stderr
    assert "--map prompt=FIELD --map completion=FIELD" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_texts_without_answers_are_not_to_be_scored(tmp_path: Path) -> None:
    words = ("alder", "birch", "cedar", "dogwood", "elm")
    texts = [
        f"The {one} stands beside the {two}, number {number}."
        for number in range(4)
        for one in words
        for two in words
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    done = run_cli(tmp_path, "init", "--data", "t.jsonl", "trees")
    assert done.returncode == 0, done.stderr
    assert "then expert-cli train trees\n" in done.stderr and "--evaluate" not in done.stderr
    readme = (tmp_path / "trees" / "README.md").read_text()
    assert "--evaluate" not in readme and "test" not in readme and "{{" not in readme
    assert not (tmp_path / "trees" / "datasets" / "test.jsonl").exists()


def test_a_map_of_init_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    unknown = run_cli(tmp_path, "init", "--data", "t.csv", "--map", "promt=ticket")
    assert unknown.returncode == 2 and "did you mean `prompt`" in " ".join(unknown.stderr.split())
    twice = run_cli(tmp_path, "init", "--data", "t.csv", "--map", "prompt=ticket", "--map", "prompt=team")
    assert twice.returncode == 2 and "two fields for prompt: ticket and team" in twice.stderr


def test_datasets_split_writes_the_files_alone_and_never_over_others(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    command = ("datasets", "split", "t.csv", *MAPPED, "--test", "0.2", "--json")
    done = run_cli(tmp_path, *command)
    written = json.loads(done.stdout)["written"]
    assert (done.returncode, sum(written["rows"].values())) == (0, 180), done.stderr
    assert written["rows"]["test"] >= 30
    before = {path.name: path.read_bytes() for path in (tmp_path / "datasets").iterdir()}
    again = run_cli(tmp_path, *command)
    assert again.returncode == 2 and json.loads(again.stdout)["error"]["code"] == "exists"
    assert {path.name: path.read_bytes() for path in (tmp_path / "datasets").iterdir()} == before


@pytest.mark.parametrize("data", ["tickets", "tickets/**/*.csv"])
def test_the_files_of_a_folder_or_a_pattern_are_divided_together(tmp_path: Path, data: str) -> None:
    head, *rows = TABLE.splitlines(keepends=True)
    (tmp_path / "tickets" / "late").mkdir(parents=True)
    (tmp_path / "tickets" / "early.csv").write_text(head + "".join(rows[:90]))
    (tmp_path / "tickets" / "late" / "rest.csv").write_text(head + "".join(rows[90:]))
    done = run_cli(tmp_path, "datasets", "split", data, *MAPPED, "--json")
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stdout)["written"]["rows"].values()) == len(rows)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run_cli(tmp_path, "init", "--data", "empty")
    assert done.returncode == 2 and "there are no data files in `empty`" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
