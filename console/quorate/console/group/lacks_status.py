"""Messages of a source that stores lack or cannot read, as problems with their next step.

Only reads; part of quorate.console.group.status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.v1.messages_pb2 import HeldRange
from quorate.v1.store_pb2 import SourceStatus


def lacks(name: SourceName, at: Mapping[str, SourceStatus]) -> list[str]:
    """Return a problem for each store and kind.

    at: the status of the source at each store that answered.
    """
    problems: list[str] = []
    if not any(source.unreadable or source.holes for source in at.values()):
        return problems
    for store, source in at.items():
        if unreadable := _ranges(source.unreadable):
            what = f"cannot read {_text(unreadable)} of {name}: its files are damaged"
            problems.append(f"Store {store} {what}. {_step(name, unreadable, at)}")
    for store, source in at.items():
        if holes := _ranges(source.holes):
            what = f"lacks {_text(holes)} of {name}: no peer has filled these messages yet"
            problems.append(f"Store {store} {what}. {_step(name, holes, at)}")
    return problems


def _step(name: SourceName, missed: RangeSet, at: Mapping[str, SourceStatus]) -> str:
    nowhere = missed
    for source in at.values():
        nowhere = nowhere.minus(_ranges(source.held))
    if not nowhere:
        return "`quorate repair` fetches them from the other stores now."
    first = next(iter(nowhere))
    return (
        f"No store that answered has {_text(nowhere)}. Start a store that has them, and run "
        "`quorate repair`. If they are gone for good: `quorate loss accept "
        f"{first.first}-{first.last} --source {name} --reason WHY`."
    )


def _ranges(ranges: Iterable[HeldRange]) -> RangeSet:
    return RangeSet(Range(item.first, item.last) for item in ranges)


def _text(ranges: RangeSet) -> str:
    return ", ".join(map(str, ranges))
