"""The page of a search: its winner, trials and curves, and what a damaged record leaves of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from expert_worker.errors import BadInput
from expert_worker.report.__main__ import main
from expert_worker.report.write import write_search


def trial(rate: float | None, *right: float | None) -> dict[str, Any]:
    settings = [] if rate is None else [{"name": "<i>lr", "key": "learning_rate", "value": rate}]
    scores = [
        {
            "rung": rung,
            "share": None
            if share is None
            else {"accuracy": share, "low": share / 2, "high": share, "total": 50},
            "failure": "out of <memory>" if share is None else None,
        }
        for rung, share in enumerate(right)
    ]
    return {"settings": settings, "scores": scores}


RECORD = {
    "expert": "sql & more",
    "base": "tiny",
    "seed": 3,
    "seconds": 125.0,
    "space": [{"name": "<i>lr", "values": "1e-4..0.005"}],
    "trials": [trial(None, 0.1, 0.2, 0.3), trial(2e-4, 0.15), trial(1e-3, 0.3, 0.4, 0.5), trial(4e-3, None)],
    "winner": 2,
    "winner_rung": 2,
    "comparison": {"difference": 0.2, "low": -0.02, "high": 0.42, "better": 12, "worse": 2},
}


def page(folder: Path, **changes: Any) -> str:
    (folder / "search.json").write_text(json.dumps({**RECORD, **changes}))
    return write_search(folder).read_text()


def test_the_winner_is_compared_with_the_own_recipe(tmp_path: Path) -> None:
    html = page(tmp_path)
    for part in (
        "Search for sql &amp; more",
        "Trial 2",
        "<b>50.0% (95%: 25% to 50%)</b> of validation rows right",
        "+20.0 points (95%: -2.0 to +42.0): within noise",
        "out of &lt;memory&gt;",
        "&lt;i&gt;lr, logarithmic",
        "own recipe",
        "1/9 of the steps",
    ):
        assert part in html, part
    assert "<i>lr" not in html and "<memory>" not in html
    sure = page(tmp_path, comparison={"difference": 0.2, "low": 0.02, "high": 0.38})
    assert "+2.0 to +38.0" in sure and "within noise" not in sure


def charts(html: str) -> list[tuple[list[str], list[str]]]:
    """Of each chart the labels of its lower axis and what pointing at its points shows."""
    return [
        (
            re.findall('class="along" style="[^"]*">([^<]*)<', figure),
            [said.replace("<br>", ": ") for said in re.findall('%"><b>(.*?)</b></i>', figure)],
        )
        for figure in re.findall("<figure>.*?</figure>", html, re.DOTALL)
    ]


@pytest.mark.parametrize(
    ("name", "values", "labels"),
    [
        ("lr", [2e-4, 5e-4, 8e-4], ["0.0002", "0.0005", "0.0008"]),
        ("lr", [5e-4, 1e-3, 2e-3], ["0.0005", "0.001", "0.002"]),
        ("dropout", [0, 0.05, 0.1], ["0", "0.05", "0.1"]),
        ("steps", [50, 1_000_000], ["50", "1000000"]),
    ],
)
def test_a_chart_of_a_setting_says_the_values_that_were_tried(
    tmp_path: Path, name: str, values: list[float], labels: list[str]
) -> None:
    trials = [trial(None, 0.1), *(trial(value, 0.076) for value in values)]
    for one in trials[1:]:
        one["settings"][0]["name"] = name
    lengths, setting = charts(page(tmp_path, winner=None, trials=trials))
    assert setting == (labels, [f"{name} {label}: right answers 7.6%" for label in labels])
    assert lengths[0] == ["11", "33", "100"] and lengths[1][0].startswith(
        "11% of the steps: own recipe 10.0%"
    )


def test_many_values_have_as_many_labels_as_there_is_room_for(tmp_path: Path) -> None:
    trials = [trial(round(1e-4 * 1.05**place, 7), 0.1) for place in range(80)]
    ((_, _), (labels, said)) = charts(page(tmp_path, winner=None, trials=trials))
    assert len(said) == 80 and 3 <= len(labels) <= 6 and labels[0] == "0.0001"


@pytest.mark.parametrize(
    "values", [[5e-324, 1e-320], [0, 5e-324], [-3, 1e300, 10**400], [1, 1 + 1e-15], [1e15, -7]]
)
def test_values_of_any_size_have_a_page(tmp_path: Path, values: list[float]) -> None:
    assert "nan" not in page(tmp_path, winner=None, trials=[trial(value, 0.1) for value in values])


def test_the_loss_orders_trials_that_are_equally_often_right(tmp_path: Path) -> None:
    trials = [trial(None, 0.3), trial(1e-3, 0.3), trial(2e-3, 0.3)]
    for one, loss in zip(trials, (1.5, None, 1.25), strict=True):
        one["scores"][0]["validation_loss"] = loss
    html = page(tmp_path, winner=2, winner_rung=0, comparison=None, trials=trials)
    rows = html[html.rindex("<table") :]
    assert rows.index("trial 2") < rows.index("own recipe") < rows.index("trial 1")
    assert "1.2500" in rows and "1.5000" in rows


def test_an_unfinished_search_has_a_page_too(tmp_path: Path) -> None:
    html = page(
        tmp_path, winner=None, winner_rung=None, comparison=None, trials=[trial(None, 0.1), trial(1e-3)]
    )
    assert "has not ended yet" in html and "Trial 2" not in html
    assert "has not ended yet" in page(tmp_path, winner=99)


def test_a_folder_without_a_search_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="holds no search"):
        write_search(tmp_path)
    (tmp_path / "search.json").write_text("[1")
    assert main(["--search", str(tmp_path)]) == 2
    assert "holds no search" in capfd.readouterr().err
