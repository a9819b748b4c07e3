"""Where a run's time went, drawn."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from written_runs import event, step, typed, write_run

from expert_worker.bench.timeline import (
    COMPUTE,
    DATA,
    EVALUATE,
    LAUNCH,
    LOAD,
    SAVE,
    TOKENIZE,
    UPDATE,
    build_timeline,
    comparison,
    svg_timelines,
    text_timelines,
)

EVENTS = [
    event(100.0, "started"),
    event(100.0, "stage", name="tokenize"),
    event(103.0, "stage", name="load base"),
    event(105.0, "stage", name="train"),
    step(107.0, 1, seconds=2.0, data_wait=0.5, host_launch=0.4, device_compute=1.2),
    step(109.0, 2, seconds=2.0, data_wait=0.5, host_launch=0.4, device_compute=1.2),
    event(110.0, "evaluated", step=2, metrics={}, seconds=1.0),
    event(110.5, "checkpoint", step=2, path="c", bytes=1, seconds=0.5),
    event(111.0, "finished", result={}),
]


def test_each_lane_gets_its_time():
    found = build_timeline("run", typed(EVENTS), on_cpu=False)
    assert (found.seconds, found.tokens, len(found.steps)) == (11.0, 2000, 2)
    spent = {lane: found.spent(lane) for lane in found.lanes}
    wanted = {
        TOKENIZE: 3.0,
        LOAD: 2.0,
        DATA: 1.0,
        LAUNCH: 0.8,
        COMPUTE: 2.4,
        UPDATE: 0.6,
        EVALUATE: 1.0,
        SAVE: 0.5,
    }
    assert spent == pytest.approx(wanted)
    (first, second) = found.of(COMPUTE)
    assert (first.begin, first.end) == pytest.approx((5.5, 6.7)) and second.begin > first.end


def test_a_record_without_stages_shows_its_steps():
    found = build_timeline("run", typed([step(107.0, 1), step(109.0, 2)]), on_cpu=True)
    assert len(found.steps) == 2 and LOAD not in found.lanes


def test_an_attempt_that_only_finished_the_run_is_not_drawn():
    resumed = {**event(120.0, "started", attempt=3), "attempt": 3}
    resumed["body"]["resumed_from"] = 2
    finished = event(121.0, "finished", attempt=3, result={})
    found = build_timeline("run", typed([*EVENTS, resumed, finished]), on_cpu=True)
    assert len(found.steps) == 2 and found.seconds == 11.0
    assert text_timelines([found]).splitlines()[0].endswith("500 tokens/s, attempt 1 of 3, from step 0")
    assert "attempt 1 of 3, from step 0" in svg_timelines([found])
    further = typed([*EVENTS, resumed, step(122.0, 3, attempt=3)])
    found = build_timeline("run", further, on_cpu=True)
    assert len(found.steps) == 1 and found.attempt == ", attempt 3 of 3, from step 2"


def test_on_a_cpu_launching_is_not_drawn_twice():
    found = build_timeline("run", typed(EVENTS), on_cpu=True)
    assert LAUNCH not in found.lanes and found.spent(COMPUTE) == pytest.approx(2.4)


def test_the_strip_is_dark_where_the_lane_was_busy():
    text = text_timelines([build_timeline("run", typed(EVENTS), on_cpu=True)])
    lines = {line[2:19].strip(): line.split("|")[1] for line in text.splitlines()[1:]}
    assert lines["tokenize"].startswith("█" * 16) and lines["tokenize"].endswith(" " * 40)
    assert lines["evaluate"].strip() and not lines["evaluate"][:40].strip()
    assert "run: 11.0 s, 2 steps, 500 tokens/s" in text


def test_lanes_are_as_wide_as_the_terminal_allows():
    timelines = [build_timeline("run", typed(EVENTS), on_cpu=True)]
    assert max(map(len, text_timelines(timelines, 80).splitlines())) <= 80
    assert text_timelines(timelines, 200) == text_timelines(timelines)


def test_before_and_after_are_compared_by_what_a_token_cost():
    before = build_timeline("before", typed(EVENTS), on_cpu=True)
    parts = {"data_wait": 0.0, "host_launch": 0.6, "device_compute": 0.6, "seconds": 1.0}
    of_step = {True: lambda it: step(it["time"], 1, **parts), False: lambda it: it}
    quick = [of_step[it["body"]["type"] == "progress"](it) for it in EVENTS]
    text = comparison(before, build_timeline("after", typed(quick), on_cpu=True))
    lines = {line[2:19].strip(): line for line in text.splitlines()[1:]}
    assert lines["data wait"].endswith("gone") and lines["compute (device)"].endswith("2.00x")


def test_the_picture_is_an_svg_of_both_runs_on_one_scale():
    long, short = (
        build_timeline("before <1>", typed(EVENTS), on_cpu=True),
        build_timeline("after", typed(EVENTS[:6]), on_cpu=True),
    )
    drawn = svg_timelines([long, short])
    root = ElementTree.fromstring(drawn)
    texts = [it.text for it in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum("enlarged" in text for text in texts) == 2
    assert any(text.startswith("before <1>") for text in texts) and "tokenize" in texts
    rails = [it for it in root.iter("{http://www.w3.org/2000/svg}rect") if it.get("fill")]
    assert all(float(it.get("x")) + float(it.get("width")) <= 861 for it in rails)


def test_the_command_draws_one_and_compares_two(bench, tmp_path):
    one, other = write_run(tmp_path / "one", EVENTS), write_run(tmp_path / "other", EVENTS)
    done = bench("timeline", "--run", one, "--against", other, "--output", "t.svg")
    assert done.returncode == 0, done.stderr
    assert "before: other" in done.stdout and "after: one" in done.stdout and "1.00x" in done.stdout
    assert "launching and computing are the same time" in done.stdout
    assert (tmp_path / "t.svg").read_text().startswith("<svg")
    result = json.loads(bench("timeline", "--run", one, "--json").stdout)
    assert result["runs"][0]["lanes"][TOKENIZE] == 3.0


def test_a_terminal_without_utf_8_shows_other_characters(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = bench("timeline", "--run", write_run(tmp_path / "one", EVENTS))
    assert done.returncode == 0, done.stderr
    assert "tokenize         |????" in done.stdout


def test_a_run_without_steps_is_refused(bench, tmp_path):
    empty = write_run(tmp_path / "empty", EVENTS[:4])
    done = bench("timeline", "--run", empty)
    assert done.returncode == 2 and "no step yet" in done.stderr
