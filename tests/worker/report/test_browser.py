"""The pages as a reader sees them: opened from disk in a browser, light and dark, wide and narrow."""

import json
from pathlib import Path
from typing import Any

import pytest
from sample_run import sample_run

from expert_worker.bench import ablation
from expert_worker.errors import Failed
from expert_worker.events import Events
from expert_worker.events.sinks import Record
from expert_worker.report import write_index, write_report
from expert_worker.report.write import write_search

from .browser import NEEDS_BROWSER, Browser

WIDTHS, SCHEMES = (1400, 390), ("light", "dark")
pytestmark = NEEDS_BROWSER

# Where a tick stands and what it says, and where the points of a line are: all in pixels of the screen.
READ_CHART = """(title => {
  const figures = [...document.querySelectorAll('figure')];
  const figure = figures.find(f => f.querySelector('b')?.textContent === title);
  const middle = box => [box.x + box.width / 2, box.y + box.height / 2];
  const place = e => middle(e.getBoundingClientRect());
  const ticks = kind => [...figure.querySelectorAll('.plot .' + kind)].map(e => [e.textContent, place(e)]);
  const points = e => {
    const matrix = e.getScreenCTM();
    const moves = () => e.getAttribute('d').match(/M[^h]+/g).map(p => p.slice(1).split(' ').map(Number));
    const list = e.points ? [...e.points] : moves().map(([x, y]) => ({x, y}));
    return list.map(p => new DOMPoint(p.x, p.y).matrixTransform(matrix)).map(p => [p.x, p.y]);
  };
  const lines = [...figure.querySelectorAll('[data-name]')].map(e => [e.dataset.name, points(e)]);
  return {unit: figure.querySelector('.unit').textContent, up: ticks('up'), along: ticks('along'),
          lines: Object.fromEntries(lines)};
})"""
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  const inner = e.closest('.strips') || e.parentElement.closest('.box, pre');
  return !inner && box.width && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = sample_run(tmp_path_factory.mktemp("run"))
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("shelf")
    runs = [sample_run(home / name, total) for name, total in (("one", 120), ("two words", 60))]
    (runs[1] / "run.json").unlink()
    (runs[1] / "evaluation.json").unlink()
    return write_index(home / "report.html", runs)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_both_pages_open_from_disk_alone_and_fit(
    browser: Browser, run: Path, shelf: Path, width: int, scheme: str
) -> None:
    for page in (run / "report.html", shelf):
        browser.look(page, width=width, scheme=scheme)
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
        assert browser.ask(OVERFLOWING) == []
        brightness = browser.ask(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
        )
        assert (brightness > 128) == (scheme == "light")
        assert browser.ask("document.images.length + document.scripts.length") == 0
        assert browser.complaints() == []
        assert browser.requests() == [page.as_uri()]


LOG = """[...document.querySelectorAll('.log tr')].map(row => [...row.cells].map(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
  return [cell.innerText, lines.size, cell.getBoundingClientRect().width];
}))"""


@pytest.mark.parametrize("width", [420, 1000, 1400])
def test_what_happened_keeps_its_words_whole(browser: Browser, tmp_path: Path, width: int) -> None:
    run = sample_run(tmp_path)
    events = Events([], Record(run / "events.jsonl"), task="train")
    events.begin(120)
    long = (
        "The template `chatml` is used, for the tokenizer has none. " * 6
        + "/a/path/"
        + "without-a-space" * 12
    )
    events.warning("template", long, "Set prompt_template in the manifest.")
    events.failed(Failed("The loss is not a number any more. " * 9, hint="Lower the learning rate. " * 4))
    events.close()
    browser.look(write_report(run), width=width, scheme="light")
    rows = browser.ask(LOG)
    words = [row[1][0] for row in rows]
    assert {"warning", "failed", "checkpoint", "out of memory", "chosen"} <= set(words)
    assert all(lines <= 1 for row in rows for _, lines, _ in row[:2]), "times and kinds are one line each"
    assert all(wide >= width * 0.6 for row in rows for _, _, wide in row[2:]), "the message has the room"
    (message,) = [row[2][0] for row in rows if "Set prompt_template" in row[2][0]]
    assert "\nSet prompt_template in the manifest." in message, "the hint has its own line"
    assert browser.ask(OVERFLOWING) == [] and browser.ask(
        "document.documentElement.scrollWidth <= innerWidth"
    )


