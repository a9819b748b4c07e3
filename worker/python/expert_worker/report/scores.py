"""What the expert can do: base beside adapter, by level and tag, and what it got right and wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape
from typing import NamedTuple

from expert_worker.events.models import ACCURACY
from expert_worker.recorded import (
    AgainstScores,
    Answer,
    EvaluationResult,
    Example,
    PairedComparison,
    PassAt,
    SampledLine,
    Score,
    ScoreLine,
    Share,
    TestScores,
)
from expert_worker.report.charts import SIDE, svg
from expert_worker.report.html import Raw, fold, pre, quoted, section, table, text
from expert_worker.report.numbers import percent, whole
from expert_worker.report.read import Run
from expert_worker.run_scores import ANSWERS

LEGEND = (
    '<ul class="legend"><li><i class="ring"></i>base</li><li><i class="disc"></i>adapter</li>'
    "<li>bars: 95% intervals</li></ul>"
)
_OPEN_TAGS = 16
_MOST_TAGS = 500
_MOST_EXAMPLES = 40
# More are in evaluation.json.
_MOST_SETS = 8
# Of those that are only named.
_MOST_NAMES = 50
_MOST_SIZES = 16
AnyShare = Share | Score | PassAt
AnyScores = EvaluationResult | TestScores
_HEIGHTS = {"base": 300, "adapter": 700, "compared": 900}
_HUES = {"base": 1, "adapter": 0, "compared": 2}
_SCALE = f'<path class="grid" d="{"".join(f"M{at * SIDE / 4:.0f} 0V{SIDE:.0f}" for at in range(5))}"/>'
# Below this, an answer is another text altogether, and marking all of it would say nothing.
_ALIKE = 0.5
# The comparison takes the product of both lengths.
_MOST_PAIRS = 400_000


def sets_of(run: Run) -> list[tuple[str, AnyScores]]:
    """Every test set that was scored, by name; the main one has none."""
    if run.scores is None:
        return []
    return [("", run.scores), *sorted(run.scores.test_sets.items())[:_MOST_SETS]]


def verdict(run: Run) -> str:
    scorer = run.scores.scorer if run.scores else None
    other = scores_of(run.scores)
    note = f"<p class='warn'>Scored: {escape(other)}. This is not the run's score.</p>" if other else ""
    boxes = "".join(_verdict(name, found, escape(scorer or "unnamed")) for name, found in sets_of(run))
    return note + boxes + _sets_left_out(run)


def _sets_left_out(run: Run) -> str:
    left = sorted(run.scores.test_sets)[_MOST_SETS:] if run.scores else []
    if not left:
        return ""
    names = ", ".join(left[:_MOST_NAMES]) + (", \u2026" if len(left) > _MOST_NAMES else "")
    more = "1 more test set is" if len(left) == 1 else f"{whole(len(left))} more test sets are"
    return f"<p><small>{more} in evaluation.json: {escape(names)}</small></p>"


def _verdict(name: str, found: AnyScores, scorer: str) -> str:
    base, adapter = found.base, found.adapter
    best = adapter or base
    if best is None or best.accuracy is None:
        return ""
    who = "the adapter" if adapter else "the base alone"
    rows = found.rows if found.rows is not None else best.total or 0
    what = f"rows of the further test set {escape(name)}" if name else "test rows"
    if found.measure in (None, ACCURACY):
        judged = f"of {whole(rows)} {what} right by {who}, judged by the {scorer} scorer"
    else:
        measure = escape(found.measure)
        judged = f"{measure} of {who} on {whole(rows)} {what}, judged by the {scorer} scorer"
    lines = [f"<p><b>{accuracy(best)}</b> {judged}</p>"]
    if adapter and base and base.accuracy is not None:
        lines.append(f"<p>{_comparison(base, adapter, found.comparison)}</p>")
    against = found.against
    third = against.score if against else None
    if against and third:
        lines.append(f"<p>{_third(against, adapter)}</p>")
    # The prompt of a further test set is that of the main one.
    if not name:
        lines += [_prompt_of("The base", base), _prompt_of(_against_name(found), third)]
    sides = (("the base", base), ("the adapter", adapter), (_against_name(found), third))
    for who, score in sides:
        if score:
            lines += [_unscored(who, score), _unparsed(who, score)]
    scale = "".join(f'<span style="left:{share}%">{share}%</span>' for share in (0, 25, 50, 75, 100))
    plot = f'<div class="wide">{interval_picture(base, adapter, third)}<div class="scale">{scale}</div></div>'
    return f'<div class="box verdict"><div>{"".join(lines)}</div><div>{plot}{_legend(found)}</div></div>'


def _against_name(found: AnyScores) -> str:
    """What the third column is called."""
    return (found.against.name if found.against else None) or "the compared model"


def _legend(found: AnyScores) -> str:
    if found.against is None:
        return LEGEND
    return LEGEND.replace(
        "<li>bars", f'<li><i class="disc third"></i>{escape(_against_name(found))}</li><li>bars', 1
    )


def _third(against: AgainstScores, adapter: Score | None) -> str:
    name, score = escape(against.name or "the compared model"), against.score or Score()
    summary = f"{name}: {describe(score)}. "
    points, paired = gain(score, adapter), against.comparison
    if points is None or paired is None or paired.low is None or paired.high is None:
        return summary
    change = f"The adapter less {name}: {points:+.1f} points"
    return summary + _row_by_row(change, points, paired.low, paired.high, paired)


class ComparedBy(NamedTuple):
    """Scores are compared only where all of this is the same."""

    scorer: tuple[str | None, str | None] = (None, None)
    grammar: str | None = None
    settings: str | None = None
    test_set: tuple[str, ...] = ()

    def difference(self, other: ComparedBy) -> str:
        """The first part that differs."""
        named = ("another scorer", "another grammar", "other settings", "other test rows")
        parts = zip(named, self, other, strict=True)
        return next((name for name, mine, its in parts if mine != its), "")


def compared_by(scores: EvaluationResult | None) -> ComparedBy:
    if scores is None:
        return ComparedBy()
    return ComparedBy(
        (scores.scorer, scores.scorer_sha256),
        scores.grammar_sha256,
        scores.evaluation_digest,
        tuple(sorted(file.sha256 or "" for file in scores.test_set)),
    )


def scored_by(scores: EvaluationResult | None) -> str:
    """The scorer with the first digits of its file's digest."""
    if scores is None or not scores.scorer:
        return ""
    return f"{scores.scorer} ({scores.scorer_sha256[:8]})" if scores.scorer_sha256 else scores.scorer


