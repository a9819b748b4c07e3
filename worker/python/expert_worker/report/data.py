"""What went in: the row ledger, and how long rows and how many tokens they were."""

from collections.abc import Iterator
from typing import Any

from expert_worker.report.charts import histogram
from expert_worker.report.parts import section, table
from expert_worker.report.read import Run


def rows_and_tokens(run: Run) -> str:
    statistics = run.cache.get("statistics") or {}
    charts = "".join(
        histogram(title, _bins(statistics.get(name)), "rows")
        for title, name in (
            ("Tokens a document", "document_tokens"),
            ("Supervised tokens a document", "supervised_tokens"),
        )
    )
    body = _ledger(run.cache.get("ledger"))
    if charts:
        body += f'<div class="charts more">{charts}</div>'
    return section("Data", body)


def _ledger(ledgers: Any) -> str:
    found = [entry for entry in ledgers or [] if isinstance(entry, dict)]
    counts = [name for name in _ordered(found) if any(entry.get(name) for entry in found)]
    head = ["source", *(name.replace("_", " ") for name in counts)]
    rows = [[entry.get("name", ""), *(f"{entry.get(name, 0):,}" for name in counts)] for entry in found]
    return table(head, rows, frozenset(range(1, len(head))))


def _ordered(ledgers: list[dict[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for entry in ledgers:
        names.update({name: None for name, value in entry.items() if isinstance(value, int)})
    return list(names)


def _bins(found: Any) -> list[tuple[str, float]]:
    return list(_each_bin(found)) if isinstance(found, list) else []


def _each_bin(found: list[Any]) -> Iterator[tuple[str, float]]:
    """Each bin is [upper bound, count]."""
    for entry in found:
        if isinstance(entry, list) and len(entry) == 2:
            yield f"≤{entry[0]}", float(entry[1])