# What a reader of the page does not see: that which needs scrolling, and what is folded.
HIDDEN = """[
  ...[...document.querySelectorAll('.box, pre')].filter(
    e => getComputedStyle(e).overflowY !== 'visible' && e.scrollHeight > e.clientHeight + 1),
  ...[...document.querySelectorAll('details > :not(summary)')].filter(
    e => !e.checkVisibility({contentVisibilityAuto: true}) || !e.getBoundingClientRect().height),
].map(e => e.outerHTML.slice(0, 80))"""


def test_paper_shows_all_of_a_long_example_and_what_is_folded(browser: Browser, tmp_path: Path) -> None:
    run = sample_run(tmp_path)
    document = json.loads((run / "evaluation.json").read_text())
    document["failures"][0]["prompt"] = "A line of the prompt.\n" * 80
    (run / "evaluation.json").write_text(json.dumps(document))
    page = write_report(run)
    browser.look(page, width=794, scheme="light")
    assert len(browser.ask(HIDDEN)) > 2, "on a screen the prompt scrolls, and details are folded"
    browser.look(page, width=794, scheme="light", media="print")
    assert browser.ask(HIDDEN) == []


def bodies(run: Path, kind: str) -> list[dict[str, Any]]:
    """The last word on every step, as the run's own record has it."""
    bodies = [json.loads(line)["body"] for line in (run / "events.jsonl").read_text().splitlines()]
    found: dict[int, dict[str, Any]] = {body["step"]: body for body in bodies if body["type"] == kind}
    return [found[step] for step in sorted(found)]


def scale(ticks: list[Any], side: int) -> Any:
    """From pixels to the numbers on an axis, by what its first and last tick say."""
    (first, low), (last, high) = ticks[0], ticks[-1]
    a, b = (float(text.replace(",", "")) for text in (first, last))
    return lambda pixel: a + (pixel - low[side]) / (high[side] - low[side]) * (b - a)


@pytest.mark.parametrize(
    ("title", "line", "key", "unit"),
    [
        ("Loss", "training", "loss", 1.0),
        ("Learning rate", "learning rate", "lr", 1e-4),
        ("Throughput", "tokens/s", "tokens_per_second", 1.0),
        ("Memory", "allocated", "memory_allocated", 2.0**30),
        ("Gradient", "norm", "grad_norm", 1.0),
        ("Tokens", "learnt from", "supervised_tokens", 1.0),
    ],
)
@pytest.mark.parametrize("width", WIDTHS)
def test_curves_show_the_numbers_of_the_events(
    browser: Browser, run: Path, title: str, line: str, key: str, unit: float, width: int
) -> None:
    browser.look(run / "report.html", width=width, scheme="light")
    chart = browser.ask(f"{READ_CHART}({json.dumps(title)})")
    across, up = scale(chart["along"], 0), scale(chart["up"], 1)
    lines = {name.replace("resident", "allocated"): points for name, points in chart["lines"].items()}
    shown = [(across(x), up(y)) for x, y in lines[line]]
    events = bodies(run, "progress")
    assert len(shown) == len(events) == 120
    # A pixel of either axis, and what a label's rounding hides.
    off = abs(up(1.0) - up(0.0)) * 1.5
    for (step, value), event in zip(shown, events, strict=True):
        assert step == pytest.approx(event["step"], abs=abs(across(1.0) - across(0.0)) * 1.5)
        assert value == pytest.approx(event[key] / unit, abs=off)
    assert unit != 1e-4 or "×10⁻⁴" in chart["unit"]


def test_validation_is_drawn_where_it_was_measured(browser: Browser, run: Path) -> None:
    browser.look(run / "report.html", width=1400, scheme="dark")
    chart = browser.ask(f'{READ_CHART}("Loss")')
    across, up = scale(chart["along"], 0), scale(chart["up"], 1)
    shown = [(round(across(x)), up(y)) for x, y in chart["lines"]["validation"]]
    measured = [(event["step"], event["metrics"]["eval_loss"]) for event in bodies(run, "evaluated")]
    assert shown == [(step, pytest.approx(loss, abs=abs(up(1.0) - up(0.0)) * 1.5)) for step, loss in measured]


