"""What the expert can do: base beside adapter, by level and tag, and what it got right and wrong."""

from typing import Any

from expert_worker.report import shares
from expert_worker.report.difference import marked
from expert_worker.report.parts import Raw, fold, section, table, text
from expert_worker.report.read import Run
from expert_worker.report.verdict import KEY

_OPEN_TAGS = 16


def scores(run: Run) -> str:
    if not run.scores:
        return ""
    tags = run.scores.get("by_tag") or []
    levels = sorted(run.scores.get("by_level") or [], key=lambda line: str(line["name"]))
    body = _table("level", levels) + _table("tag", tags[:_OPEN_TAGS])
    if tags[_OPEN_TAGS:]:
        rest = Raw(_table("tag", tags[_OPEN_TAGS:]))
        body += f'<div class="box rest">{fold(f"{len(tags) - _OPEN_TAGS} rarer tags", rest)}</div>'
    return section("Scores by level and tag", body and KEY + body)


def _table(name: str, lines: list[dict[str, Any]]) -> str:
    head = [name, "base and adapter, 0 to 100%", "base", "adapter", "rows"]
    return table(head, [_line(line) for line in lines], frozenset({2, 3, 4}), "scores")


def _line(line: dict[str, Any]) -> list[object]:
    base, adapter = line.get("base"), line.get("adapter")
    rows = (adapter or base or {}).get("total", "")
    return [
        line["name"],
        shares.picture(base, adapter),
        shares.number(base),
        Raw(f"<b>{shares.number(adapter)}</b>"),
        rows,
    ]


def examples(run: Run) -> str:
    won = "".join(_example(one) for one in run.scores.get("gains") or [])
    wrong = "".join(_example(one) for one in run.scores.get("failures") or [])
    learnt = section("What it learnt: right where the base is wrong", won)
    return learnt + section("What it got wrong", wrong)


def _example(one: dict[str, Any]) -> Raw:
    expected = str(one.get("expected", ""))
    blocks = [f"<div><h3>expected</h3><pre>{text(expected)}</pre></div>"]
    for who in ("base", "adapter"):
        answer = one.get(who)
        if answer:
            blocks.append(_answer(who, answer, expected))
    tags = "".join(f"<span>{text(tag)}</span>" for tag in one.get("tags", []))
    asked = f'<h3>prompt <span class="tags">{tags}</span></h3><pre>{text(one.get("prompt", ""))}</pre>'
    return Raw(f'<div class="box example">{asked}<div class="sides">{"".join(blocks)}</div></div>')


def _answer(who: str, answer: dict[str, Any], expected: str) -> str:
    right = bool(answer.get("correct"))
    said = "right" if right else str(answer.get("reason", "wrong"))
    mark = '<span class="good">✓</span>' if right else '<span class="bad">✗</span>'
    words = str(answer.get("text", ""))
    shown = text(words) if right else marked(words, expected)
    return f"<div><h3>{mark} {who}: {text(said)}</h3><pre>{shown}</pre></div>"
