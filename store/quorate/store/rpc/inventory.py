"""The call Inventory: one store reports itself and its sources to another store.

The report only states facts; the store that asks decides what follows from them. A long report is
made in several turns of the event loop. Each fact in it was true at some time during the call, and
a source that exists at its end is never left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import (
    source_from_wire,
)
from quorate.store.engine import Engine
from quorate.store.rules.peer_wire import (
    source_inventory,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.source_tombstones import as_it_was
from quorate.store.tasks.peer_answers import announce_replacement
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1


async def inventory(
    engine: Engine, me: store_v1.Greeting, request: store_v1.InventoryRequest, turn: Turn
) -> AsyncIterator[store_v1.InventoryResponse]:
    """Yield the store's own inventory, then that of each requested source. All of it is durable.

    turn: the turns of this call.

    Raises StorageFailed, or InvalidArgument if the asking store has the same name.
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
        responses += [
            store_v1.InventoryResponse(source=each)
            async for each in _each_source(engine, only, turn)
        ]
    # The rows behind these answers may not be durable yet.
    await engine.writer.durable(engine.writer.submit(()))
    for response in responses:
        yield response


async def _greeted(
    engine: Engine, me: store_v1.Greeting, asker: store_v1.Greeting
) -> store_v1.Greeting | None:
    """Note the greeting of the asking store, and return the greeting remembered from before."""
    if asker.run == me.run:
        return None  # its own address is among its peers
    if asker.store_name == me.store_name or not asker.store_name or not asker.incarnation:
        raise InvalidArgument(
            "greeting",
            f"comes from {asker.address}, which calls itself {asker.store_name!r}; two stores "
            "cannot have one name: rename one of them",
        )
    met = engine.core.standing.met(asker)
    if met.is_news:
        # Sources must hear of it before this inventory is sent: see AppendCall.replaced.
        announce_replacement(engine, met, engine.core.standing.peers[asker.store_name])
    if met.writes:
        known = met.remembered
        is_new = known is None or known.run != asker.run
        commit = engine.writer.submit(met.writes, sync=is_new)
        if is_new:
            await engine.writer.durable(commit)
    return met.remembered


async def _each_source(
    engine: Engine, only: SourceName | None, turn: Turn
) -> AsyncIterator[store_v1.SourceInventory]:
    """Yield the live sources, then the deleted ones, then those that came to live meanwhile.

    A source that lives now is always among them: nothing else is done after the last look.
    """
    told: set[SourceName] = set()
    for source in _names(engine.core.sources, only):
        await turn.pause()
        if (state := engine.core.sources.get(source)) is not None:
            told.add(source)
            yield _live(engine, state)
    for source in _names(engine.core.identities.tombstones, only):
        await turn.pause()
        if (deleted := _deleted(engine, source, only)) is not None:
            yield deleted
    for source in _names(engine.core.sources, only):
        if source not in told:
            yield _live(engine, engine.core.sources[source])


def _names(known: Collection[SourceName], only: SourceName | None) -> list[SourceName]:
    if only is None:
        return list(known)
    return [only] if only in known else []


def _live(engine: Engine, state: SourceState) -> store_v1.SourceInventory:
    known = source_inventory(state, bool(engine.core.doubt_of(state)))
    known.proxy = state.name in engine.proxy_of
    known.durability = engine.durability(state.name.topic)
    return known


def _deleted(
    engine: Engine, source: SourceName, only: SourceName | None
) -> store_v1.SourceInventory | None:
    """Return the tombstone of a source that other stores may still have; None if none may.

    A source that all stores have deleted is reported only if the request names it. The number of
    such sources grows without end.
    """
    identities = engine.core.identities
    tombstone = identities.tombstones.get(source)
    is_unlisted = only is None and source in identities.unlisted
    if tombstone is None or is_unlisted or source in engine.core.sources:
        return None
    known = source_inventory(as_it_was(tombstone), bool(engine.core.limbo_without(source)))
    known.deletion, known.deleted_upto = tombstone.cause, tombstone.deleted_upto
    return known
