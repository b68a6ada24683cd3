"""Deleting a source: in two phases, with a tombstone, never by absence (protocol.md 14).

First the source goes out of service, and a tombstone takes the place of its rows in one commit.
Its messages stay where they are. After a grace period the store drops them from the index, in
bounded steps. They leave the journal like any released batch (quorate.store.rules.retention). Pure.

A store that deleted a source must not vouch for what it lacks of it. Peers may still have the
source. A message that was stable on this store and one peer is then on that peer alone. So the
tombstone answers like a store in limbo until the deletion is settled.

A deletion is settled when every other store that may have had a part has deleted it too. For a
deregistered source it suffices that the stores that have not are no blocking set. No registration
can then go on with the source without hearing that it was ended.

If the source lives on elsewhere, or is back and asks for it, the tombstone gives back what it has.
The source is in limbo then if some of its messages are gone. A source that never began here needs
none of this: the tombstone remembers the promise, which is all there ever was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import starmap

from quorate.protocol.errors import NotRegistered
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import RangeSet
from quorate.protocol.wire import membership_from_wire
from quorate.store.rules.identity_records import (
    Tombstone,
    ended_key,
    gone_key,
    life_key,
    pack_tombstone,
)
from quorate.store.rules.lifetimes import Owner
from quorate.store.rules.peer_knowledge import (
    UNKNOWN,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.receiver_tombstones import spent_by_all
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import refusal_key, unreadable_key
from quorate.store.storage.records import (
    Held,
    Registration,
    limbo_key,
    marker_key,
    pack_marker,
    receiver_key,
    reg_id_key,
)
from quorate.v1 import store_pb2 as store_v1

GIVEN_BACK = "it was deleted here, and what is back of it may not be all"


def bury(
    state: SourceState, cause: store_v1.Deletion, wall: float, *, blind: bool, upto: int = 0
) -> tuple[Tombstone, list[Write]]:
    """Do the first phase: return the tombstone of a source, and the rows that delete the source.

    upto: the epoch up to which the source is to be deleted, by the request.

    blind: the store could not vouch for what it lacks of it. Unreadable messages do not count as
    lacking. If the source is given back, reading finds them again.
    """
    tombstone = Tombstone(
        state.reg_id,
        replace(state.registration, spent_receiver_epoch=spent_by_all(state)),
        state.held,
        cause,
        wall,
        blind,
        state.markers,
        ended={receiver: replace(end, reread=True) for receiver, end in state.ended.items()},
        receivers={each: replace(row, instance=b"") for each, row in state.receivers.items()},
        deleted_upto=upto,
    )
    key = reg_id_key(state.reg_id)
    writes = [
        tombstone_row(tombstone),
        Write(Table.REGISTRATIONS, key, None),
        Write(Table.HELD, key, None),
        Write(Table.META, limbo_key(state.reg_id), None),
        Write(Table.META, unreadable_key(state.reg_id), None),
        Write(Table.META, refusal_key(state.reg_id), None),
        Write(Table.META, life_key(state.reg_id), None),
        *state.drop_markers(0),
    ]
    for session_id in state.receivers:
        writes += receiver_rows(state, session_id)
    writes += (Write(Table.META, ended_key(state.reg_id, each), None) for each in state.ended)
    return tombstone, writes


def receiver_rows(state: SourceState, session_id: int) -> list[Write]:
    """Return the writes that delete a receiver."""
    return [
        Write(Table.RECEIVERS, receiver_key(state.reg_id, session_id), None),
        Write(Table.META, life_key(state.reg_id, session_id), None),
    ]


def tombstone_row(tombstone: Tombstone) -> Write:
    return Write(Table.META, gone_key(tombstone.registration.name), pack_tombstone(tombstone))


def purge(reads: Reads, tombstone: Tombstone, rows_max: int) -> tuple[Tombstone, list[Write]]:
    """The second phase, a part of it; the last one says that it is emptied."""
    writes = rows_gone(reads, tombstone.reg_id, rows_max)
    emptied = not writes
    if emptied or not tombstone.dropped:
        # With the first rows, so that what is left of them is never taken for all.
        tombstone = replace(tombstone, dropped=True, emptied=emptied)
        writes.append(tombstone_row(tombstone))
    return tombstone, writes


def rows_gone(reads: Reads, reg_id: int, rows_max: int) -> list[Write]:
    """Return the writes that remove so many rows that are filed under a RegID."""
    writes: list[Write] = []
    for table, key, position, size in index.rows_of(reads, reg_id, rows_max):
        writes.append(Write(table, key, None))
        if position is not None:
            writes.append(index.may_leave(reg_id, position, size))
    return writes


def brought_back(tombstone: Tombstone) -> tuple[SourceState, list[Write]]:
    """The source as it was; in limbo, without its messages, if they are gone already.

    Otherwise this store vouches as if it had been cut off meanwhile, since it promised and took
    nothing. A store that could not vouch before still cannot.

    Receivers are as before, including the deregistered ones. A store that was away may not know
    that they were deregistered, and other stores rely on this one to tell it.
    """
    held = tombstone.held
    is_gone = tombstone.dropped and not had_nothing(tombstone)
    limbo = GIVEN_BACK if is_gone or tombstone.blind else ""
    if tombstone.dropped:
        held = replace(held, ranges=RangeSet(), next_sequence=0, released_bytes=held.bytes)
    markers = () if tombstone.dropped else tombstone.markers
    state = SourceState(
        tombstone.reg_id,
        tombstone.registration,
        held,
        markers=markers,
        limbo=limbo,
        ended=dict(tombstone.ended),
        receivers={each: replace(row) for each, row in tombstone.receivers.items()},
    )
    writes = [
        *(
            Write(Table.MARKERS, marker_key(state.reg_id, marker.sequence), pack_marker(marker))
            for marker in markers
        ),
        *map(state.ended_row, state.ended),
        *starmap(state.receiver_row, state.receivers.items()),
        state.registration_row(),
        state.held_row(),
        state.limbo_row(),
        Write(Table.META, gone_key(state.name), None),
    ]
    return state, writes


def as_it_was(tombstone: Tombstone) -> SourceState:
    """Return the state that the store reports for the source while it is deleted."""
    return brought_back(tombstone)[0]


def had_nothing(tombstone: Tombstone) -> bool:
    """Whether this store remembers all that it ever knew of the source: whom it promised what.

    It began nothing, and took nothing: what it lacks it lacked before as well.
    """
    record = tombstone.registration
    return not (tombstone.blind or record.begun_epoch or tombstone.held.ranges)


def doubted(tombstone: Tombstone) -> Tombstone:
    """Return the tombstone at a store that enters limbo. It may have had a part in later ones."""
    return replace(tombstone, blind=True)


# The answers of peers.


def _has_deleted(peer: PeerAnswer, source: SourceName) -> bool:
    """Whether the peer has nothing of the source any more, or never had."""
    known = peer.sources.get(source)
    if known is None or known.deletion:
        return True
    return known.begun_epoch == 0 and not known.held


def _is_unsure(peer: PeerAnswer, source: SourceName) -> bool:
    """Return whether the peer may have known more than it reports.

    So it is if the peer is in limbo as a whole, or for the rest of the source there.
    """
    known = peer.sources.get(source)
    return peer.limbo or (known is not None and known.limbo and not known.deletion)


def policies(record: Registration) -> tuple[Policy, ...]:
    """In force, as far as is known."""
    membership = record.membership
    return membership_from_wire(membership).policies if membership is not None else ()


def others(record: Registration, me: str) -> frozenset[str]:
    """Every other store that may have a part of a source.

    The record in force names them, apart from members that a backup stands in for. The source has
    left the other stores that its last information names.
    """
    in_force, names = policies(record), _informed(record)
    if in_force:
        names &= {store for policy in in_force for store in policy.backups}
        names |= {store for policy in in_force for store in policy.stores}
    return frozenset(names - {me})


def known_to_receivers(record: Registration, me: str) -> frozenset[str]:
    """Every other store that receivers of a source may deal with: those, and whoever it named when
    it was heard last. As long as nobody tells them otherwise, receivers go on with these."""
    return others(record, me) | (_informed(record) - {me})


def _informed(record: Registration) -> set[str]:
    information = record.information
    return {store.name for store in information.stores} if information is not None else set()


@dataclass(frozen=True, slots=True)
class View:
    """The answers that peers gave since the source was deleted here."""

    me: str
    """The name of this store."""
    peers: Mapping[str, PeerAnswer]
    """By the store's name. Names are those that the source's policies use."""
    complete: bool
    """Every configured peer is among them."""


def gone_everywhere(tombstone: Tombstone, view: View) -> bool:
    """Whether every other store that may have a part of it has said that it deleted it, too.

    Answers of different times are not enough. One store may have given the source back since it
    answered. Another may have adopted it from there before its own deletion.
    """
    source = tombstone.registration.name
    named = _asked(tombstone, view)
    if tombstone.blind or not named:
        if not view.complete:
            return False
        named |= view.peers.keys()
    if not all(store in view.peers and _has_deleted(view.peers[store], source) for store in named):
        return False
    # The sure stores may know everything that counts.
    unsure = {store for store in named if _is_unsure(view.peers[store], source)}
    sure = (named - unsure) | {view.me}
    return not unsure or (not tombstone.blind and _know_all_that_counts(tombstone, view, sure))


def _asked(tombstone: Tombstone, view: View) -> frozenset[str]:
    """Return every other store that may have a part of it.

    Peers that deleted it may name more: this store may have been away when the stores changed.
    """
    named = others(tombstone.registration, view.me)
    return named.union(*map(_stores_of, _begun_since(tombstone, view))) - {view.me}


def _stores_of(known: SourceKnowledge) -> Set[str]:
    in_force = known.membership.policies if known.membership is not None else ()
    return {store for policy in in_force for store in policy.stores}


def _begun_since(tombstone: Tombstone, view: View) -> list[SourceKnowledge]:
    """The newest that peers had begun which deleted the source, if this store missed that."""
    source, begun = tombstone.registration.name, tombstone.registration.begun_epoch
    told = (peer.sources.get(source) for peer in view.peers.values())
    gone = [known for known in told if known is not None and known.deletion]
    newest = max((known.begun_epoch for known in gone), default=0)
    return [known for known in gone if begun < known.begun_epoch == newest]


def _know_all_that_counts(tombstone: Tombstone, view: View, sure: Set[str]) -> bool:
    """Return whether these stores know everything, also by policies that came into force since.

    A set that suffices by the older policies has a store that began under the next ones.
    """
    return _know_everything(tombstone, sure) and all(
        known.membership is not None and _are_enough(known.membership.policies, sure)
        for known in _begun_since(tombstone, view)
    )


def _know_everything(tombstone: Tombstone, sure: Set[str]) -> bool:
    """Whether these stores know every promise and every message that may be stable.

    A stable set, for the rest is no blocking set then, and a blocking set.
    """
    return _are_enough(policies(tombstone.registration), sure)


def _are_enough(in_force: Sequence[Policy], sure: Set[str]) -> bool:
    return bool(in_force) and all(
        policy.stable(policy.stores & sure) and policy.blocks(policy.stores & sure)
        for policy in in_force
    )


def awaited(tombstone: Tombstone, view: View) -> str:
    """Return the stores that the settling of the deletion waits for, as text for people."""
    source, told = tombstone.registration.name, view.peers
    named = _asked(tombstone, view)
    asks_all = tombstone.blind or not named
    named |= told.keys() if asks_all else frozenset()
    unheard = named - told.keys()
    having = {store for store in named - unheard if not _has_deleted(told[store], source)}
    unsure = {store for store in named - unheard - having if _is_unsure(told[store], source)}
    parts = {
        "these have not been heard since": unheard,
        "these still have it": having,
        "these are in limbo": unsure,
    }
    texts = [f"{what}: {', '.join(sorted(stores))}" for what, stores in parts.items() if stores]
    if asks_all and not view.complete and not unheard:
        texts.append("not every peer has been heard since")
    return "; ".join(texts)


def settled(tombstone: Tombstone, view: View, is_gone: bool) -> bool:
    """Whether this store can vouch for what it lacks of a source that it deleted.

    is_gone: every other store that may have a part of it has deleted it too, at one time.
    """
    if is_gone or had_nothing(tombstone) or _was_settled(tombstone, view):
        return True
    if tombstone.cause != store_v1.DELETION_DEREGISTERED or tombstone.blind:
        return False
    return _know_all_that_counts(tombstone, view, _told(tombstone, view))


def _told(tombstone: Tombstone, view: View) -> Set[str]:
    """The stores that tell whoever asks them that this stream was ended.

    A store that deleted only an earlier stream was not told. A store that began nothing of it does
    not count: the instance that told it may have been fenced elsewhere.
    """
    upto = ended_epoch(tombstone)
    return {view.me} | {
        name
        for name, peer in view.peers.items()
        if (known := peer.sources.get(tombstone.registration.name)) is not None
        and known.deletion == store_v1.DELETION_DEREGISTERED
        and _tells_end(known, upto)
    }


def _tells_end(known: SourceKnowledge, upto: int) -> bool:
    """Whether the tombstone of a peer says so of everything up to this epoch."""
    return known.begun_epoch > 0 and max(known.begun_epoch, known.deleted_upto) >= upto


def deregistered_since(tombstone: Tombstone, view: View) -> int:
    """Up to which epoch a peer that began the source was told that it is over; 0: that is no news.

    It is the owner's word, which this store has missed; nobody else brings it. The rest may not be
    enough without this store.
    """
    if tombstone.blind:
        return 0
    record = tombstone.registration
    peers = [each.sources.get(record.name) for each in view.peers.values()]
    known = [each for each in peers if each is not None]
    told = [
        each.deleted_upto
        for each in known
        if each.deletion == store_v1.DELETION_DEREGISTERED and each.begun_epoch
    ]
    upto = max(told, default=0)
    goes_on = any(not each.deletion and (each.live or each.begun_epoch > upto) for each in known)
    is_news = upto > tombstone.deleted_upto and upto >= record.promised_epoch
    return upto if is_news and not goes_on else 0


def _was_settled(tombstone: Tombstone, view: View) -> bool:
    """Return whether a peer reports that this stream was ended.

    The end was settled then at some store, and the source registered anew. A blind tombstone does
    not count, as its store may have had a part in the next stream.
    """
    upto = ended_epoch(tombstone)
    return 0 < upto <= _told_ended(tombstone, view) and not tombstone.blind


def _told_ended(tombstone: Tombstone, view: View) -> int:
    """The newest epoch of a stream of this source that was ended, as far as any peer says."""
    told = (peer.sources.get(tombstone.registration.name) for peer in view.peers.values())
    return max((known.ended_epoch for known in told if known is not None), default=0)


def may_expire(record: Registration, view: View) -> bool:
    """Return whether a source may expire of which this store has heard nothing for its lifetime.

    No other store that may have a part of it has heard of its owner. And those that heard nothing
    for the whole lifetime are a blocking set: without them no message became stable. It suffices as
    well that every configured peer has heard nothing. Some stores may be switched off.
    """
    told = {store: peer.knowledge(record.name) for store, peer in view.peers.items()}
    newest = max(told.values(), key=lambda known: known.begun_epoch, default=UNKNOWN)
    in_force, named = policies(record), others(record, view.me)
    if newest.begun_epoch > record.begun_epoch and newest.membership is not None:
        # This store missed that begin. Its stores need not be those of the own record.
        in_force, named = newest.membership.policies, frozenset(_stores_of(newest))
    if any(_hears_owner(known) and (store in named or not named) for store, known in told.items()):
        return False
    silent = {view.me} | {s for s, peer in view.peers.items() if _is_silent(peer, record.name)}
    if view.complete and view.peers.keys() <= silent:
        return True
    return all(policy.blocks(policy.stores & silent) for policy in in_force)


def _hears_owner(known: SourceKnowledge) -> bool:
    return known.owner is Owner.HEARD and not known.deletion


def _is_silent(peer: PeerAnswer, source: SourceName) -> bool:
    """Return whether the peer has heard nothing for the whole lifetime, or has deleted it."""
    known = peer.sources.get(source)
    if known is None:
        return not peer.limbo
    return known.owner is Owner.SILENT or bool(known.deletion)


def _believed(tombstone: Tombstone, view: View) -> Set[str]:
    """The peers at whose word a source is back: those that are asked before this is settled.

    No others: who followed the word of one that the source has left behind could go on alone with
    what is over for everybody else. And no fewer: one that is asked, and not believed, could keep
    this from being settled for ever.
    """
    named = _asked(tombstone, view)
    # A blind tombstone vouches for nothing, so a wrong answer does no harm. A tombstone that names
    # no store has only the configured peers to believe.
    return view.peers.keys() if tombstone.blind or not named else named


def lives_on(tombstone: Tombstone, view: View) -> bool:
    """Whether the source has been heard of at a peer since it was deleted here."""
    record, believed = tombstone.registration, _believed(tombstone, view)
    return any(
        (known.live and store in believed) or known.begun_epoch > _deleted_upto(tombstone)
        for store, peer in view.peers.items()
        if (known := peer.sources.get(record.name)) is not None and not known.deletion
    )


def is_heard_of(tombstone: Tombstone, view: View) -> bool:
    """Return whether the owner of an expired source is heard of where the source still is.

    That was not so at any store that could be asked when it expired here.
    """
    believed = _believed(tombstone, view)
    return tombstone.cause == store_v1.DELETION_EXPIRED and any(
        store in believed and _hears_owner(known) and known.begun_epoch > known.ended_epoch
        for store, peer in view.peers.items()
        if (known := peer.sources.get(tombstone.registration.name)) is not None
    )


def begun_anew(tombstone: Tombstone, view: View) -> bool:
    """Return whether the source lives on as another stream.

    Either its stores gave up messages that were stable here, or a peer reports that this stream was
    ended.
    """
    source, lineage = tombstone.registration.name, tombstone.registration.lineage
    if 0 < tombstone.registration.begun_epoch <= _told_ended(tombstone, view):
        return True
    return any(
        known.begun_epoch > _deleted_upto(tombstone)
        and diverges_at(lineage, known.lineage) <= tombstone.held.stable_upto
        for peer in view.peers.values()
        if (known := peer.sources.get(source)) is not None and not known.deletion
    )


def ended_epoch(tombstone: Tombstone) -> int:
    """Return the epoch up to which nothing counts any more, once this deletion is settled.

    A mere promise does not count, since another stream may have begun below it. Where the store
    began nothing, the epoch that it was told does not count: the teller may have been fenced.
    """
    record = tombstone.registration
    return max(_deleted_upto(tombstone) if record.begun_epoch else 0, record.ended_epoch)


def _deleted_upto(tombstone: Tombstone) -> int:
    """The newest epoch of the stream that was deleted, as far as this store was told."""
    return max(tombstone.registration.begun_epoch, tombstone.deleted_upto)


def check_not_ended(
    store: str, source: SourceName, lineage: Lineage, told: int, ended: int
) -> None:
    """Raise NotRegistered if a lineage goes on with a stream that this store has deleted.

    told: the end of which the deciding instance had heard. A lower one than `ended` means that the
    promises that it rests on came before the deletion.
    """
    if told < ended and lineage.reaches_back_to(ended):
        raise NotRegistered(str(source), f"store {store} has deleted it up to epoch {ended}")


def void(tombstone: Tombstone) -> Tombstone:
    """Return the tombstone of a source that lives on as another stream: only its fences remain.

    Nothing of the new stream was ever here, unless this store could not vouch before.
    """
    record = tombstone.registration
    return replace(
        tombstone,
        dropped=False,
        deleted_upto=0,
        registration=Registration(
            record.name,
            record.promised_epoch,
            record.promised_to,
            ended_epoch=record.ended_epoch,
            fences=True,
            spent_receiver_epoch=record.spent_receiver_epoch,
        ),
        held=Held(RangeSet()),
        markers=(),
        ended={},
        receivers={},
    )
