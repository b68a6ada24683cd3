"""The call Inventory: what one store tells another of itself and of every source; and its reading.

Nothing here decides what follows from it: see quorate.store.limbo.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterator
from typing import NamedTuple

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import (
    held_from_wire,
    held_to_wire,
    lineage_from_wire,
    lineage_to_wire,
    markers_from_wire,
    markers_to_wire,
    membership_from_wire,
    source_from_wire,
    source_to_wire,
)
from quorate.store.deletion import as_it_was
from quorate.store.engine import Engine
from quorate.store.lifetimes import Who
from quorate.store.limbo import Heard, Met, PeerAnswer, SourceKnowledge, knows, replacement
from quorate.store.pace import is_busy_peer
from quorate.store.receivers import ended_receivers, statuses
from quorate.store.state import SourceState
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY

_log = logging.getLogger("quorate.store.inventory")


async def inventory(
    engine: Engine, me: store_v1.Greeting, request: store_v1.InventoryRequest
) -> AsyncIterator[store_v1.InventoryResponse]:
    """The store, then each source that was asked for; all of it durable.

    Raises InvalidArgument if another store of this name asks, StorageFailed.
    """
    asker = request.greeting
    remembered = await _greeted(engine, me, asker) if request.HasField("greeting") else None
    record = engine.core.standing.record
    responses = [
        store_v1.InventoryResponse(
            store=store_v1.StoreInventory(
                store=me,
                limbo=bool(engine.core.standing.limbo),
                blank=record.blank,
                founders=record.founders,
                remembered=remembered,
                known=engine.core.standing.peers.values(),
            )
        )
    ]
    only = source_from_wire(request.source) if request.HasField("source") else None
    if not request.without_sources:
        each_source = (*_sources(engine, only), *_deleted(engine, only))
        responses += (store_v1.InventoryResponse(source=each) for each in each_source)
    # What was said of them may still be on its way to the disk.
    await engine.writer.durable(engine.writer.submit(()))
    for response in responses:
        yield response


async def _greeted(
    engine: Engine, me: store_v1.Greeting, asker: store_v1.Greeting
) -> store_v1.Greeting | None:
    """Take note of who asks; what was known of it before."""
    if asker.run == me.run:
        return None  # its own address is among its peers
    if asker.store_name == me.store_name or not asker.store_name or not asker.incarnation:
        raise InvalidArgument(
            "greeting",
            f"comes from {asker.address}, which calls itself {asker.store_name!r}; two stores can "
            "not have one name: rename one of them",
        )
    met = engine.core.standing.met(asker)
    if met.is_news:
        # Before it is said what is held here: see AppendCall.replaced.
        _tell(engine, met, engine.core.standing.peers[asker.store_name])
    if met.writes:
        known = met.remembered
        is_new = known is None or known.run != asker.run
        commit = engine.writer.submit(met.writes, sync=is_new)
        if is_new:
            await engine.writer.durable(commit)
    return met.remembered


def _sources(engine: Engine, only: SourceName | None) -> Iterator[store_v1.SourceInventory]:
    sources = engine.core.sources
    for state in [sources[each] for each in _names(sources, only)]:
        known = _source(state, bool(engine.core.doubt_of(state)))
        known.proxy = state.name in engine.proxy_of
        known.durability = engine.durability(state.name.topic)
        yield known


def _names(known: Collection[SourceName], only: SourceName | None) -> list[SourceName]:
    if only is None:
        return list(known)
    return [only] if only in known else []


def _deleted(engine: Engine, only: SourceName | None) -> Iterator[store_v1.SourceInventory]:
    """What this store remembers of sources that it deleted, and others may still have.

    Of one that all have deleted as well only who asks for it is told: there are ever more of them.
    """
    identities = engine.core.identities
    unlisted = identities.unlisted if only is None else frozenset()
    for source in _names(identities.tombstones, only):
        tombstone = identities.tombstones[source]
        if source in unlisted or source in engine.core.sources:
            continue
        known = _source(as_it_was(tombstone), bool(engine.core.limbo_without(source)))
        known.deletion, known.deleted_upto = tombstone.cause, tombstone.deleted_upto
        yield known


class Question(NamedTuple):
    """How a peer was asked."""

    greeting: store_v1.Greeting
    since: int
    """The moment of the store's standing then."""
    at: float
    """By this store's clock, in seconds, monotonic."""


class AskAgain:
    """The store can name now what the peer remembers of it."""


def heard_from(
    engine: Engine,
    asked: Question,
    answer: PeerAnswer,
    who: store_v1.Greeting,
    now: float,
    before: Heard | None,
) -> Heard | AskAgain | None:
    """What a peer's answer is worth; None: nothing, as it has yet to hear who this store is now.

    who: how it presents itself. before: its answer before this one.
    """
    record = engine.core.standing.record
    if asked.greeting.incarnation != record.incarnation:
        return None
    counts = _take_note(engine, asked, answer, who)
    if not counts and tuple(asked.greeting.former) != engine.core.standing.record.former:
        return AskAgain()
    is_known = before is not None and before.answer.incarnation == answer.incarnation
    first = before.first if before is not None and is_known else now
    busy = is_busy_peer(before, answer, now, in_limbo=engine.core.in_limbo)
    return Heard(answer, asked.at, now, first, counts, busy)


