"""Which checkpoints are deleted."""

from collections.abc import Collection


def doomed(
    steps: Collection[int],
    limit: int | None,
    *,
    best: int | None = None,
    earlier_best: int | None = None,
    pinned: Collection[int] = (),
) -> list[int]:
    """`limit` counts the best one, as users of `save_total_limit` expect. The best and the newest always
    stay, and those pinned, which are still on their way to the mirror. `earlier_best` was the best one before
    the newest was saved; it stays before others do: without it a damaged best one leaves nothing to resume
    from."""
    there = set(steps)
    if limit is None or not there:
        return []
    held = {max(there), best} & there
    if earlier_best in there and len(held | {earlier_best}) <= limit:
        held.add(earlier_best)
    others = sorted(there - held, reverse=True)
    kept = held | set(others[: max(0, limit - len(held))])
    return sorted(there - kept - set(pinned))