def scores_of(scores: EvaluationResult | None) -> str:
    """The adapter and the rows, where they are not those of the run: `checkpoint-50, 1 row`."""
    if scores is None:
        return ""
    few = f"{whole(scores.rows or 0)} row{'' if scores.rows == 1 else 's'}"
    named = {None: None, "few": few, "settings": "other settings"}
    rows = named.get(scores.other_rows, "other rows")
    return ", ".join(filter(None, (scores.other_adapter, rows)))


def _prompt_of(who: str, base: Score | None) -> str:
    """A model is scored with the prompt that suits it better, which a reader must know to compare."""
    choice = base.prompt if base else None
    if choice is None:
        return ""
    if not choice.tried:
        why = "there were no rows to choose by"
        return f"<p><small>{escape(who)} is scored without examples in its prompt: {why}.</small></p>"
    if len(choice.tried) < 2:
        return ""
    tried = sorted(choice.tried.items(), key=lambda one: int(one[0]) if one[0].isdigit() else 0)
    rows = max((share.total or 0 for _, share in tried), default=0)
    each = " and ".join(f"{accuracy(share)} with {escape(shots)}" for shots, share in tried)
    return (
        f"<p><small>{escape(who)} is scored with {choice.shots or 0} examples in its prompt, chosen on "
        f"{whole(rows)} validation rows: {each}.</small></p>"
    )


