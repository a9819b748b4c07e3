"""What the expert can do: base beside adapter, by level and tag, and what it got right and wrong."""

from collections.abc import Sequence

from expert_worker.recorded import Answer, Example, ScoreLine, Share
from expert_worker.report import shares
from expert_worker.report.difference import marked
from expert_worker.report.numbers import whole
from expert_worker.report.parts import Raw, fold, section, table, text
from expert_worker.report.read import Run
from expert_worker.report.verdict import KEY

_OPEN_TAGS = 16
_MOST_TAGS = 500
_MOST_EXAMPLES = 40


def scores(run: Run) -> str:
    if run.scores is None:
        return ""
    tags = run.scores.by_tag
    levels = sorted(run.scores.by_level[:_MOST_TAGS], key=lambda line: line.name or "")
    body = _table("level", levels) + _table("tag", tags[:_OPEN_TAGS])
    rarer = tags[_OPEN_TAGS:_MOST_TAGS]
    if rarer:
        left = len(tags) - len(rarer) - _OPEN_TAGS
        more = f", {whole(left)} more in evaluation.json" if left > 0 else ""
        rest = Raw(_table("tag", rarer))
        body += f'<div class="box rest">{fold(f"{whole(len(rarer))} rarer tags{more}", rest)}</div>'
    return section("Scores by level and tag", body and KEY + body)


def _table(name: str, lines: Sequence[ScoreLine]) -> str:
    head = [name, "base and adapter, 0 to 100%", "base", "adapter", "rows"]
    return table(head, [_line(line) for line in lines], frozenset({2, 3, 4}), "scores")


def _line(line: ScoreLine) -> list[object]:
    total = (line.adapter or line.base or Share()).total
    return [
        line.name or "",
        shares.picture(line.base, line.adapter),
        shares.number(line.base),
        Raw(f"<b>{shares.number(line.adapter)}</b>"),
        "" if total is None else whole(total),
    ]


def examples(run: Run) -> str:
    if run.scores is None:
        return ""
    won = "".join(_example(one) for one in run.scores.gains[:_MOST_EXAMPLES])
    wrong = "".join(_example(one) for one in run.scores.failures[:_MOST_EXAMPLES])
    learnt = section("What it learnt: right where the base is wrong", won)
    return learnt + section("What it got wrong", wrong)


def _example(one: Example) -> Raw:
    expected = one.expected or ""
    blocks = [f"<div><h3>expected</h3><pre>{text(expected)}</pre></div>"]
    for who, answer in (("base", one.base), ("adapter", one.adapter)):
        if answer is not None:
            blocks.append(_answer(who, answer, expected))
    tags = "".join(f"<span>{text(tag)}</span>" for tag in one.tags[:_MOST_TAGS])
    asked = f'<h3>prompt <span class="tags">{tags}</span></h3><pre>{text(one.prompt or "")}</pre>'
    return Raw(f'<div class="box example">{asked}<div class="sides">{"".join(blocks)}</div></div>')


def _answer(who: str, answer: Answer, expected: str) -> str:
    said = "right" if answer.correct else answer.reason if answer.reason is not None else "wrong"
    mark = '<span class="good">✓</span>' if answer.correct else '<span class="bad">✗</span>'
    answered = answer.text or ""
    shown = text(answered) if answer.correct else marked(answered, expected)
    return f"<div><h3>{mark} {who}: {text(said)}</h3><pre>{shown}</pre></div>"
