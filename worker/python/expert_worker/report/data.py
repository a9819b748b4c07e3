"""What went in: the row ledger, and how many tokens there were in documents of what length."""

from typing import Any

from expert_worker.report.charts import histogram, short
from expert_worker.report.parts import section, table
from expert_worker.report.read import Run

_FIRST = ("read", "used", "bad", "truncated", "split_rows")
_LAST = ("tokens", "supervised_tokens", "bytes")
_QUANTILES = ("shortest", "quarter", "median", "three quarters", "90%", "99%", "longest")


def rows_and_tokens(run: Run) -> str:
    splits: dict[str, Any] = run.cache.get("splits") or {}
    charts = "".join(
        histogram(f"Tokens a document, {name}", _bins(split.get("length_histogram")), "documents")
        for name, split in sorted(splits.items())
    )
    parts = [_ledger(run.cache.get("sources") or []), _splits(splits)]
    if charts:
        parts.append(f'<div class="charts">{charts}</div>')
    return section("Data", '<div class="more"></div>'.join(filter(None, parts)))


def _ledger(sources: list[dict[str, Any]]) -> str:
    """A column for everything that happened to any row at all."""
    names = {name for source in sources for name, value in source.items() if isinstance(value, int)}
    between = sorted(names.difference(_FIRST, _LAST))
    counts = [name for name in (*_FIRST, *between, *_LAST) if any(source.get(name) for source in sources)]
    head = ["source", *(name.replace("_", " ") for name in counts)]
    rows = [[source.get("name", ""), *(f"{source.get(name, 0):,}" for name in counts)] for source in sources]
    return table(head, rows, frozenset(range(1, len(head))))


def _splits(splits: dict[str, Any]) -> str:
    head = ["split", "rows", "documents", "tokens", "supervised", "fill", *_QUANTILES]
    rows = [[name, *_split(split)] for name, split in sorted(splits.items())]
    return table(head, rows, frozenset(range(1, len(head))))


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


def _bins(found: Any) -> list[tuple[str, float]]:
    """Each bin is [most tokens, documents]."""
    return [(f"≤{most}", float(count)) for most, count in found or []]