@pytest.mark.parametrize("width", WIDTHS)
def test_pointing_at_a_step_shows_its_numbers(browser: Browser, run: Path, width: int) -> None:
    browser.look(run / "report.html", width=width, scheme="light")
    box = browser.ask(
        "(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
        "return [b.x + b.width / 2, b.y + b.height / 2] })(document.querySelector('.strips').children[39])"
    )
    browser.point_at(*box)
    said = browser.ask(
        "[...document.querySelectorAll('.strips b')].filter(b => b.offsetParent).map(b => b.innerText).join()"
    )
    event = next(event for event in bodies(run, "progress") if event["step"] == 40)
    assert said.startswith("step 40\n") and f"training {event['loss']:.4g}" in said


def test_bars_count_the_documents(browser: Browser, run: Path) -> None:
    browser.look(run / "report.html", width=1400, scheme="light")
    title = json.dumps("Document lengths, train")
    chart = browser.ask(f"{READ_CHART}({title})")
    bars = "[...document.querySelectorAll('rect.bar')].map(e => e.getBoundingClientRect())"
    up = scale(chart["up"], 1)
    counted = [up(top) - up(bottom) for top, bottom in browser.ask(f"{bars}.map(b => [b.y, b.bottom])")]
    assert counted == pytest.approx([120, 900, 1400, 980, 590], abs=25)


def test_bars_of_an_ablation_are_level_with_their_names(browser: Browser, tmp_path: Path) -> None:
    measured = {"tokens_per_second": 1622.0, "peak_bytes": 914_000_000, "ready_seconds": 16.7}
    variant = {"name": "packing off", "measured": measured, "of_planned": 1.0, "losses": "not_comparable"}
    found = {
        "expert": "expert-x",
        "base": "b",
        "device": {"name": "CPU"},
        "dtype": "bf16",
        "rows_per_step": 2,
        "max_seq_length": 64,
        "steps": 4,
        "planned": measured,
        "planned_again": measured,
        "variants": [variant],
    }
    (tmp_path / "ablation.json").write_text(json.dumps(found))
    (tmp_path / "a.html").write_text(ablation.page(ablation.read(tmp_path / "ablation.json")))
    middles = (
        "[...document.querySelectorAll('.bars tr')].map(row => ["
        "(r => { r.selectNodeContents(row.cells[0]); return r.getBoundingClientRect(); })"
        "(document.createRange()), row.querySelector('.bar').getBoundingClientRect()]"
        ".map(b => b.y + b.height / 2))"
    )
    for width in (420, 1000, 1400):
        browser.look(tmp_path / "a.html", width=width, scheme="light")
        rows = browser.ask(middles)
        assert len(rows) == 4 and all(name == pytest.approx(bar, abs=2) for name, bar in rows)
        assert browser.ask(OVERFLOWING) == []
    words = browser.ask("document.body.innerText")
    for part in ("other rows", "1.62k", "872 MiB", "16s"):
        assert part in words, part


def test_the_index_leads_to_every_report(browser: Browser, shelf: Path) -> None:
    browser.look(shelf, width=1400, scheme="light")
    links = browser.ask("[...document.links].map(a => a.href)")
    pages = [shelf.parent / "one/out/report.html", shelf.parent / "two words/out/report.html"]
    assert sorted(links) == sorted(page.as_uri() for page in pages)
    assert all(page.is_file() for page in pages)
    for page in pages:
        browser.look(page, width=1400, scheme="light")
        assert browser.ask("document.querySelector('h1').firstChild.textContent") == "expert-sql"


