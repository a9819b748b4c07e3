"""What the expert can do: base beside adapter, by level and tag, and what it got wrong."""

from typing import Any

from expert_worker.report.parts import Raw, meter, section, table, text
from expert_worker.report.read import Run

_MOST_TAGS = 60


def headline(run: Run) -> list[tuple[str, str]]:
    found = []
    for who in ("base", "adapter"):
        share = run.scores.get(who)
        if share and "accuracy" in share:
            found.append((f"accuracy, {who}", f"{share['accuracy']:.1%}"))
    return found


def scores(run: Run) -> str:
    if not run.scores:
        return ""
    overall = {"name": "all", "base": run.scores.get("base"), "adapter": run.scores.get("adapter")}
    lines = [overall, *run.scores.get("by_level", []), *run.scores.get("by_tag", [])[:_MOST_TAGS]]
    head = ["", "rows", "base", "", "adapter", ""]
    body = table(head, [_line(line) for line in lines], frozenset({1, 2, 4}))
    return section(f"Scores by {run.scores.get('scorer', 'the scorer')}", body)


def _line(line: dict[str, Any]) -> list[object]:
    base, adapter = line.get("base"), line.get("adapter")
    rows = (adapter or base or {}).get("total", "")
    return [line["name"], rows, *_share(base, 0), *_share(adapter, 1)]


def _share(share: dict[str, Any] | None, place: int) -> list[object]:
    if not share or "accuracy" not in share:
        return ["", ""]
    interval = f" ({share['low']:.0%} to {share['high']:.0%})" if "low" in share else ""
    return [f"{share['accuracy']:.1%}{interval}", meter(share["accuracy"], place)]


def examples(run: Run) -> str:
    shown = run.scores.get("failures") or []
    return section("What it got wrong", "".join(_example(failure) for failure in shown))


def _example(failure: dict[str, Any]) -> str:
    sides = [("Expected", failure.get("expected", ""), "")]
    for who in ("base", "adapter"):
        answer = failure.get(who)
        if answer:
            reason = "correct" if answer.get("correct") else answer.get("reason", "wrong")
            sides.append((f"{who.capitalize()}: {reason}", answer.get("text", ""), who))
    blocks = "".join(f"<div><h3>{text(title)}</h3><pre>{text(body)}</pre></div>" for title, body, _ in sides)
    tags = ", ".join(failure.get("tags", []))
    asked = f"<h3>Prompt{text(' · ' + tags) if tags else ''}</h3><pre>{text(failure.get('prompt', ''))}</pre>"
    return Raw(f'<div class="box example">{asked}<div class="sides">{blocks}</div></div>')
