"""The call Inventory: one store reports itself and its sources to another store.

The report only states facts; the store that asks decides what follows from them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import (
    source_from_wire,
)
from quorate.store.engine import Engine
from quorate.store.rules.peer_wire import (
    source_inventory,
)
from quorate.store.rules.source_tombstones import as_it_was
from quorate.store.tasks.peer_answers import announce_replacement
from quorate.v1 import store_pb2 as store_v1


async def inventory(
    engine: Engine, me: store_v1.Greeting, request: store_v1.InventoryRequest
) -> AsyncIterator[store_v1.InventoryResponse]:
    """Yield the store's own inventory, then that of each requested source. All of it is durable.

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
        each_source = (*_sources(engine, only), *_deleted(engine, only))
        responses += (store_v1.InventoryResponse(source=each) for each in each_source)
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


def _sources(engine: Engine, only: SourceName | None) -> Iterator[store_v1.SourceInventory]:
    sources = engine.core.sources
    for state in [sources[each] for each in _names(sources, only)]:
        known = source_inventory(state, bool(engine.core.doubt_of(state)))
        known.proxy = state.name in engine.proxy_of
        known.durability = engine.durability(state.name.topic)
        yield known


def _names(known: Collection[SourceName], only: SourceName | None) -> list[SourceName]:
    if only is None:
        return list(known)
    return [only] if only in known else []


def _deleted(engine: Engine, only: SourceName | None) -> Iterator[store_v1.SourceInventory]:
    """Yield the tombstones of sources that other stores may still have.

    A source that all stores have deleted is reported only if the request names it. The number of
    such sources grows without end.
    """
    identities = engine.core.identities
    unlisted = identities.unlisted if only is None else frozenset()
    for source in _names(identities.tombstones, only):
        tombstone = identities.tombstones[source]
        if source in unlisted or source in engine.core.sources:
            continue
        known = source_inventory(as_it_was(tombstone), bool(engine.core.limbo_without(source)))
        known.deletion, known.deleted_upto = tombstone.cause, tombstone.deleted_upto
        yield known
