"""The lint for phrases that a reader has to decode."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "dev" / "plain_words.py"
sys.path.insert(0, str(SCRIPT.parent))

import plain_words  # noqa: E402


def phrases(path: str, source: str) -> list[tuple[int, str]]:
    return [(found.line, found.phrase) for found in plain_words.check(path, source)]


@pytest.mark.parametrize(
    "sentence",
    [
        "`doctor` says how to mend it.",
        "The run goes on from the newest checkpoint.",
        "It trains anew.",
        "The user is told.",
        "The run lies in weights.",
        "A finished expert is passed over.",
        "A folder that is no cache.",
        "A page a task.",
        "It trains 500 tokens a second.",
        "Equal but for the order of sums.",
        "One a core as far as memory allows.",
        "A process of its own.",
        "What is unknown differs from it.",
        "Rows belong into a folder.",
        "It exits. Such as:",
        "The name is how the plan calls this kind.",
        "It concerns experts of one base.",
        "Memory to use at most.",
        "Tokens in a row at most.",
        "The inputs that a run was begun with.",
        "About 700 tokens an epoch.",
    ],
)
def test_a_banned_phrase_is_found(sentence):
    assert phrases("a.md", sentence) != []


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no data at the path.",
        "The lock is no longer held.",
        "It prints tokens per second.",
        "What is an expert? A folder.",
        "One line per expert.",
        "The amendment continues.",
        "A limit such as 8GB.",
        "At most two rows per step.",
    ],
)
def test_plain_english_passes(sentence):
    assert phrases("a.md", sentence) == []


def test_a_phrase_across_lines_is_found_where_it_begins():
    assert phrases("a.md", "First.\nThe run goes\non.") == [(2, "goes on")]
    assert phrases("a.rs", "fn a() {}\n/// The run goes\n/// on.\nfn b() {}\n") == [(2, "goes on")]
    assert phrases("a.rs", 'let it = "the run goes \\\n    on";\n') == [(1, "goes on")]
    assert phrases("a.py", "x = 1\n# The run goes\n# on.\n") == [(2, "goes on")]
    assert phrases("a.py", 'x = (\n    "the run goes "\n    f"on {x}"\n)\n') == [(2, "goes on")]


def test_strings_side_by_side_are_separate_sentences():
    assert phrases("a.py", 'x = ["goes",\n    "on"]\n') == []
    assert phrases("a.py", "x = 'goes'  # on\n") == []


def test_only_names_of_functions_are_read():
    assert phrases("a.py", "told = tells(anew)\n") == []
    assert phrases("a.rs", "let told = tells(anew, 'a');\n") == []
    assert phrases("a.py", "x = 1\n\n\ndef test_it_is_told(): ...\n") == [(4, "told")]
    assert phrases("a.py", "def test_a_file_is_read(): ...\n") == []
    assert phrases("a.rs", "\nfn the_run_goes_on() {}\n") == [(2, "goes on")]


def test_the_command_fails_on_a_finding(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("It is told.\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "page.md"], cwd=tmp_path, check=True)
    monkeypatch.setattr(plain_words, "REPOSITORY", tmp_path)
    assert plain_words.main([]) == 1
    assert 'page.md:1: "told"' in capsys.readouterr().out
    assert plain_words.main(["elsewhere"]) == 0


def test_what_init_writes_is_checked():
    written = {path for path in plain_words.tracked() if "/scaffold/" in path}
    assert {Path(path).suffix for path in written} >= {".json", ".md", ".yml"}
