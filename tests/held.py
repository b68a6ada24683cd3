"""Held ranges as a store reports them, for tests that keep numbers one by one."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.ranges import HeldRange


def merge_held(ranges: Iterable[HeldRange]) -> tuple[HeldRange, ...]:
    """The fewest ascending ranges that say the same; those that overlap must agree on the epoch."""
    merged: list[HeldRange] = []
    for item in sorted(ranges):
        if merged and merged[-1].epoch == item.epoch and item.first <= merged[-1].last + 1:
            before = merged[-1]
            merged[-1] = HeldRange(before.first, max(before.last, item.last), item.epoch)
        else:
            assert not merged or item.first > merged[-1].last, (merged[-1], item)
            merged.append(item)
    return tuple(merged)
