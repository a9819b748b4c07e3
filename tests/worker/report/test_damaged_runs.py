"""Any bytes in a run's files: the page is written, valid, and says what it had to leave out."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_run import progress, sample_run

from expert_worker.events import Events
from expert_worker.events.sinks import Record
from expert_worker.report import refresh, write_index, write_report
from expert_worker.report.__main__ import main
from expert_worker.report.page import page
from expert_worker.report.read import read_run

FILES = ("events.jsonl", "run.json", "plan.json", "evaluation.json", "cache.json")
TRIALS = 60
# Of the trials of `make test` each forges another value of ODD.
SAMPLE = 22
# Values of a trial: a page takes longer than forging them.
FORGED = 3
VOID = {"meta", "br"}
# A text, a tag with its attributes, or the first line. HTMLParser takes longer than writing the page.
VALUE = """(?:"[^"]*"|'[^']*'|[a-z0-9-]+)"""
TOKEN = re.compile(
    rf"[^<]+|<(/?)([a-z][a-z0-9]*)(?:\s+[a-z][a-zA-Z0-9:-]*(?:={VALUE})?)*(/?)>|<!doctype html>"
)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_run(tmp_path_factory.mktemp("pristine"), 36)


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "out"))


def place_of(run: Path, name: str) -> Path:
    if name != "cache.json":
        return run / name
    plan = json.loads((run / "plan.json").read_text())
    return Path(plan["machine"]["paths"]["cache"]) / ("c" * 32) / name


def check(run: Path) -> str:
    """The page is as a browser wants it."""
    html = page(read_run(run)).encode().decode()
    assert_balanced(html)
    assert html.endswith("</html>\n")
    assert not any(mark in html for mark in ("\0", "\x1b", ">nan<", ">inf<")), "no such character or number"
    return html


def assert_balanced(html: str) -> None:
    opened: list[str] = []
    place = 0
    for token in TOKEN.finditer(html):
        assert token.start() == place, html[place : place + 200]
        place = token.end()
        ends, tag, alone = token.groups()
        if ends:
            assert opened.pop() == tag
        elif tag and not alone and tag not in VOID:
            opened.append(tag)
    assert place == len(html), html[place : place + 200]
    assert opened == []


@pytest.mark.parametrize("broken", ["<p>a", "<p>a</b>", "a</p>", '<p x="<b>', "<p>a < b</p>", "<p x=></p>"])
def test_a_broken_page_is_noticed(broken: str) -> None:
    assert_balanced('<!doctype html>\n<p class="a>b">c<br><path d="M0 0"/></p>')
    with pytest.raises((AssertionError, IndexError)):
        assert_balanced(broken)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_anywhere(run: Path, name: str, every_trial: bool) -> None:
    draw = random.Random(f"flip {name}")
    path = place_of(run, name)
    whole = path.read_bytes()
    try:
        for _ in range(TRIALS if every_trial else SAMPLE):
            place, bit = draw.randrange(len(whole)), draw.randrange(8)
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            check(run)
    finally:
        path.write_bytes(whole)


ODD: list[Any] = [
    None, True, -1, 0, 2**64, 10**400, 1e308, -1e308, 5e-324, float("nan"), float("inf"), "", "x" * 5000,
    "\ud800", "\0\x1b[2J<script>alert(1)</script>", [], [[]], {}, {"": None}, "10",
    [None] * 2000, [1e308] * 9,
]  # fmt: skip


def places(document: Any) -> list[tuple[Any, Any]]:
    """Each (container, key) in a document."""
    found: list[tuple[Any, Any]] = []
    keys = (
        document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    )
    for key in keys:
        found += [(document, key), *places(document[key])]
    return found


@pytest.mark.parametrize("name", FILES)
def test_forged_values_anywhere(run: Path, name: str, every_trial: bool) -> None:
    draw = random.Random(f"forge {name}")
    path = place_of(run, name)
    whole = path.read_text()
    lines = whole.splitlines() if name.endswith("l") else [whole]
    try:
        for turn in range(TRIALS if every_trial else SAMPLE):
            forged = list(lines)
            for place in range(FORGED):
                at = draw.randrange(len(lines))
                document = json.loads(forged[at])
                container, key = draw.choice(places(document))
                container[key] = ODD[(turn + 7 * place) % len(ODD)]
                # The library's own way of writing, so that NaN and lone surrogates get in.
                forged[at] = json.dumps(document)
            path.write_text("\n".join(forged) + "\n")
            check(run)
    finally:
        path.write_text(whole)


