"""The sandbox outlives whatever a scorer does to it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from expert_worker.errors import ExpertError
from expert_worker.evaluate.confinement import Limits
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.signals import sent_for_child

ROOMY = Limits(resident_bytes=400 << 20)
QUICK = Limits(answer_seconds=0.5)


def ask(*texts: str, limits: Limits = ROOMY) -> list[str]:
    found = judge_all(
        "Expert_test.offered:test-offered", [{"completion": "right"}] * len(texts), texts, limits=limits
    )
    return ["" if verdict.correct else verdict.reason for verdict in found]


def test_an_answer_that_computes_on_and_on_spoils_only_itself(offered: None) -> None:
    reasons = ask("right", "spin", "right", limits=QUICK)
    assert reasons == ["", "the answer took longer than 0.5 s of processor time", ""]


def test_an_answer_is_not_wrong_because_the_machine_is_busy(offered: None) -> None:
    assert ask("wait", "right", limits=QUICK) == ["", ""]


def test_an_answer_without_a_verdict_is_not_called_wrong(offered: None) -> None:
    row, limits = {"completion": "right"}, Limits(verdict_seconds=2)
    before, hung, after = judge_all(
        "Expert_test.offered:test-offered", [row] * 3, ["right", "hang", "right"], limits=limits
    )
    assert before.correct and after.correct
    assert hung.failed and hung.reason == "no verdict came within 2 s"


def test_an_answer_that_crashes_or_eats_memory_spoils_only_itself(offered: None) -> None:
    assert ask("right", "crash", "eat", "right") == [
        "",
        "the answer made the engine crash",
        "the answer needs too much memory",
        "",
    ]


def test_an_answer_is_not_wrong_because_of_memory_that_others_left(offered: None) -> None:
    assert ask(*["keep"] * 6, "right") == [""] * 7


def test_files_are_bounded_and_thrown_away(offered: None, tmp_path: Path) -> None:
    reasons = ask("where", "write", "files", "variable EXPERT_SECRET_TOKEN")
    folder = Path(reasons[0])
    assert folder != Path.cwd()
    assert not folder.exists()
    assert "File too large" in reasons[1]
    assert "Too many open files" in reasons[2]
    assert reasons[3] == "None"


def test_libraries_of_a_scorer_compute_with_one_thread(
    offered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert ask("variable OMP_NUM_THREADS", "variable OPENBLAS_NUM_THREADS") == ["1", "1"]


def test_an_error_in_a_scorer_is_a_wrong_answer_with_its_reason(offered: None) -> None:
    assert ask("raise", "print", "right") == ["ValueError: no such thing", "", ""]


def test_memory_of_what_an_answer_started_counts(offered: None) -> None:
    assert ask("right", "others eat", "right") == ["", "the answer needs too much memory", ""]


@pytest.mark.parametrize("how", ["spawn", "orphan"])
def test_what_an_answer_started_dies_with_its_child(offered: None, how: str) -> None:
    (process_id,) = ask(how)
    assert process_id.isdecimal()
    process = Path("/proc") / process_id
    for _ in range(50):
        if not process.exists() or "State:\tZ" in (process / "status").read_text():
            return
        time.sleep(0.02)
    pytest.fail(f"process {process_id} is still there")


@pytest.mark.skipif(sys.platform != "linux", reason="signals are forbidden on Linux only")
def test_signals_reach_the_childs_own_session_alone() -> None:
    def asked(*signal: object) -> bytes:
        return json.dumps({"signal": signal}).encode() + b"\n"

    with (
        subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as own,
        subprocess.Popen(["/bin/sleep", "60"]) as other,
    ):
        try:
            nonsense = [asked(), asked("1", 9), asked(0, 9), asked(2**70, 9), asked(other.pid, 9)]
            assert all(sent_for_child(line, own.pid) for line in [b'{"signal"', *nonsense])
            assert not sent_for_child(b'{"score": 1}', own.pid)
            assert own.poll() is None and other.poll() is None
            assert sent_for_child(asked(own.pid, 9), own.pid)
            assert own.wait() == -9 and other.poll() is None
        finally:
            own.kill()
            other.kill()


def test_an_unknown_scorer_is_named_with_what_there_is() -> None:
    from expert_worker.evaluate.scorers import check_scorer

    with pytest.raises(ExpertError) as refused:
        check_scorer("./evil.py")
    assert refused.value.exit_code == 2
    assert "sql" in (refused.value.hint or "")


def test_a_built_in_scorer_judges_in_its_child() -> None:
    row = {
        "schema": [{"table": "ships", "rows": 5, "columns": [["id", "key"]]}],
        "seed": "1",
        "completion": "SELECT id FROM ships",
    }
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
    found = judge_all("sql", [row] * 3, ["SELECT id FROM ships", endless, "ATTACH 'x' AS y"])
    assert [verdict.correct for verdict in found] == [True, False, False]


def test_an_offered_scorer_is_found_by_its_package_and_name(
    offered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from expert_worker.evaluate.scorers import check_scorer

    monkeypatch.syspath_prepend(tmp_path)
    check_scorer("expert-test-offered:test-offered")
    for name in ("other:test-offered", "expert-test-offered:other", "expert-test-offered"):
        with pytest.raises(ExpertError, match="no scorer named"):
            check_scorer(name)
