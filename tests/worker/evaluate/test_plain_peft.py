"""A run's adapter, asked here and by those who know nothing of this program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from evaluate import tiny
from evaluate.test_evaluate_stage import DECODING, adapted
from plans import example_document, example_plan, example_record
from run_record.finals import final_of
from safetensors.torch import load_file, save_file

from expert_worker.errors import BadInput, Missing
from expert_worker.evaluate.plain_peft import Compared, compare

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "compare_with_peft.py"


# With stops, so that answers end at a text, at a token, and at their length.
ENDING = DECODING | {"stop_sequences": [*"jVQ7", "<user>"], "max_new_tokens": 12}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return finished(tmp_path, "tokenizer")


def finished(tmp_path: Path, template: str) -> Path:
    """A finished run's folder with a test set of 30 questions. The base asks for a repetition penalty."""
    base = tiny.model()
    base.generation_config.repetition_penalty = 1.3
    base.save_pretrained(tmp_path / "base")
    tiny.tokenizer().save_pretrained(tmp_path / "base")
    test = tmp_path / "test.jsonl"
    test.write_text("".join(json.dumps({"prompt": f"q{n}", "completion": "a"}) + "\n" for n in range(30)))
    output = tmp_path / "run"
    output.mkdir()
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    changes = {
        "recipe.template": {"kind": template, "source": None},
        "recipe.data.test": [source],
        "recipe.decoding": ENDING,
        "machine.paths.data": {"test.jsonl": str(test)},
    }
    (output / "plan.json").write_text(json.dumps(example_document(tmp_path, changes)))
    recipe = example_plan(tmp_path, changes).recipe
    model = adapted()
    model.generation_config.repetition_penalty = 1.3
    final_of(model, tiny.tokenizer(), recipe, output, record=example_record(tmp_path))
    return output


def asked_by_script(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("template", ["tokenizer", pytest.param("chatml", marks=pytest.mark.full), "llama"])
def test_plain_peft_answers_the_same_from_the_folder_alone(
    template: str, tmp_path: Path, every_trial: bool
) -> None:
    """Also where the template is not the one of the base's tokenizer."""
    count = 20 if every_trial else 10
    found = compare(finished(tmp_path, template), count)
    assert len(found) == count
    assert all(one.same for one in found)
    assert len({tuple(one.here) for one in found}) > 5
    texts = [tiny.tokenizer().decode(one.here) for one in found]
    assert any(text.endswith(tuple("jVQ7")) for text in texts) and any(len(one.here) == 12 for one in found)


@pytest.mark.parametrize("name", ["chat_template.jinja", "generation_config.json"])
def test_the_answers_depend_on_each_file(name: str, tmp_path: Path) -> None:
    run = finished(tmp_path, "chatml")
    (run / "final" / name).write_bytes((tmp_path / "base" / name).read_bytes())
    assert not all(one.same for one in compare(run, 6))


def test_another_answer_is_seen(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from expert_worker.evaluate import plain_peft

    asked = plain_peft._asked_there

    def spoiled(plan, base, adapter, rows):  # type: ignore[no-untyped-def]
        weights = adapter / "adapter_model.safetensors"
        save_file({name: -2 * tensor for name, tensor in load_file(weights).items()}, weights)
        return asked(plan, base, adapter, rows)

    monkeypatch.setattr(plain_peft, "_asked_there", spoiled)
    assert not all(one.same for one in compare(run, 6))


@pytest.mark.full
def test_the_script_says_what_it_found(run: Path, tmp_path: Path) -> None:
    said = asked_by_script(run, "--prompts", "3")
    assert said.stdout == "3 of 3 answers are the same, token for token\n", said.stderr
    assert (said.returncode, "nanobind" in said.stderr) == (0, False), said.stderr


def test_a_folder_without_a_run_is_refused_before_torch_is_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", str(SCRIPT), str(tmp_path)]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert said.returncode == 2 and "is not a finished run" in said.stderr
    imported = {line.rsplit("|", 1)[-1].strip() for line in said.stderr.splitlines()}
    assert "expert_worker.errors" in imported and not {"torch", "transformers"} & imported


@pytest.mark.parametrize("prompts", ["0", "-1"])
def test_a_number_of_questions_is_positive(prompts: str, tmp_path: Path) -> None:
    said = asked_by_script(tmp_path, "--prompts", prompts)
    assert said.returncode == 2 and f"--prompts {prompts} is less than 1" in said.stderr


def test_a_python_without_the_packages_is_named(tmp_path: Path) -> None:
    """Not by exit code 1, which says that an answer differs."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path)]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert said.returncode == 3 and "has no package" in said.stderr and "make setup" in said.stderr


def test_a_plan_of_another_version_is_refused(run: Path) -> None:
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps({**plan, "contract": 0}))
    with pytest.raises(Missing, match="speaks version 0"):
        compare(run, 20)


def test_answers_of_other_lengths_differ() -> None:
    assert Compared("q", [1, 2], [1, 2]).same
    assert not Compared("q", [1, 2], [1, 2, 3]).same
    assert not Compared("q", [1, 2, 3], [1, 2]).same
    assert not Compared("q", [], [1]).same


def test_a_folder_that_is_not_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a finished run"):
        compare(tmp_path, 20)
