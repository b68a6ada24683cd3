"""Ended sources: what a store keeps of them, and for how long (protocol.md 14.2 to 14.6).

A source ends by a begin, like any other, that names no message and begins a new generation. In the
store a row of the end takes the place of the source. The stream before it stays on the disk as it
was, because a newer begin may still go on with it. Once the end is on a stable set of stores, its
receivers, positions and markers go at once. Its messages go after a grace period, in bounded steps,
and leave the journal like any released batch (quorate.store.rules.retention).

The row itself stays. Peers no longer hear of it once every store that the end names has it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from quorate.protocol.begin import BeginRecord
from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.store.rules.identity_records import (
    EndRecord,
    ended_key,
    gone_key,
    life_key,
    pack_end_record,
)
from quorate.store.rules.named_stores import others
from quorate.store.rules.peer_knowledge import PeerAnswer, SourceKnowledge
from quorate.store.rules.receiver_tombstones import spent_by_all
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.storage.interface import Reads, Table, Write
from quorate.store.storage.maintenance_records import refusal_key, unreadable_key
from quorate.store.storage.records import (
    Held,
    Registration,
    limbo_key,
    receiver_key,
    reg_id_key,
)


@dataclass(eq=False, slots=True)
class EndedSource:
    """A source that has ended, or of which there is nothing but a promise."""

    state: SourceState
    """The end, as a source without messages. It answers whoever registers."""
    ended_at: float = 0.0
    """The wall time at which the store began the end."""
    former: SourceState | None = None
    """The stream before, until the end is durable; None: it is void, or never was here."""
    durable: bool = False
    emptied: bool = True
    settled: bool = False
    of_this_run: bool = False
    """Whether the store began the end since it started."""
    unlisted: bool = False
    """Whether only peers that ask for this source hear of it."""

    @property
    def epoch(self) -> int:
        """The epoch of the end; 0: only a promise is kept."""
        return self.state.registration.begun.epoch

    @property
    def being_emptied(self) -> bool:
        """Whether messages of a void stream are still filed under the RegID."""
        return self.former is None and not self.emptied

    @property
    def is_over(self) -> bool:
        """Whether only the row is left, and no peer has to hear of it."""
        return self.unlisted and self.emptied

    def held_by_epoch(self) -> tuple[HeldRange, ...]:
        """Return what is held of the stream before, for a newer begin that may go on with it."""
        return self.former.held_by_epoch() if self.former is not None else ()

    def row(self) -> Write:
        state = self.state
        record = EndRecord(
            state.registration,
            state.reg_id,
            self.ended_at,
            state.limbo,
            self.durable,
            self.emptied,
            self.settled,
        )
        return Write(Table.META, gone_key(state.name), pack_end_record(record))

    def row_gone(self) -> Write:
        return Write(Table.META, gone_key(self.state.name), None)


def restored(record: EndRecord, former: SourceState | None) -> EndedSource:
    """Return an ended source as the disk has it.

    former: the stream before, if its rows are there.
    """
    state = SourceState(record.reg_id, record.registration, Held(RangeSet()), limbo=record.limbo)
    return EndedSource(
        state, record.ended_at, former, record.durable, record.emptied, record.settled
    )


def end_of(record: Registration, end: BeginRecord, spent_receiver_epoch: int) -> Registration:
    """Return the record of a source that ends by this begin. record: with the promise of it."""
    return replace(
        record,
        begun=end,
        clean=False,
        may_miss_receivers=False,
        spent_receiver_epoch=max(record.spent_receiver_epoch, spent_receiver_epoch),
    )


def ended(former: SourceState, record: Registration, wall: float) -> EndedSource:
    """Return the end of a source that was live. record: see `end_of`."""
    state = SourceState(former.reg_id, record, Held(RangeSet()), takes_data=former.takes_data)
    return EndedSource(state, wall, former, emptied=False, of_this_run=True)


def ended_again(known: EndedSource, record: Registration, wall: float) -> EndedSource:
    """Return the end of a source that had ended already. record: see `end_of`."""
    state = replace(known.state, registration=record, limbo="")
    return replace(
        known,
        state=state,
        ended_at=wall,
        durable=False,
        settled=False,
        of_this_run=True,
        unlisted=False,
    )


def spent_receiver_epoch(former: SourceState | None) -> int:
    """Return the highest epoch in which any receiver of a stream ended, now that it has ended."""
    return spent_by_all(former) if former is not None else 0


# The rows of the stream before.


def rows_of_state_gone(state: SourceState) -> list[Write]:
    """Return the writes that remove everything of a source but its messages."""
    key = reg_id_key(state.reg_id)
    writes = [
        Write(Table.REGISTRATIONS, key, None),
        Write(Table.HELD, key, None),
        Write(Table.META, limbo_key(state.reg_id), None),
        Write(Table.META, unreadable_key(state.reg_id), None),
        Write(Table.META, refusal_key(state.reg_id), None),
        Write(Table.META, life_key(state.reg_id), None),
        *state.drop_markers(0),
    ]
    for session_id in state.receivers:
        writes += receiver_rows_gone(state, session_id)
    writes += (Write(Table.META, ended_key(state.reg_id, each), None) for each in state.ended)
    return writes


def receiver_rows_gone(state: SourceState, session_id: int) -> list[Write]:
    """Return the writes that remove a receiver."""
    return [
        Write(Table.RECEIVERS, receiver_key(state.reg_id, session_id), None),
        Write(Table.META, life_key(state.reg_id, session_id), None),
    ]


def rows_gone(reads: Reads, reg_id: int, rows_max: int) -> list[Write]:
    """Return the writes that remove so many rows that are filed under a RegID."""
    writes: list[Write] = []
    for table, key, position, size in index.rows_of(reads, reg_id, rows_max):
        writes.append(Write(table, key, None))
        if position is not None:
            writes.append(index.may_leave(reg_id, position, size))
    return writes


# The answers of peers.


@dataclass(frozen=True, slots=True)
class View:
    """The answers that peers gave."""

    me: str
    """The name of this store in the source's policies."""
    peers: Mapping[str, PeerAnswer]
    """By the name that the source's policies have for the peer."""

    def adopted(self, known: EndedSource) -> set[str]:
        """Return the stores that have begun an end, or a stream after it."""
        source, epoch = known.state.name, known.epoch
        return {self.me} | {
            store
            for store, peer in self.peers.items()
            if peer.knowledge(source).begun.generation >= epoch
        }


def is_durable(known: EndedSource, view: View) -> bool:
    """Return whether an end is on a stable set of each policy that it names."""
    in_force, adopted = known.state.registration.begun.policies, view.adopted(known)
    return bool(in_force) and all(policy.stable(policy.stores & adopted) for policy in in_force)


def is_settled(known: EndedSource, view: View) -> bool:
    """Return whether every store that an end names has adopted it."""
    return others(known.state.registration, view.me) <= view.adopted(known)


def may_be_unlisted(known: EndedSource, view: View) -> bool:
    """Return whether no peer has to hear of an end any more.

    Each store that the end names knows that all of them have adopted it. A peer that no longer
    mentions the source has come to that before.
    """
    named = others(known.state.registration, view.me)
    return known.settled and all(
        store in view.peers and _needs_no_word(view.peers[store], known) for store in named
    )


def _needs_no_word(peer: PeerAnswer, known: EndedSource) -> bool:
    theirs: SourceKnowledge | None = peer.sources.get(known.state.name)
    if theirs is None:
        return not peer.limbo
    is_later = theirs.begun.epoch > known.epoch
    return theirs.begun.generation >= known.epoch and (theirs.settled or is_later)
