"""What went in: the row ledger, and how many tokens there were in documents of what length."""

from html import escape
from typing import Any

from expert_worker.report.histogram import lengths
from expert_worker.report.numbers import short
from expert_worker.report.parts import Raw, section, table
from expert_worker.report.read import Run

_FIRST = ("read", "used", "bad", "truncated", "split_rows")
_LAST = ("tokens", "supervised_tokens", "bytes")
_QUANTILES = (
    "shortest",
    "a quarter up to",
    "half up to",
    "three quarters up to",
    "90% up to",
    "99% up to",
    "longest",
)


def rows_and_tokens(run: Run) -> str:
    splits: dict[str, Any] = run.cache.get("splits") or {}
    pictures = "".join(
        lengths(
            f"Document lengths, {name}",
            split.get("length_histogram") or [],
            split.get("length_quantiles") or [],
        )
        for name, split in sorted(splits.items())
    )
    left, right = _ledger(run.cache.get("sources") or []) + _uses(splits), _splits(splits)
    tables = f"<div>{left}</div><div>{right}</div>" if left or right else ""
    body = tables + pictures
    return section("Data", Raw(f'<div class="charts">{body}</div>') if body else "")


def _ledger(sources: list[dict[str, Any]]) -> str:
    """A line for everything that happened to any row at all, a column a source."""
    names = {name for source in sources for name, value in source.items() if isinstance(value, int)}
    between = sorted(names.difference(_FIRST, _LAST))
    counts = [name for name in (*_FIRST, *between, *_LAST) if any(source.get(name) for source in sources)]
    head = ["rows", *(str(source.get("name", "")).rsplit("/", 1)[-1] for source in sources)]
    rows = [[name.replace("_", " "), *(f"{s.get(name, 0):,}" for s in sources)] for name in counts]
    return table(head, rows, frozenset(range(1, len(head))))


def _splits(splits: dict[str, Any]) -> str:
    named = sorted(splits.items())
    columns = [_split(split) for _, split in named]
    labels = ("packed rows", "documents", "tokens", "learnt from", "fill", *_QUANTILES)
    rows = [[label, *(column[place] for column in columns)] for place, label in enumerate(labels)]
    kept = [row for row in rows if any(row[1:])]
    return table(["tokens", *(name for name, _ in named)], kept, frozenset(range(1, len(named) + 1)))


def _split(split: dict[str, Any]) -> list[str]:
    tokens, supervised = split.get("tokens", 0), split.get("supervised_tokens", 0)
    fill = split.get("fill")
    quantiles = [f"{length:,}" for length in split.get("length_quantiles", [])]
    return [
        f"{split.get('rows', 0):,}",
        f"{split.get('documents', 0):,}",
        short(tokens),
        f"{supervised / tokens:.0%}" if tokens else "",
        f"{fill:.1%}" if fill is not None else "",
        *quantiles,
        *[""] * (len(_QUANTILES) - len(quantiles)),
    ]


def _uses(splits: dict[str, Any]) -> str:
    """What the room of the rows is used for: learnt from, only read, or empty."""
    bars = "".join(_use(name, split) for name, split in sorted(splits.items()) if split.get("tokens"))
    if not bars:
        return ""
    key = (
        '<ul class="legend"><li><i class="c0"></i>learnt from</li><li><i class="c1"></i>only read</li>'
        '<li><i class="empty"></i>empty</li></ul>'
    )
    return f"<figure><figcaption><b>What the tokens are for</b>{key}</figcaption>{bars}</figure>"


def _use(name: str, split: dict[str, Any]) -> str:
    tokens, learnt = split["tokens"], split.get("supervised_tokens", 0)
    room = tokens / (split.get("fill") or 1.0)
    parts = [("c0", learnt), ("c1", tokens - learnt), ("empty", room - tokens)]
    cells = "".join(
        f'<i class="{kind}" style="width:{100 * count / room:.2f}%"></i>'
        for kind, count in parts
        if count > 0
    )
    told = f"{learnt:,} learnt from, {tokens - learnt:,} only read, {room - tokens:,.0f} empty"
    bar = f'<div class="bar">{cells}</div>'
    return f'<div class="use"><span>{escape(name)}</span>{bar}<small>{told}</small></div>'