def _unscored(who: str, score: Score) -> str:
    if not score.unscored:
        return ""
    count, name = whole(score.unscored), escape(who)
    return f'<p class="warn">{count} answers of {name} were not scored and count as 0.</p>'


def _unparsed(who: str, score: Score) -> str:
    """Wrong answers that a grammar could win, and those that it could not."""
    found = score.unparsed
    if found is None or found.answers is None or score.total is None or score.correct is None:
        return ""
    wrong = score.total - score.correct
    if wrong <= 0:
        return ""
    cut = f", {whole(found.cut)} of them cut at max_new_tokens" if found.cut else ""
    name = escape(who)
    return (
        f"<p><small>{whole(found.answers)} of {whole(wrong)} wrong answers of {name} do not parse{cut}."
        "</small></p>"
    )


def _comparison(base: AnyShare, adapter: AnyShare, paired: PairedComparison | None) -> str:
    points = gain(base, adapter) or 0.0
    summary = f"The base: {describe(base)}. The adapter: {describe(adapter)}. "
    change = f"{points:+.1f} points" if points else "No difference"
    if paired is not None and paired.low is not None and paired.high is not None:
        return summary + _row_by_row(change, points, paired.low, paired.high, paired)
    if apart(base, adapter):
        mood = "good" if points > 0 else "bad"
        return f'{summary}<span class="{mood}">{change}; the intervals are apart.</span>'
    return f'{summary}<span class="warn">{change}; the intervals overlap, so chance may explain it.</span>'


def _row_by_row(change: str, points: float, low: float, high: float, paired: PairedComparison) -> str:
    """Whether the difference on the same rows may be chance."""
    reach = f"95%: {low * 100:+.1f} to {high * 100:+.1f}"
    rows = f"better on {whole(paired.better or 0)} rows, worse on {whole(paired.worse or 0)}"
    if low <= 0 <= high:
        return f'<span class="warn">{change} ({reach}), so chance may explain it; {rows}.</span>'
    mood = "good" if points > 0 else "bad"
    return f'<span class="{mood}">{change} ({reach}); {rows}.</span>'


def score_tables(run: Run) -> str:
    return "".join(_score_tables(name, found) for name, found in sets_of(run))


def _score_tables(name: str, found: AnyScores) -> str:
    tags = found.by_tag
    levels = sorted(found.by_level[:_MOST_TAGS], key=lambda line: line.name or "")
    third = _against_name(found) if found.against else ""
    body = _table("level", levels, third) + _table("tag", tags[:_OPEN_TAGS], third)
    rarer = tags[_OPEN_TAGS:_MOST_TAGS]
    if rarer:
        left = len(tags) - len(rarer) - _OPEN_TAGS
        more = f", {whole(left)} more in evaluation.json" if left > 0 else ""
        rest = Raw(_table("tag", rarer, third))
        body += f'<div class="box rest">{fold(f"{whole(len(rarer))} rarer tags{more}", rest)}</div>'
    return section(_titled("Scores by level and tag", name), body and _legend(found) + body)


def samples(run: Run) -> str:
    return "".join(_samples(name, found) for name, found in sets_of(run))


