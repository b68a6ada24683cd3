"""The verdict on a backup of a group: whether it has every message that is stable by its own word.

Pure. The parts come from the stores, each at another moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet

if TYPE_CHECKING:
    from quorate.store.offline import OfflineSource

Parts = Mapping[str, Sequence["OfflineSource"]]
"""The sources in the parts of a backup, by the store's name."""


def problems(parts: Parts) -> list[str]:
    """Return what a backup lacks; nothing: a group can be founded anew from it."""
    at: dict[SourceName, dict[str, OfflineSource]] = {}
    for store, sources in parts.items():
        for source in sources:
            at.setdefault(source.name, {})[store] = source
    return [
        problem
        for name, of_stores in sorted(at.items())
        for problem in (*_too_few(name, of_stores, parts), *_lacking(name, of_stores))
    ]


def _too_few(name: SourceName, at: Mapping[str, OfflineSource], parts: Parts) -> Iterator[str]:
    """Yield the policies of which a stable message may be at none of the stores."""
    newest = max(at.values(), key=lambda source: source.lineage.epoch)
    if newest.membership is None:
        return
    entries = newest.information.stores if newest.information is not None else ()
    called = {entry.name: entry.store_name or entry.name for entry in entries}
    doubted = {store for store, source in at.items() if source.limbo}
    for policy in newest.membership.policies:
        sure = {each for each in policy.stores if called.get(each, each) in parts.keys() - doubted}
        if not policy.blocks(sure):
            yield (
                f"A stable message of {name} may be in no part of the backup: its policy is "
                f"{policy}, and of these stores there are {', '.join(sorted(sure)) or 'none'}."
            )


def _lacking(name: SourceName, at: Mapping[str, OfflineSource]) -> Iterator[str]:
    """Yield the stable messages that no part has. A part may know of more than it holds."""
    newest = max(at.values(), key=lambda source: source.lineage.epoch)
    first = max(source.retained_from for source in at.values())
    last = max(source.stable_upto for source in at.values())
    if first > last:
        return
    has = RangeSet()
    for source in at.values():
        for part in (*newest.lineage.belonging(source.held), *source.lost):
            has.add(part.first, part.last)
    lacking = [Range(each.first, each.last) for each in has.holes(first, last)]
    if lacking:
        yield f"No part of the backup has {', '.join(map(str, lacking))} of {name}."
