"""The store's rules for conflicts: two contents under one number (protocol.md 11.4).

Pure. A conflict is found here among what stores report, and settled by the word of an operator.
Messages of one lineage are compared in quorate.store.tasks.comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from quorate.protocol.errors import Fenced
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import diverges_at
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules.repair_plan import OwnView, PeerView
from quorate.store.rules.set_aside import set_aside
from quorate.store.rules.source_state import Change, SourceState
from quorate.store.storage.interface import Reads


@dataclass(frozen=True, slots=True)
class Conflict:
    """A range for which this store holds other content than another store, or than the source."""

    other: str
    """The name of the other store; empty: the source, which this store refused."""
    part: Range


def parted(own: OwnView, peer: PeerView) -> Range | None:
    """Return the stable numbers for which the lineages of two stores name different epochs.

    A begin never takes back a stable message. So one of the two stores came with an old directory.
    None: there are no such numbers, or the newer stream began after the end of the older one.
    """
    if not (own.begun.epoch and peer.begun.epoch):
        return None
    older, newer = (own, peer) if own.begun.epoch < peer.begun.epoch else (peer, own)
    if older.begun.is_older_than(newer.begun.generation):
        return None
    upto = older.stable_upto
    if older.begun.epoch == newer.begun.epoch:
        upto = max(own.stable_upto, peer.stable_upto)
    first = diverges_at(own.begun.lineage, peer.begun.lineage)
    return Range(first, upto) if first <= upto else None


def conflicts(
    own: OwnView,
    peers: Iterable[PeerView],
    divergent: Mapping[str, RangeSet],
    refused: RangeSet,
) -> list[Conflict]:
    """Return every conflict of this store in one source.

    divergent: the numbers that comparison found different, by peer. refused: the numbers for which
    the store refused the source.
    """
    found = [
        Conflict(peer.store, part) for peer in peers if (part := parted(own, peer)) is not None
    ]
    for store, ranges in divergent.items():
        found += [Conflict(store, part) for part in ranges]
    return found + [Conflict("", part) for part in refused.both(own.held)]


def fence(state: SourceState, kept: PeerView) -> Change[None]:
    """End the source's stream before its messages are set aside.

    If the kept store has the older lineage, the instance that wrote the newer one is fenced for
    ever: its stable messages are taken back.
    """
    record = state.registration
    if kept.begun.epoch > record.begun.epoch:
        return Change(None, (), state.end_stream(_fenced(state, kept.begun.epoch)))
    epoch = record.promised_epoch + 1
    endings = state.end_stream(_fenced(state, epoch))
    state.registration = replace(record, promised_epoch=epoch, promised_to=b"", taken_over=True)
    return Change(None, (state.registration_row(),), endings)


def _fenced(state: SourceState, epoch: int) -> Fenced:
    return Fenced(str(state.name), state.registration.begun.epoch, epoch)


def settle(
    reads: Reads, state: SourceState, kept: PeerView, part: Range | None, ranges: RangeSet
) -> Change[int]:
    """Set aside this store's side of a conflict. Answer how many messages that are.

    - kept: the store whose content is kept.
    - part: where the lineages part (`parted`). The store sets everything from there on aside, and
      follows the kept lineage. If that one is newer, repair adopts its begin.
    - ranges: numbers of the common lineage to set aside, as far as the kept store has them.

    Every write of the source must be readable. Repair then fetches what the store lacks.
    """
    common = state.lineage.belonging(kept.held).both(ranges).both(state.held.ranges)
    parts = list(common)
    if part is not None:
        parts = [item for item in parts if item.last < part.first]
        parts.append(Range(part.first, SEQUENCE_MAX))
    count, moves = set_aside(reads, state, parts)
    if part is not None:
        _follow(state, kept, part.first)
    settled = [write for each in ranges for write in state.refusal_settled(each.first, each.last)]
    return Change(count, (state.registration_row(), state.held_row(), *moves, *settled))


def _follow(state: SourceState, kept: PeerView, first: int) -> None:
    """Count as stable only what is below `first`, and follow the kept lineage if it is older."""
    held, record = state.held, state.registration
    held.stable_upto = min(held.stable_upto, first - 1)
    held.retained_from = min(held.retained_from, first)
    held.archived_upto = min(held.archived_upto, first - 1)
    if kept.begun.epoch <= record.begun.epoch:
        state.registration = replace(record, begun=kept.begun)
    state.renew_losses()