def _samples(name: str, found: AnyScores) -> str:
    """What one of several sampled answers would score."""
    sampled = found.samples
    if sampled is None or not sampled.pass_at:
        return ""
    who = "adapter" if found.adapter else "base"
    about = (
        f"<p>{whole(sampled.per_row or 0)} answers of the {who} to each row, sampled at temperature "
        f"{sampled.temperature or 0:g}. pass@k is the probability that one of k is right; the vote takes the "
        "answer whose result most of them share.</p>"
    )
    parts: list[tuple[str, PassAt | Share]] = [
        (_pass_name(part), part) for part in sampled.pass_at[:_MOST_SIZES]
    ]
    parts += [("vote", sampled.vote)] if sampled.vote else []
    rows = [(head, _picture(who, share), describe(share)) for head, share in parts]
    body = table(["", "0 to 100%", "share"], rows, frozenset({2}), "scores")
    levels = sorted(sampled.by_level[:_MOST_TAGS], key=lambda line: line.name or "")
    body += _sampled_table("level", levels) + _sampled_table("tag", sampled.by_tag[:_MOST_TAGS])
    return section(_titled("Sampled answers", name), about + body)


def _picture(who: str, share: AnyShare) -> Raw:
    return interval_picture(None, share) if who == "adapter" else interval_picture(share, None)


def _sampled_table(name: str, lines: Sequence[SampledLine]) -> str:
    """One sample beside all of them."""
    lines = [line for line in lines if line.pass_at]
    if not lines:
        return ""
    head = [name, _pass_name(lines[0].pass_at[0]), _pass_name(lines[0].pass_at[-1]), "vote", "rows"]
    rows = [
        (
            line.name or "",
            accuracy(line.pass_at[0]),
            accuracy(line.pass_at[-1]),
            accuracy(line.vote),
            "" if line.vote is None or line.vote.total is None else whole(line.vote.total),
        )
        for line in lines
    ]
    return table(head, rows, frozenset({1, 2, 3, 4}))


def _pass_name(part: PassAt) -> str:
    return f"pass@{whole(part.k or 0)}"


def _titled(title: str, name: str) -> str:
    return f"{title}, test set {name}" if name else title


def _table(name: str, lines: Sequence[ScoreLine], third: str) -> str:
    """`third` is the name of what base and adapter are compared with, if anything."""
    head = [name, "base and adapter, 0 to 100%", "base", "adapter", *([third] if third else []), "rows"]
    rows = [_line(line, bool(third)) for line in lines]
    return table(head, rows, frozenset(range(2, len(head))), "scores")


def _line(line: ScoreLine, has_third: bool) -> list[object]:
    total = (line.adapter or line.base or Share()).total
    return [
        line.name or "",
        interval_picture(line.base, line.adapter, line.against),
        accuracy(line.base),
        Raw(f"<b>{accuracy(line.adapter)}</b>"),
        *([accuracy(line.against)] if has_third else []),
        "" if total is None else whole(total),
    ]


def examples(run: Run) -> str:
    # Runs that were scored by older versions have none.
    whole_file = (run.folder / ANSWERS).is_file()
    return "".join(_examples(name, found, whole_file) for name, found in sets_of(run))


def _examples(name: str, found: AnyScores, whole_file: bool) -> str:
    gains, failures = found.gains[:_MOST_EXAMPLES], found.failures[:_MOST_EXAMPLES]
    partial = found.measure not in (None, ACCURACY)
    better = found.comparison.better if found.comparison else None
    last = found.adapter or found.base
    missed = last.total - last.correct if last and last.total and last.correct is not None else None
    learnt = section(
        _titled(
            f"What it learnt: {'better than the base' if partial else 'right where the base is wrong'}", name
        )
        + _shown_of(len(gains), better, whole_file),
        "".join(map(_example, gains)),
    )
    return learnt + section(
        _titled("What it got wrong", name) + _shown_of(len(failures), missed, whole_file),
        "".join(map(_example, failures)),
    )


def _shown_of(shown: int, there_are: int | None, whole_file: bool) -> str:
    if there_are is None or there_are < shown:
        return ""
    more = f"; all in {ANSWERS}" if whole_file and shown < there_are else ""
    return f" ({whole(shown)} of {whole(there_are)}{more})"


