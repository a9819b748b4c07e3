"""What the expert can do, in one card: the first thing a reader looks for."""

from html import escape

from expert_worker.report import shares
from expert_worker.report.numbers import whole
from expert_worker.report.read import Run
from expert_worker.report.shares import Share


def verdict(run: Run) -> str:
    if run.scores is None:
        return ""
    base, adapter = run.scores.base, run.scores.adapter
    best = adapter or base
    if best is None or best.accuracy is None:
        return ""
    who = "the adapter" if adapter else "the base alone"
    rows = run.scores.rows if run.scores.rows is not None else best.total or 0
    scorer = escape(run.scores.scorer or "unnamed")
    judged = f"of {whole(rows)} test rows right by {who}, judged by the {scorer} scorer"
    lines = [f"<p><b>{shares.number(best)}</b> {judged}</p>"]
    if adapter and base and base.accuracy is not None:
        lines.append(f"<p>{_comparison(base, adapter)}</p>")
    scale = "".join(f'<span style="left:{share}%">{share}%</span>' for share in (0, 25, 50, 75, 100))
    plot = f'<div class="wide">{shares.picture(base, adapter)}<div class="scale">{scale}</div></div>'
    return f'<div class="box verdict"><div>{"".join(lines)}</div><div>{plot}{KEY}</div></div>'


KEY = (
    '<ul class="legend"><li><i class="ring"></i>base</li><li><i class="disc"></i>adapter</li>'
    "<li>bars: 95% intervals</li></ul>"
)


def _comparison(base: Share, adapter: Share) -> str:
    points = shares.gain(base, adapter) or 0.0
    summary = f"The base: {shares.describe(base)}. The adapter: {shares.describe(adapter)}. "
    change = f"{points:+.1f} points" if points else "No difference"
    if shares.apart(base, adapter):
        mood = "good" if points > 0 else "bad"
        return f'{summary}<span class="{mood}">{change}; the intervals are apart.</span>'
    return f'{summary}<span class="warn">{change}; the intervals overlap, so chance may explain it.</span>'
