"""The page over all runs: the best of each expert first, true about gaps, movable with its folder."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from routing.routed_shelf import shelf_file, written_expert
from sample_run import sample_run, share

from expert_worker.errors import BadInput, Storage
from expert_worker.report import write, write_index
from expert_worker.report.__main__ import main
from expert_worker.report.index import Listed, address, by_worth, index
from expert_worker.report.read import read_run
from expert_worker.routing.models import PromptOverlap, RoutedShare, RouterRecord


def scored(folder: Path, correct: int | None) -> Path:
    run = sample_run(folder)
    document = json.loads((run / "evaluation.json").read_text())
    if correct is None:
        (run / "evaluation.json").unlink()
    else:
        document["adapter"] = share(correct, 400)
        (run / "evaluation.json").write_text(json.dumps(document))
    return run


def test_the_best_run_comes_first_and_one_without_a_score_last(tmp_path: Path) -> None:
    runs = [scored(tmp_path / str(place), correct) for place, correct in enumerate((100, None, 300))]
    ordered = by_worth(Listed.of(read_run(run)) for run in runs)
    assert [run.folder for run in ordered] == [runs[2], runs[0], runs[1]]


def test_runs_of_the_newest_scorer_come_before_those_of_another(tmp_path: Path) -> None:
    runs = [scored(tmp_path / str(place), correct) for place, correct in enumerate((390, 100, 300))]
    for run, digest in zip(runs, "122", strict=True):
        document = json.loads((run / "evaluation.json").read_text())
        (run / "evaluation.json").write_text(json.dumps(document | {"scorer_sha256": digest * 64}))
    listed = [Listed.of(read_run(run)) for run in runs]
    newest = [replace(run, scored_at=float(place)) for place, run in enumerate(listed)]
    assert [run.folder for run in by_worth(newest)] == [runs[2], runs[1], runs[0]]
    again = [replace(run, last_time=9.0 - place) for place, run in enumerate(newest)]
    assert [run.folder for run in by_worth(again)] == [runs[2], runs[1], runs[0]], "scored last, not trained"
    scored_at = (runs[0] / "evaluation.json").stat().st_mtime
    assert Listed.of(read_run(runs[0])).scored_at == scored_at > 0
    assert "sql (11111111)" in write_index(tmp_path / "report.html", runs).read_text()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"scorer": "json"}, "another scorer"),
        ({"grammar_sha256": "1" * 64}, "another grammar"),
        ({"evaluation_digest": "1" * 64}, "other settings"),
        ({"test_set": [{"name": "easy.jsonl", "sha256": "1" * 64}]}, "other test rows"),
    ],
)
def test_scores_that_were_made_otherwise_than_the_newest_are_not_compared(
    tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    runs = [scored(tmp_path / str(place), correct) for place, correct in enumerate((390, 100))]
    document = json.loads((runs[0] / "evaluation.json").read_text())
    (runs[0] / "evaluation.json").write_text(json.dumps(document | other))
    listed = [replace(Listed.of(read_run(run)), scored_at=float(at)) for at, run in enumerate(runs)]
    assert [run.difference for run in by_worth(listed)] == ["", said]
    html = index(listed, tmp_path)
    best, others = html.split("Other runs")
    assert "25.0%" in best and "sql, 400 rows" in best and "not compared" not in best
    assert f", 400 rows (not compared: {said})" in others


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"other_rows": "few", "rows": 1}, "1 row"),
        ({"other_rows": "file"}, "other rows"),
        ({"other_rows": "settings"}, "other settings"),
        ({"other_adapter": "checkpoint-50"}, "checkpoint-50"),
        ({"other_rows": "few", "rows": 20, "other_adapter": "checkpoint-50"}, "checkpoint-50, 20 rows"),
    ],
)
def test_scores_of_other_rows_or_another_adapter_are_named_and_not_ranked(
    tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    runs = [scored(tmp_path / str(place), correct) for place, correct in enumerate((400, 100))]
    document = json.loads((runs[0] / "evaluation.json").read_text())
    (runs[0] / "evaluation.json").write_text(json.dumps(document | other))
    html = write_index(tmp_path / "report.html", runs).read_text()
    best, others = html.split("Other runs")
    assert "25.0%" in best and "100.0%" not in best and "+19.8 points" in best
    assert f"sql: {said}" in others
    assert f"Scored: {said}. This is not the run" in (runs[0] / "report.html").read_text()
    assert "This is not the run" not in (runs[1] / "report.html").read_text()


def test_experts_of_one_name_are_separate_and_shown_with_their_folders(tmp_path: Path) -> None:
    places = ("one/weights/a", "two/weights/a", "two/weights/b", "elsewhere")
    made = [
        scored(tmp_path / place, correct) for place, correct in zip(places, (100, 300, 200, 50), strict=True)
    ]
    runs = [run.rename(run.parent.parent / f"{run.parent.name}-run") for run in made]
    html = write_index(tmp_path / "report.html", runs).read_text()
    best, others = html.split("Other runs")
    assert "3 experts, 4 runs" in best and "in one" in best and "in two" in best
    assert "50.0%" in others and "in one" not in others
    html = write_index(tmp_path / "report.html", runs[1:]).read_text()
    assert "1 expert, 3 runs" in html and "in two" not in html


def test_it_lists_score_speed_date_and_links_to_the_reports(tmp_path: Path) -> None:
    runs = [scored(tmp_path / name, correct) for name, correct in (("a", 100), ("b & c", 300))]
    html = write_index(tmp_path / "report.html", runs).read_text()
    best, others = html.split("Other runs")
    for part in ("1 expert, 2 runs", "75.0%", "5.2%", "+69.8 points", "311.2", "2 of 2", "13m14s"):
        assert part in best, part
    assert "25.0%" in others
    assert 'href="b%20%26%20c/out/report.html"' in best and 'href="a/out/report.html"' in others
    assert all((run / "report.html").is_file() for run in runs)


def test_a_run_under_way_is_listed_without_what_it_has_not(tmp_path: Path) -> None:
    run = scored(tmp_path / "a", None)
    (run / "run.json").unlink()
    lines = (run / "events.jsonl").read_text().splitlines()
    (run / "events.jsonl").write_text("\n".join(lines[:40]))
    html = write_index(tmp_path / "report.html", [run]).read_text()
    assert "not finished" in html and "0 of 1" in html and "mean gain" not in html
    assert "<th class=n>tokens/s</th>" not in html, "a column that no run fills is left out"


def test_links_count_from_the_page(tmp_path: Path) -> None:
    page = tmp_path / "runs" / "x" / "report.html"
    assert address(page, tmp_path / "pages") == "../runs/x/report.html"


def test_several_runs_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(sample_run(tmp_path / name)) for name in "ab"]
    assert main(["--index", str(tmp_path / "all.html"), *runs]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "all.html")
    with pytest.raises(SystemExit):
        main(runs)


def test_a_disk_that_takes_no_page_is_a_storage_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path, html: str) -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(write, "_put", read_only)
    with pytest.raises(Storage, match="Read-only file system"):
        write_index(tmp_path / "report.html", [scored(tmp_path / "run", 3)])


def test_a_folder_without_a_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no run"):
        write_index(tmp_path / "report.html", [tmp_path])
    assert not (tmp_path / "report.html").exists()


def routed(name: str, rows: int, right: int) -> RoutedShare:
    return RoutedShare(name=name, rows=rows, right=right)


def test_the_router_is_shown_with_its_accuracy(tmp_path: Path) -> None:
    run = scored(tmp_path / "run", 100)
    record = RouterRecord(
        experts=(routed("expert-<sql>", 400, 394), routed("no-test-rows", 0, 0)),
        none=routed("everyday prompts", 100, 94),
        overlaps=(PromptOverlap(experts=("one", "two"), share=0.75),),
    )
    page = write_index(tmp_path / "report.html", [run], router=record).read_text()
    assert "98.5%" in page
    assert "94.0%" in page
    assert "expert-&lt;sql&gt;" in page
    assert "one and two have 75% of their prompts in common" in page
    assert "no-test-rows" not in page
    assert "<h2>Router</h2>" not in write_index(tmp_path / "report.html", [run]).read_text()


def test_a_router_that_cannot_be_learnt_leaves_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = scored(tmp_path / "run", 100)
    shelf = shelf_file(tmp_path, written_expert(tmp_path, "empty", [{"text": "no prompt"}]))
    page = tmp_path / "report.html"
    assert main(["--index", str(page), "--router", str(shelf), str(run)]) == 0
    assert "empty has no row with a prompt" in capsys.readouterr().err
    assert "<h2>Router</h2>" not in page.read_text()