def _example(one: Example) -> Raw:
    expected = one.expected or ""
    blocks = [f"<div><h3>expected</h3>{pre(expected)}</div>"]
    for who, answer in (("base", one.base), ("adapter", one.adapter)):
        if answer is not None:
            blocks.append(_answer(who, answer, expected))
    tags = "".join(f"<span>{text(tag)}</span>" for tag in one.tags[:_MOST_TAGS])
    asked = f'<h3>prompt <span class="tags">{tags}</span></h3>{pre(one.prompt or "")}'
    return Raw(f'<div class="box example">{asked}<div class="sides">{"".join(blocks)}</div></div>')


def _answer(who: str, answer: Answer, expected: str) -> str:
    said = "right" if answer.correct else answer.reason if answer.reason is not None else "wrong"
    if answer.score is not None and 0 < answer.score < 1:
        said = f"{answer.score:.0%}: {said}"
    mark = '<span class="good">✓</span>' if answer.correct else '<span class="bad">✗</span>'
    answered = answer.text or ""
    if not answered.strip():
        shown = f"<i>{'only white space' if answered else 'empty'}</i>"
    else:
        shown = quoted(answered) if answer.correct else marked(answered, expected)
    return f"<div><h3>{mark} {who}: {text(said)}</h3><pre>{shown}</pre></div>"


def interval_picture(
    base: AnyShare | None, adapter: AnyShare | None, compared: AnyShare | None = None
) -> Raw:
    sides = {"base": base, "adapter": adapter, "compared": compared}
    known = {who: share for who, share in sides.items() if share and share.accuracy is not None}
    if not known:
        return Raw("")
    drawn = "".join(_mark(who, share) for who, share in known.items())
    words = "; ".join(f"{who} {describe(share)}" for who, share in known.items())
    return Raw(f'<span class="share">{svg(f"{_SCALE}{drawn}", words)}</span>')


def _mark(who: str, share: AnyShare) -> str:
    height, hue = _HEIGHTS[who], _HUES[who]
    right = share.accuracy or 0.0
    low = right if share.low is None else share.low
    high = right if share.high is None else share.high
    dot = f'd="M{right * SIDE:.1f} {height}h0"'
    ring = f'<path class="hole" {dot}/>' if who == "base" else ""
    reach = f'<path class="reach c{hue}" d="M{low * SIDE:.1f} {height}H{high * SIDE:.1f}"/>'
    return f'{reach}<path class="dot c{hue}" {dot}/>{ring}'


def describe(share: AnyShare) -> str:
    known = share.low is not None and share.high is not None
    reach = f" (95%: {share.low:.0%} to {share.high:.0%})" if known else ""
    return f"{accuracy(share)}{reach}"


def accuracy(share: AnyShare | None) -> str:
    return percent(share.accuracy) if share and share.accuracy is not None else ""


def apart(base: AnyShare, adapter: AnyShare) -> bool:
    """Whether the intervals do not overlap, so that chance does not explain the difference."""
    return _above(adapter, base) or _above(base, adapter)


def _above(one: AnyShare, other: AnyShare) -> bool:
    return one.low is not None and other.high is not None and one.low > other.high


def gain(base: AnyShare | None, adapter: AnyShare | None) -> float | None:
    """In points of a hundred."""
    if not base or not adapter or base.accuracy is None or adapter.accuracy is None:
        return None
    return (adapter.accuracy - base.accuracy) * 100


def marked(answer: str, expected: str) -> str:
    ours, theirs = _words(answer), _words(expected)
    if len(ours) * len(theirs) > _MOST_PAIRS:
        return quoted(answer)
    match = SequenceMatcher(None, theirs, ours, autojunk=False)
    if match.ratio() < _ALIKE:
        return quoted(answer)
    return "".join(
        _piece(kind, quoted("".join(ours[start:end]))) for kind, _, _, start, end in match.get_opcodes()
    )


def _piece(kind: str, words: str) -> str:
    if kind == "equal":
        return words
    return f"<mark>{words}</mark>" if words else '<mark class="gap" title="something is missing here"></mark>'


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)
