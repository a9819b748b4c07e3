"""Training from Python: the words of the command, its result, its refusals."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from expert_worker.errors import Missing
from expert_worker.notebook import TrainingFailed, train

CLI = Path(__file__).parents[3] / "target/release/expert-cli"


def stand_in(folder: Path, body: str) -> str:
    program = folder / "expert-cli"
    program.write_text(f"#!{sys.executable}\nimport json, sys, time\n{textwrap.dedent(body)}")
    program.chmod(0o755)
    return str(program)


def test_the_command_has_what_was_given_and_its_document_is_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = stand_in(
        tmp_path,
        f"""
        open({str(tmp_path / "words")!r}, "w").write(json.dumps(sys.argv[1:]))
        print("step 1", file=sys.stderr)
        print(json.dumps({{"adapter": "a", "steps": 7, "train_loss": 0.5, "evaluation": {{"rows": 3}}}}))
        """,
    )
    settings = {"training.config.epochs": 0.5, "training.dataset.path": Path("rows.jsonl")}
    result = train("an expert", settings=settings, output="o", evaluate=True, options=["-q"], program=program)
    assert (result.steps, result.train_loss) == (7, 0.5)
    assert result.evaluation is not None and result.evaluation.rows == 3
    assert json.loads((tmp_path / "words").read_text()) == [
        "train",
        "an expert",
        "--json",
        "--python",
        sys.executable,
        "--set",
        "training.config.epochs=0.5",
        "--set",
        'training.dataset.path="rows.jsonl"',
        "--output",
        "o",
        "--evaluate",
        "-q",
    ]
    assert "step 1" in capsys.readouterr().err


def test_a_failure_without_a_document_has_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match="exit code 9") as caught:
        train("x", program=stand_in(tmp_path, "sys.exit(9)"))
    assert caught.value.exit_status == 9


def test_a_document_without_an_adapter_is_refused(tmp_path: Path) -> None:
    """As `--dry-run` prints it."""
    with pytest.raises(TrainingFailed, match="gave no adapter"):
        train("x", program=stand_in(tmp_path, 'print(json.dumps({"ok": True, "plan": {}}))'))


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("expert_worker.notebook._BUILT", tmp_path / "none")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(Missing, match="not on the path"):
        train("x")


@pytest.mark.skipif(not CLI.is_file(), reason="expert-cli is not built")
def test_the_commands_own_refusal_is_raised(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match=r"manifest\.json") as caught:
        train(tmp_path, program=str(CLI))
    assert caught.value.exit_status == 2 and caught.value.code


def test_an_interrupt_reaches_the_command_and_is_waited_for(tmp_path: Path) -> None:
    program = stand_in(
        tmp_path,
        f"""
        import signal
        def save(*_):
            open({str(tmp_path / "saved")!r}, "w").write("saved")
            sys.exit(130)
        signal.signal(signal.SIGINT, save)
        print("ready", file=sys.stderr, flush=True)
        time.sleep(60)
        """,
    )
    script = (
        # A suite in the background of a shell ignores interrupts, and passes that on.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from expert_worker.notebook import train\n"
        f"try: train('x', program={program!r})\nexcept KeyboardInterrupt: print('interrupted')"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stderr is not None and run.stdout is not None
    assert run.stderr.readline() == "ready\n"
    os.kill(run.pid, signal.SIGINT)
    assert run.wait(60) == 0
    assert run.stdout.read() == "interrupted\n" and (tmp_path / "saved").read_text() == "saved"
