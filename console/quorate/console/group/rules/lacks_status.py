"""Messages of a source that stores lack or cannot read, as findings with their next step.

Pure; part of quorate.console.group.rules.source_status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from quorate.console.group.rules.findings import Finding, Kind, Severity
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.v1.messages_pb2 import HeldRange
from quorate.v1.store_pb2 import SourceStatus


def lacks(name: SourceName, at: Mapping[str, SourceStatus]) -> Iterator[Finding]:
    """Yield a finding for each store and kind.

    at: the status of the source at each store that answered.
    """
    if not any(source.unreadable or source.holes for source in at.values()):
        return
    for store, source in at.items():
        if unreadable := _ranges(source.unreadable):
            what = f"cannot read {_text(unreadable)} of {name}: its files are damaged"
            yield _finding(Kind.UNREADABLE, f"Store {store} {what}.", name, unreadable, at)
    for store, source in at.items():
        if holes := _ranges(source.holes):
            what = f"lacks {_text(holes)} of {name}: no peer has filled these messages yet"
            yield _finding(Kind.HOLE, f"Store {store} {what}.", name, holes, at)


def _finding(
    kind: Kind, what: str, name: SourceName, missed: RangeSet, at: Mapping[str, SourceStatus]
) -> Finding:
    nowhere = missed
    for source in at.values():
        nowhere = nowhere.minus(_ranges(source.held))
    if not nowhere:
        return Finding(
            Severity.WARNING, kind, str(name), what,
            "Fewer stores have these messages than should. Readers get them from the others.",
            "`quorate repair` fetches them from the other stores now.",
        )  # fmt: skip
    first = next(iter(nowhere))
    return Finding(
        Severity.CRITICAL, kind, str(name), what,
        "Receivers wait at these messages, and the source cannot register anew.",
        f"No store that answered has {_text(nowhere)}. Start a store that has them, and run "
        "`quorate repair`. If they are gone for good: `quorate loss accept "
        f"{first.first}-{first.last} --source {name} --reason WHY`.",
    )  # fmt: skip


def _ranges(ranges: Iterable[HeldRange]) -> RangeSet:
    return RangeSet(Range(item.first, item.last) for item in ranges)


def _text(ranges: RangeSet) -> str:
    return ", ".join(map(str, ranges))
