"""The results of one run, as text."""

from __future__ import annotations

from typing import Any

from floor import floor
from programs import OTHERS, OURS, Program

# A program that packs fills its batches to more than this.
WELL_FILLED = 0.8


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
    lines.append(_line("case", "tokens/s", "of floor", "speedup", "peak GiB", "of plan", "GPU busy"))
    for case in document["cases"]:
        if why := case.get("left_out"):
            lines.append(f"{case['name']:<16}{why}")
            continue
        lines += [line for program in (OURS, *OTHERS) if (line := _side(program, case, document))]
    lines += [_fused(case) for case in document.get("fused", ())]
    if absent := [it.label for it in OTHERS if it.key in document["not_installed"]]:
        lines.append(f"not compared, as not installed: {', '.join(absent)} (benches/gpu/README.md)")
    return "\n".join(lines)


def _fused(case: dict[str, Any]) -> str:
    if not (gains := case.get("gains")):
        return f"{case['name']:<16}{case.get('left_out') or case.get('failed')}"
    speeds = [f"{size} experts {gain:.2f}x" for size, gain in gains.items()]
    alone = f"{case['tokens_per_second']['1']:,.0f} tokens/s one after another"
    return f"{case['name']:<20}{', '.join([alone, *speeds])}"


def _side(program: Program, case: dict[str, Any], document: dict[str, Any]) -> str | None:
    """One program's figures; of another program also how many times as fast as it we are."""
    name = case["name"] if program is OURS else f"  {program.label}"
    if not (found := case.get(program.key)):
        why = case.get(f"{program.key}_left_out") or case.get(f"{program.key}_failed")
        return f"{name:<16}{why}" if why else None
    speed, at_most = found["tokens_per_second"], floor(case, document)
    figures = [f"{speed:,.0f}", f"{speed / at_most:.1%}" if at_most else "-"]
    ratio = case.get(f"speed_of_{program.key}")
    figures += [f"{ratio:.2f}x" if ratio else "", f"{found['peak_bytes'] / 2**30:.2f}"]
    if program is OURS:
        of_plan, busy = case["peak_of_estimate"], found["gpu_utilization"]
        figures += [f"{of_plan:.2f}" if of_plan else "-", f"{busy:.0f}%" if busy is not None else "-"]
    if found.get("filled", 1.0) < WELL_FILLED:
        figures.append(f"  {found['filled']:.0%} full")
    return _line(name, *figures)


def _line(name: str, *figures: str) -> str:
    return f"{name:<16}" + "".join(f"{it:>10}" for it in figures)
