"""What a terminal gets of texts by others."""

import json
import unicodedata

import pytest

from expert_worker.errors import BadInput, Missing
from expert_worker.hidden_characters import HIDDEN, JOINERS
from expert_worker.report.__main__ import main as report
from expert_worker.terminal import report_failure, visible, wrapped

STEERING = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202eb\u2066\r\x08\ud800"


def test_only_control_and_hidden_characters_are_replaced():
    """Every code point, against the ranges that the CLI uses."""
    hidden = {code for first, last in HIDDEN for code in range(first, last + 1)} - set(JOINERS)
    replaced = {code for code in range(0x110000) if visible(chr(code)) == "\ufffd"} - {0xFFFD}
    control = {code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cs")}
    assert replaced == (hidden | control) - {ord("\n"), ord("\t")}
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467 می\u200cخواهم"
    assert visible(family) == family


def test_an_error_cannot_steer_the_terminal(capsys):
    assert report_failure(BadInput(f"no {STEERING}", hint=STEERING)) == 2
    out, written = capsys.readouterr()
    assert out == ""
    assert written == visible(written) and written.startswith("error: no a\ufffd[2J")
    assert written.splitlines()[1].startswith("  hint: a") and len(written.splitlines()) == 2
    assert report_failure(BadInput("no run", code="no-run"), to_cli=True) == 2
    assert capsys.readouterr().err == "error: no run\ncode: no-run\n"


def test_a_failure_as_json_is_one_line_on_standard_output(capsys):
    assert report_failure(Missing(f"no {STEERING}", code="gone"), as_json=True) == 3
    out, written = capsys.readouterr()
    assert out.count("\n") == 1 and written.startswith("error: no a")
    problem = {"code": "gone", "message": f"no {STEERING}", "hint": None}
    assert json.loads(out) == {"ok": False, "exit": 3, "error": problem}


def test_the_report_of_a_run_with_a_steering_name_is_refused_safely(tmp_path, capsys):
    assert report([str(tmp_path / "\x1b[2J\u202enothing")]) == 2
    written = capsys.readouterr()
    assert "error:" in written.err and "\x1b" not in written.err and "\u202e" not in written.err


@pytest.mark.parametrize("name", ["\udcff", "\u202erun"])
def test_the_path_of_a_report_reaches_a_pipe_unchanged(tmp_path, name, monkeypatch, capfdbinary):
    path = tmp_path / name / "report.html"
    monkeypatch.setattr("expert_worker.report.__main__.write_report", lambda _: path)
    assert report([str(path.parent)]) == 0
    assert capfdbinary.readouterr().out == bytes(path) + b"\n"


def test_long_lines_break_between_words() -> None:
    advice = "  Close other programs or `expert-cli bench tune`, /a/path/that/is/longer/than/the/line too"
    assert wrapped(advice, 30).splitlines() == [
        "  Close other programs or",
        "  `expert-cli bench tune`,",
        "  /a/path/that/is/longer/than/the/line",
        "  too",
    ]
    table = "name    mean\n\na  1     2"
    assert wrapped(table, 12) == table and wrapped(advice, None) == advice
