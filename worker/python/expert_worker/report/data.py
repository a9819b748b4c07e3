"""What went in: the row ledger, and how many tokens there were in documents of what length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from expert_worker.recorded import SourceCounts
from expert_worker.recorded import SplitStatistics as Split
from expert_worker.report.charts import lengths
from expert_worker.report.html import Raw, section, table
from expert_worker.report.numbers import percent, whole
from expert_worker.report.read import Run
from expert_worker.report.scores import AnyScores, sets_of
from expert_worker.row_counts import WORDS

_QUANTILES = (
    "shortest",
    "a quarter up to",
    "half up to",
    "three quarters up to",
    "90% up to",
    "99% up to",
    "longest",
)


_HELD_OUT = "validation"
_MOST_SOURCES = 12
_MOST_SPLITS = 4
_MOST_BINS = 1000


@dataclass(frozen=True)
class Source:
    name: str
    counts: dict[str, int]

    @classmethod
    def of(cls, found: SourceCounts) -> "Source":
        counts = {key: value for key, value in found if type(value) is int}
        if found.split == _HELD_OUT and "supervised_tokens" in counts:
            counts["scored_tokens"] = counts.pop("supervised_tokens")
        return cls((found.name or "").rsplit("/", 1)[-1], counts)


def rows_and_tokens(run: Run) -> str:
    splits = sorted(run.cache.splits.items())[:_MOST_SPLITS]
    pictures = "".join(
        lengths(f"Document lengths, {name}", split.length_histogram[:_MOST_BINS], split.length_quantiles)
        for name, split in splits
    )
    sources = [Source.of(found) for found in run.cache.sources[:_MOST_SOURCES]]
    left = _ledger(sources, _words(run)) + _duplicates(run) + _test_set(run) + _uses(splits)
    right = _splits(splits)
    tables = f"<div>{left}</div><div>{right}</div>" if left or right else ""
    body = tables + pictures
    return section("Data", Raw(f'<div class="charts">{body}</div>') if body else "")


def _words(run: Run) -> Mapping[str, str]:
    """The training files' tokens include those of the rows that `validation_split` holds out."""
    of_training = _HELD_OUT in run.cache.splits and all(it.split != _HELD_OUT for it in run.cache.sources)
    return {**WORDS, "supervised_tokens": "tokens learned from or scored"} if of_training else WORDS


def _ledger(sources: Sequence[Source], words: Mapping[str, str]) -> str:
    """A line for everything that happened to any row at all, a column a source."""
    counts = [name for name in words if any(source.counts.get(name) for source in sources)]
    head = ["rows", *(source.name for source in sources)]
    rows = [[words[name], *(_count(source, name) for source in sources)] for name in counts]
    return table(head, rows, frozenset(range(1, len(head))))


def _count(source: Source, name: str) -> str:
    """Nothing where the count is not one of this source's: validation rows are scored, not learned from."""
    return f"{source.counts[name]:,}" if name in source.counts else ""


def _duplicates(run: Run) -> str:
    """Rows that copy others: of another part, or earlier ones of the training data."""
    found = run.cache.duplicates
    if found is None or not found.rows:
        return ""
    rows = [
        [
            f"{one.part or ''}, of {one.of or ''}" if one.part != one.of else f"within {one.part or ''}",
            *(f"{count or 0:,}" for count in (one.exact, one.near, one.rows)),
        ]
        for one in found.found[:_MOST_SOURCES]
    ]
    none = [["none", "0", "0", f"{sum(found.rows.values()):,}"]]
    return table(["copied rows", "exact", "near", "of rows"], rows or none, frozenset((1, 2, 3)))


def _test_set(run: Run) -> str:
    """Which rows the scores are of."""
    return "".join(_one_test_set(name, found) for name, found in sets_of(run))


def _one_test_set(name: str, found: AnyScores) -> str:
    files = found.test_set[:_MOST_SOURCES]
    # A head does not break, so a long name is a row.
    rows = [["name", name]] if name else []
    rows.append(["rows scored", "" if found.rows is None else whole(found.rows)])
    for file in files:
        rows += [["file", file.name or ""], ["SHA-256", file.sha256 or ""]]
    title = "further test set" if name else "test set"
    return table([title, ""], rows) if files or found.rows is not None else ""


def _splits(splits: Sequence[tuple[str, Split]]) -> str:
    columns = [_split(split) for _, split in splits]
    labels = ("packed rows", "documents", "tokens", _purpose(splits), "fill", *_QUANTILES)
    rows = [[label, *(column[place] for column in columns)] for place, label in enumerate(labels)]
    kept = [row for row in rows if any(row[1:])]
    return table(["tokens", *(name for name, _ in splits)], kept, frozenset(range(1, len(splits) + 1)))


def _purpose(splits: Sequence[tuple[str, Split]]) -> str:
    """What the tokens with a label are for: nothing is learnt from validation rows."""
    return " or ".join(dict.fromkeys(_use_of(name) for name, _ in splits))


def _use_of(split: str) -> str:
    return "scored" if split == _HELD_OUT else "learnt from"


def _split(split: Split) -> list[str]:
    quantiles = [f"{length:,}" for length in split.length_quantiles[: len(_QUANTILES)]]
    return [
        f"{split.rows or 0:,}",
        f"{split.documents or 0:,}",
        f"{split.tokens or 0:,}",
        percent((split.supervised_tokens or 0) / split.tokens) if split.tokens else "",
        percent(split.fill) if split.fill is not None else "",
        *quantiles,
        *[""] * (len(_QUANTILES) - len(quantiles)),
    ]


def _uses(splits: Sequence[tuple[str, Split]]) -> str:
    """What the room of the rows is used for: learnt from or scored, only read, or empty."""
    bars = "".join(_use(name, split) for name, split in splits if split.tokens)
    if not bars:
        return ""
    key = (
        f'<ul class="legend"><li><i class="c0"></i>{_purpose(splits)}</li>'
        '<li><i class="c1"></i>only read</li><li><i class="empty"></i>empty</li></ul>'
    )
    return f"<figure><figcaption><b>What the tokens are for</b>{key}</figcaption>{bars}</figure>"


def _use(name: str, split: Split) -> str:
    tokens = split.tokens or 0
    learnt = min(split.supervised_tokens or 0, tokens)
    room = tokens / (split.fill or 1.0)
    parts = [("c0", learnt), ("c1", tokens - learnt), ("empty", room - tokens)]
    cells = "".join(
        f'<i class="{kind}" style="width:{100 * count / room:.2f}%"></i>'
        for kind, count in parts
        if count > 0
    )
    label = f"{learnt:,} {_use_of(name)}, {tokens - learnt:,} only read, {room - tokens:,.0f} empty"
    bar = f'<div class="bar">{cells}</div>'
    return f'<div class="use"><span>{escape(name)}</span>{bar}<small>{label}</small></div>'