BODIES: list[tuple[str, bytes]] = [
    ("deep", b"[" * 100_000 + b"]" * 100_000),
    ("deep body", b'{"time":1,"attempt":1,"body":' + b'{"a":' * 5000 + b"1" + b"}" * 5001),
    ("no body", b'{"time":1,"attempt":1}'),
    ("far time", b'{"time":1e300,"attempt":1,"body":{"type":"applied","key":"a","value":1}}'),
    ("time before", b'{"time":-5,"attempt":1,"body":{"type":"applied","key":"a","value":1}}'),
    ("no number", b'{"time":NaN,"attempt":1,"body":{"type":"applied","key":"a","value":1}}'),
    ("surrogate", b'{"time":1,"attempt":1,"body":{"type":"applied","key":"\\ud800","value":1}}'),
    ("not UTF-8", b'{"time":1,"attempt":1,"body":{"type":"applied","key":"\xff","value":1}}'),
    ("text as step", b'{"time":1,"attempt":1,"body":{"type":"best","step":"9","metric":"a","value":1}}'),
    ("long line", b'"' + b"x" * (17 << 20) + b'"'),
]


@pytest.mark.parametrize(("line"), [line for _, line in BODIES], ids=[name for name, _ in BODIES])
def test_a_line_that_is_not_an_event_is_counted_and_nothing_else_is_lost(run: Path, line: bytes) -> None:
    before = check(run)
    whole = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").write_bytes(line + b"\n" + whole)
    html = check(run)
    assert "events.jsonl: 1 line could not be read" in html and "could not be read" not in before
    assert html.count("<polyline") == before.count("<polyline")


def test_a_record_of_events_that_was_cut_leaves_a_finished_run_finished(run: Path) -> None:
    path = run / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    cut = next(place for place, line in enumerate(lines) if '"progress"' in line and '"step":20,' in line)
    path.write_text("".join(lines[: cut + 1]))
    all_steps = json.loads((run / "run.json").read_text())["result"]["steps"]
    html = check(run)
    assert "not finished" not in html
    assert f"events.jsonl ends with step 20: the curves lack {all_steps - 20} steps" in html


def test_a_run_that_was_extended_and_stopped_is_not_finished(run: Path) -> None:
    path = run / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    cut = next(place for place, line in enumerate(lines) if '"progress"' in line and '"step":20,' in line)
    path.write_text("".join(lines[: cut + 1]))
    os.utime(run / "run.json", (1, 1))
    html = check(run)
    assert "not finished" in html and "the curves lack" not in html


def test_a_last_step_that_was_left_out_leaves_no_gap(run: Path) -> None:
    path, record = run / "events.jsonl", run / "run.json"
    last = json.loads(record.read_text())["result"]["steps"]
    lines = [line for line in path.read_text().splitlines() if f'"step":{last},' not in line]
    left_out = {"type": "recovered", "kind": "non_finite", "step": last, "detail": "left out"}
    lines.append(json.dumps({"time": 1.0, "attempt": 2, "body": left_out}))
    path.write_text("\n".join(lines) + "\n")
    html = check(run)
    assert "not finished" not in html and "the curves lack" not in html


