"""Conflicts of a source, as its stores report them: two contents under one number.

Only reads; part of quorate.console.group.status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorate.console.group.rules.findings import Finding, Kind, Severity
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.v1.store_pb2 import SourceStatus

Row = dict[str, Any]

_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Dispute:
    """The numbers for which two stores hold different content, or one store and the source."""

    source: SourceName
    stores: tuple[str, ...]
    """The two stores by name; one store, if it refused the content of the source."""
    ranges: RangeSet

    def commands(self) -> list[str]:
        """Return a command for each store that may be kept."""
        command = f"quorate conflict settle --source {self.source} --keep"
        return [f"{command} {store} --reason WHY" for store in self.stores]

    def finding(self) -> Finding:
        """Return the conflict as a finding."""
        named = list(self.ranges)
        shown = ", ".join(map(str, named[:_SHOWN_MAX]))
        if (left := len(named) - _SHOWN_MAX) > 0:
            shown += f" and {left:,} more ranges"
        steps = ", or ".join(f"`{each}`" for each in self.commands())
        if len(self.stores) == 1:
            what = (
                f"Store {self.stores[0]} refused what {self.source} sent for {shown}: it holds "
                "other content."
            )
            next_step = (
                f"To keep the content of the store: {steps}. The source then has to drop its own."
            )
        else:
            one, other = self.stores
            what = (
                f"Stores {one} and {other} hold different content for {shown} of {self.source}. An "
                "old disk was put back, or two sources used one identity."
            )
            next_step = f"Decide which content is kept: {steps}."
        means = "Readers may get one content from one store and another one from the other."
        return Finding(Severity.CRITICAL, Kind.CONFLICT, str(self.source), what, means, next_step)

    def row(self) -> Row:
        """Return what is shown of the conflict."""
        return {
            "topic": self.source.topic,
            "session_id": f"{self.source.session_id:#x}",
            "ranges": [str(item) for item in self.ranges],
            "stores": list(self.stores),
            "settle": self.commands(),
        }


def disputes(name: SourceName, at: Mapping[str, SourceStatus]) -> list[Dispute]:
    """Return the conflicts of a source, each once.

    at: the status of the source at each store that answered. A store that refused the source is
    named alone only if it differs from no other store there.
    """
    found: dict[tuple[str, ...], RangeSet] = {}
    if not any(source.conflicts for source in at.values()):
        return []  # as of most sources, of which a group may have many
    for store, source in at.items():
        for each in source.conflicts:
            if each.other:
                between = found.setdefault(tuple(sorted((store, each.other))), RangeSet())
                between.add(each.first, each.last)
    for store, source in at.items():
        alone = RangeSet(
            Range(each.first, each.last) for each in source.conflicts if not each.other
        )
        for stores, ranges in list(found.items()):
            if store in stores:
                alone = alone.minus(ranges)
        if alone:
            found[(store,)] = alone
    return [Dispute(name, stores, found[stores]) for stores in sorted(found)]


def in_dispute(source: SourceStatus, store: str, keep: str, kept: SourceStatus) -> RangeSet:
    """Return the numbers for which a store differs from the kept one, or refused the source.

    source: the status at the store. kept: the status at the kept store.
    """
    theirs = [each for each in source.conflicts if each.other in (keep, "")]
    theirs += [each for each in kept.conflicts if each.other == store]
    return RangeSet(Range(each.first, each.last) for each in theirs)