# The short words that a line break goes through. Longer ones, such as paths and digests, may be broken.
BROKEN_WORDS = """(() => {
  const broken = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest('.strips, pre, svg')) continue;
    for (const found of node.data.matchAll(/[\\w.,%+-]{2,20}/g)) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      const whole = /(^|\\s)$/.test(node.data.slice(0, found.index)) &&
        /^(\\s|$)/.test(node.data.slice(found.index + found[0].length));
      if (tops.size > 1 && whole && !found[0].includes('-')) broken.push(found[0]);
    }
  }
  return broken;
})()"""
# Texts of neighbouring cells and labels of one axis, and texts that go over the edge of their card.
OVERLAPPING = """(() => {
  const bad = [];
  const inside = e => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return range.getBoundingClientRect();
  };
  const cross = (a, b) => a.width && b.width && a.right > b.left + 1 && b.right > a.left + 1
    && a.bottom > b.top + 1 && b.bottom > a.top + 1;
  const groups = [...document.querySelectorAll('tr')].map(row => [...row.cells]).concat(
    [...document.querySelectorAll('.plot')].flatMap(
      plot => ['.up', '.along'].map(k => [...plot.querySelectorAll(k)])),
    [[...document.querySelectorAll('.tile')]]);
  for (const group of groups) for (let i = 0; i + 1 < group.length; i++) {
    if (cross(inside(group[i]), inside(group[i + 1]))) {
      bad.push(['overlap', group[i].innerText, group[i + 1].innerText]);
    }
  }
  for (const box of document.querySelectorAll('.box, .tile, figure')) {
    const edge = box.getBoundingClientRect();
    for (const e of box.querySelectorAll('td, th, span:not(.strips *), b:not(.strips *), small, time')) {
      const text = inside(e);
      if (e.checkVisibility() && text.width && text.right > edge.right - 3) {
        bad.push(['edge', e.innerText, text.right - edge.right]);
      }
    }
  }
  return bad;
})()"""


@pytest.fixture(scope="module")
def wide_shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names as long as people choose them, every column filled, and a run that failed."""
    home = tmp_path_factory.mktemp("wide")
    runs = []
    for name in ("appointments-of-the-week", "customer-support-classification"):
        run = sample_run(home / name)
        for file in ("run.json", "plan.json"):
            document = json.loads((run / file).read_text())
            document["recipe"]["expert"] = name
            document["recipe"]["base"]["name"] = "Organisation/Some-Long-Base-3.5-Instruct"
            (run / file).write_text(json.dumps(document))
        runs.append(run)
    return write_index(home / "report.html", runs)


@pytest.mark.parametrize("width", [420, 1000, 1400])
def test_tables_are_readable_at_any_width(browser: Browser, run: Path, wide_shelf: Path, width: int) -> None:
    for page in (
        run / "report.html",
        wide_shelf,
        wide_shelf.parent / "appointments-of-the-week/out/report.html",
    ):
        browser.look(page, width=width, scheme="light")
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
        assert browser.ask(BROKEN_WORDS) == []
        assert browser.ask(OVERLAPPING) == []


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A report, an index and a search's page with names of 200 characters, and every column filled."""
    home = tmp_path_factory.mktemp("long")
    run, name = sample_run(home / "run"), "n" * 200
    document = json.loads((run / "evaluation.json").read_text())
    document["scorer"] = name
    further = {"rows": 400, "base": document["base"], "adapter": document["adapter"]}
    document["test_sets"] = {"people": further, name: further}
    document["by_tag"][0]["name"] = document["by_level"][0]["name"] = name
    document["failures"][0] |= {"tags": [name, "join"]}
    document["failures"][0]["adapter"] |= {"reason": name}
    (run / "evaluation.json").write_text(json.dumps(document))
    index = write_index(home / "report.html", [run])
    settings = [{"name": key, "value": value} for key, value in (("lr", 5e-4), ("rank", 16), ("alpha", 32))]
    score = {"share": {"accuracy": 0.3, "low": 0.2, "high": 0.4, "total": 50}, "validation_loss": 1.25}
    trial = {"settings": settings, "scores": [{"rung": rung, **score} for rung in range(3)]}
    other = {**trial, "settings": [{**one, "value": one["value"] * 2} for one in settings]}
    search = {"expert": "expert-sql", "base": name, "trials": [{**trial, "settings": []}, trial, other]}
    (home / "search").mkdir()
    (home / "search" / "search.json").write_text(json.dumps(search))
    return [run / "report.html", index, write_search(home / "search")]


SCROLLING = """[...document.querySelectorAll('.box')].filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => [e.innerText.slice(0, 60), e.scrollWidth, e.clientWidth])"""


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_scrolls_sideways_for_a_long_name(
    browser: Browser, long_names: list[Path], width: int
) -> None:
    for page in long_names:
        browser.look(page, width=width, scheme="light")
        assert browser.ask("[document.documentElement.scrollWidth <= innerWidth, innerWidth]") == [
            True,
            width,
        ]
        assert browser.ask(SCROLLING) == [] == browser.ask(OVERFLOWING)
        assert browser.ask(BROKEN_WORDS) == [] == browser.ask(OVERLAPPING)
