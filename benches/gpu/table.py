"""The results of one run, as text."""

from __future__ import annotations

from typing import Any


def table(document: dict[str, Any]) -> str:
    checks = document["equality"]
    bad = [f"{row['kind']} {row['dtype']} {row['way']}" for row in checks if not row["ok"]]
    lines = [
        f"{document['device']}: {len(checks) - len(bad)} of {len(checks)} fast paths equal the plain one"
    ]
    if document["invalid"]:
        lines.insert(0, f"NOT A MEASUREMENT: {document['invalid']}")
    if document.get("equality_failed"):
        lines.append(f"  NOT CHECKED: {document['equality_failed']}")
    lines += [f"  NOT EQUAL: {name}" for name in bad]
    if document["peak_operations"]:
        lines.append(
            f"products {document['peak_operations'] / 1e12:,.1f} TFLOP/s, copies "
            f"{document['copied_bytes'] / 1e9:,.0f} GB/s, a launch {document['launch_seconds'] * 1e6:.1f} us"
        )
    heads = ("tokens/s", "of floor", "of TRL", "peak GiB", "of plan", "GPU busy")
    lines.append(f"{'case':<16}" + "".join(f"{head:>10}" for head in heads))
    for case in document["cases"]:
        if "ours" not in case:
            why = case.get("left_out") or case.get("ours_left_out") or case.get("ours_failed")
            lines.append(f"{case['name']:<16}{why}")
            continue
        ours, busy = case["ours"], case["ours"]["gpu_utilization"]
        floor, ratio = case.get("share_of_measured_peak"), case.get("speed_of_trl")
        of_plan = case["peak_of_estimate"]
        lines.append(
            f"{case['name']:<16}{ours['tokens_per_second']:>10,.0f}{_percent(floor):>10}"
            f"{f'{ratio:.2f}x' if ratio else '-':>10}{ours['peak_bytes'] / 2**30:>10.2f}"
            f"{f'{of_plan:.2f}' if of_plan else '-':>10}{f'{busy:.0f}%' if busy is not None else '-':>10}"
        )
        if why := case.get("trl_failed") or case.get("trl_left_out"):
            lines.append(f"  TRL: {why}")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return f"{share:.1%}" if share is not None else "-"