def test_a_damaged_value_is_left_out_alone(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["result"]["train_loss"] = {"not": "a number"}
    (run / "run.json").write_text(json.dumps(record))
    html = check(run)
    assert "run.json: 1 value could not be read" in html
    assert "0.52" in html, "the validation loss beside it stands"


@pytest.mark.parametrize("place", ["fifo", "folder", "device"])
def test_special_files_are_not_read(run: Path, place: str) -> None:
    (run / "events.jsonl").unlink()
    if place == "fifo":
        os.mkfifo(run / "events.jsonl")
    elif place == "folder":
        (run / "events.jsonl").mkdir()
    else:
        (run / "events.jsonl").symlink_to("/dev/zero")
    check(run)


def test_a_report_that_cannot_be_made_is_a_warning(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> str:
        raise KeyError("value")

    monkeypatch.setattr("expert_worker.report.write.page", broken)
    events, memory = Events.in_memory()
    refresh(run, events)
    (warning,) = [event.body for event in memory.events if event.body.type == "warning"]
    assert warning.code == "report-not-written" and str(run / "report.html") in warning.message


def test_one_bad_folder_does_not_stop_the_others(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from expert_worker.report import write

    bad = Path(shutil.copytree(run, tmp_path / "bad"))
    real = write.page

    def refusing(read: Any) -> str:
        if read.folder == bad:
            raise RecursionError("too deep")
        return real(read)

    monkeypatch.setattr(write, "page", refusing)
    assert main(["--index", str(tmp_path / "all.html"), str(bad), str(run), str(tmp_path / "nowhere")]) == 0
    html = (tmp_path / "all.html").read_text()
    assert "1 expert, 1 run " in html and str(bad) in html and (run / "report.html").is_file()
    output = capsys.readouterr().err
    assert output.count("warning: left out: ") == 2 and "too deep" in output


def test_an_attempt_number_that_was_damaged_does_not_stop_the_next_attempt(run: Path) -> None:
    line = {"time": 1.0, "attempt": 2**32 - 1, "body": {"type": "applied", "key": "a", "value": 1}}
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    events = Events([], Record(run / "events.jsonl"), task="train")
    events.begin(3)
    events.progress(**progress(4, 9))
    assert check(run)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_long_run_takes_bounded_memory_and_keeps_its_spikes(run: Path) -> None:
    total = 80_000
    started = {
        "type": "started",
        "contract": 1,
        "stage": "train",
        "pid": 1,
        "recipe_digest": "a",
        "resumed_from": 0,
    }
    step = json.dumps({"type": "progress", **progress(1, total), "step": "STEP", "loss": "LOSS"})
    body = step.replace('"STEP"', "%d").replace('"LOSS"', "%d")
    line = '{"time":2.0,"attempt":1,"body":' + body + "}\n"
    with (run / "events.jsonl").open("w") as file:
        file.write(json.dumps({"time": 0.0, "attempt": 1, "body": started}) + "\n")
        file.writelines(line % (step, 99 if step == 33_333 else 1) for step in range(1, total + 1))
    # Not by getrusage, which includes the peak of the process that started this one.
    script = (
        "from pathlib import Path; from expert_worker.report.__main__ import main\n"
        f"main([{str(run)!r}]); print(Path('/proc/self/status').read_text())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert int(peak) < 200_000
    html = (run / "report.html").read_text()
    assert len(html) < 2e6 and "80,000" in html
    (points,) = re.findall(r'c0 faint"[^>]* points="([^"]+)"', html)
    heights = [float(point.split(",")[1]) for point in points.split(" ")]
    assert len(heights) < 2000 and min(heights) < 100 and max(heights) > 900, "the spike is drawn"


def test_many_tags_and_warnings_make_no_endless_page(run: Path) -> None:
    scores = json.loads((run / "evaluation.json").read_text())
    scores["by_tag"] = [{"name": f"tag {n}", "base": None, "adapter": None} for n in range(50_000)]
    (run / "evaluation.json").write_text(json.dumps(scores))
    events = Events([], Record(run / "events.jsonl"), task="train")
    events.begin(36)
    for number in range(1000):
        events.warning("w", f"number {number}")
    html = check(run)
    assert len(html) < 2e6 and "49,500 more in evaluation.json" in html
    (earlier,) = re.findall(r"(\d+) more warnings and recoveries are in events.jsonl", html)
    assert 800 < int(earlier) < 810 and "number 999" in html


def writers() -> list[Callable[[list[Path], Path], Any]]:
    return [lambda runs, page: write_index(page, runs), lambda runs, page: write_report(runs[0])]


@pytest.mark.parametrize("write", writers(), ids=["index", "report"])
def test_a_folder_whose_name_is_not_unicode(run: Path, tmp_path: Path, write: Callable[..., Any]) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff<b>"))
    shutil.copytree(run, odd)
    (odd / "run.json").unlink()
    (odd / "plan.json").unlink()
    write([odd], tmp_path / "all.html")
    assert (odd / "report.html").is_file()