def _take_note(engine: Engine, asked: Question, answer: PeerAnswer, who: store_v1.Greeting) -> bool:
    """Learn from a peer's answer what it was itself before, and which stores were replaced: it is
    written before what follows. Returns whether the answer counts."""
    standing = engine.core.standing
    present = standing.met(who, asked.since)
    for met, name in (
        (present, who.store_name),
        *((standing.heard_of(third), third.store_name) for third in answer.known),
    ):
        if met.is_news:
            _tell(engine, met, standing.peers[name])
        if met.writes:
            engine.writer.submit(met.writes, sync=met.is_news)
    if answer.remembered is not None and (rows := standing.comes_after(answer.remembered)):
        engine.writer.submit(rows)
    counts = present.is_present and knows(asked.greeting, answer.remembered)
    if counts:
        _note_lives(engine, answer)
    return counts


def _note_lives(engine: Engine, answer: PeerAnswer) -> None:
    """A source that streams to a peer lives here, too. Noted at once: the next answer may say
    otherwise before anybody looks at this one."""
    for source, known in answer.sources.items():
        if known.live and source in engine.core.sources:
            engine.core.identities.lives.heard_elsewhere(Who(source))


def _tell(engine: Engine, met: Met, present: store_v1.Greeting) -> None:
    """Tell the sources, and people, of an incarnation that was not known."""
    engine.replaced(replacement(present))
    if met.remembered is not None:
        _log.info(
            "store %s is another one than before, at %s: it lost its data, was put back from a "
            "copy, or two stores have one name; what it had acknowledged counts no more",
            present.store_name,
            present.address,
        )


def knowledge_of(state: SourceState, limbo: bool) -> SourceKnowledge:
    """What a store knows of a source, as its peers would hear it."""
    return _knowledge(_source(state, limbo))


def _source(state: SourceState, limbo: bool) -> store_v1.SourceInventory:
    record = state.registration
    return store_v1.SourceInventory(
        source=source_to_wire(state.name),
        promised_epoch=record.promised_epoch,
        promised_to=record.promised_to,
        begun_epoch=record.begun_epoch,
        lineage=lineage_to_wire(record.lineage),
        membership=record.membership,
        held=held_to_wire(state.held_by_epoch()),
        stable_upto=state.held.stable_upto,
        limbo=limbo,
        live=state.live,
        clean=record.clean,
        information=record.information,
        receivers=statuses(state),
        accepted_losses=held_to_wire(state.lineage.parted(state.lost())),
        reg_id=state.reg_id,
        retained_from=state.held.retained_from,
        markers=markers_to_wire(state.markers),
        ended_epoch=record.ended_epoch,
        ended_receivers=ended_receivers(state),
        may_miss_receivers=record.may_miss_receivers,
        spent_receiver_epoch=record.spent_receiver_epoch,
    )


async def read_inventory(
    address: str, responses: AsyncIterable[store_v1.InventoryResponse]
) -> tuple[PeerAnswer, store_v1.Greeting]:
    """A peer's answer, and how it presents itself; raises InvalidArgument if it is impossible."""
    store: store_v1.StoreInventory | None = None
    sources: dict[SourceName, SourceKnowledge] = {}
    async for response in responses:
        if response.HasField("store"):
            store = response.store
        else:
            name = source_from_wire(response.source.source)
            sources[name] = _knowledge(response.source)
    if store is None:
        raise InvalidArgument("inventory", f"{address} does not say who it is")
    answer = PeerAnswer(
        store.store.store_name,
        address,
        store.store.incarnation,
        store.store.starts,
        store.limbo,
        store.blank,
        tuple(store.founders),
        store.remembered if store.HasField("remembered") else None,
        sources,
        tuple(store.known),
        store.store.address,
    )
    return answer, store.store


def _knowledge(wire: store_v1.SourceInventory) -> SourceKnowledge:
    return SourceKnowledge(
        wire.promised_epoch,
        wire.promised_to,
        wire.begun_epoch,
        lineage_from_wire(wire.lineage),
        membership_from_wire(wire.membership) if wire.HasField("membership") else None,
        held_from_wire(wire.held),
        wire.stable_upto,
        wire.limbo,
        wire.live,
        wire.clean,
        wire.information if wire.HasField("information") else None,
        tuple(wire.receivers),
        held_from_wire(wire.accepted_losses),
        wire.deletion,
        wire.proxy,
        wire.reg_id,
        wire.retained_from,
        markers_from_wire(wire.markers),
        wire.durability != DURABILITY_STATE_ONLY,
        wire.ended_epoch,
        tuple(wire.ended_receivers),
        wire.may_miss_receivers,
        wire.spent_receiver_epoch,
        wire.deleted_upto,
    )
