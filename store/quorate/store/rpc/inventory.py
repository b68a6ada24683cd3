"""The call Inventory: one store reports itself and its sources to another store.

The report only states facts; the store that asks decides what follows from them. A long report is
made in several turns of the event loop. Each fact in it was true at some time during the call, and
a source that exists at its end is never left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import cast

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import ArchivedPlace
from quorate.protocol.patterns import TopicPattern, topic_pattern
from quorate.protocol.wire import (
    held_to_wire,
    source_from_wire,
    source_to_wire,
)
from quorate.store.engine import Engine
from quorate.store.rpc.long_requests import archived_places
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_wire import (
    source_inventory,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_identity import is_one_run
from quorate.store.tasks.peer_answers import announce_replacement
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1

_PAGE_SOURCES = 256
"""The most sources of one response."""
_PAGE_BYTES = 256 * 1024
"""The size above which a response takes no further source."""


async def inventory(
    engine: Engine, me: store_v1.Greeting, request: store_v1.InventoryRequest, turn: Turn
) -> AsyncIterator[store_v1.InventoryResponse]:
    """Yield the store's own inventory, then that of each requested source. All of it is durable.

    turn: the turns of this call.

    Raises StorageFailed. Raises InvalidArgument if the asking store has the same name, the topic
    pattern is none, or the request names too many sources.
    """
    asker = request.greeting
    # The moment comes first: what changes during the answer may be told again.
    wanted = _wanted(engine, request)
    moment = engine.moment() if wanted.are_all else None
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
                moment=moment,
                changes_only=wanted.changed is not None,
            )
        )
    ]
    archived = await archived_places(request.archived, turn)
    if not request.without_sources:
        responses += [page async for page in _pages(_each_source(engine, wanted, archived, turn))]
    if wanted.changed is not None:
        told = {source_from_wire(each.source) for page in responses for each in page.sources}
        gone = (source for source in wanted.changed if source not in told)
        responses.append(store_v1.InventoryResponse(gone=map(source_to_wire, gone)))
    # The rows behind these answers may not be durable yet.
    await engine.writer.durable(engine.writer.submit(()))
    for response in responses:
        yield response


async def _pages(
    sources: AsyncIterator[store_v1.SourceInventory],
) -> AsyncIterator[store_v1.InventoryResponse]:
    """Yield responses of many sources each. A response costs far more than what it says of one."""
    page, size = store_v1.InventoryResponse(), 0
    async for source in sources:
        page.sources.append(source)
        size += source.ByteSize()
        if len(page.sources) >= _PAGE_SOURCES or size >= _PAGE_BYTES:
            yield page
            page, size = store_v1.InventoryResponse(), 0
    if page.sources:
        yield page


async def _greeted(
    engine: Engine, me: store_v1.Greeting, asker: store_v1.Greeting
) -> store_v1.Greeting | None:
    """Note the greeting of the asking store, and return the greeting remembered from before."""
    if is_one_run(asker, me):
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
        is_new = known is None or not is_one_run(known, asker)
        commit = engine.writer.submit(met.writes, sync=is_new)
        if is_new:
            await engine.writer.durable(commit)
    return met.remembered


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The sources that a request asks for: one, or those of some topics between two sources."""

    source: SourceName | None
    topics: TopicPattern | None
    begin: SourceName | None
    before: SourceName | None
    are_all: bool
    """Whether the request asks for all sources, or for all that have changed."""
    changed: Mapping[SourceName, None] | None
    """The sources that may have changed, if only these and ended ones are wanted. None: all."""
    began: int
    """The changes that the store had noted when it was asked."""

    def of(self, known: Collection[SourceName]) -> list[SourceName]:
        """Return the known sources that may match."""
        if self.source is not None:
            return [self.source] if self.source in known else []
        return list(known)

    def living(self, known: Collection[SourceName]) -> list[SourceName]:
        """Return the sources that live and may match."""
        if self.changed is not None:
            return [source for source in self.changed if source in known]
        return self.of(known)

    def matches(self, name: SourceName) -> bool:
        return (
            (self.topics is None or self.topics.matches(name.topic))
            and (self.begin is None or self.begin <= name)
            and (self.before is None or name < self.before)
        )


def _wanted(engine: Engine, request: store_v1.InventoryRequest) -> _Wanted:
    are_all = not (
        request.without_sources
        or request.topic_pattern
        or request.archived
        or any(map(request.HasField, ("source", "begin", "before")))
    )
    has_moment = are_all and request.HasField("since")
    return _Wanted(
        source_from_wire(request.source) if request.HasField("source") else None,
        topic_pattern(request.topic_pattern) if request.topic_pattern else None,
        source_from_wire(request.begin) if request.HasField("begin") else None,
        source_from_wire(request.before) if request.HasField("before") else None,
        are_all,
        engine.changed_since(request.since) if has_moment else None,
        engine.changes.count,
    )


async def _each_source(
    engine: Engine, wanted: _Wanted, archived: Mapping[SourceName, ArchivedPlace], turn: Turn
) -> AsyncIterator[store_v1.SourceInventory]:
    """Yield the live sources, then the ended ones, then those that came to live meanwhile.

    A source that lives now is always among them: nothing else is done after the last look.
    """
    told = set[SourceName]()
    for source in wanted.living(engine.core.sources):
        await turn.pause()
        if not wanted.matches(source):
            told.add(source)
        elif (state := engine.core.sources.get(source)) is not None:
            told.add(source)
            if not _is_archived(state, archived.get(source)):
                yield _live(engine, state)
    for source in wanted.of(engine.core.identities.ended):
        await turn.pause()
        ended = engine.core.identities.ended.get(source)
        is_listed = ended is not None and not (ended.unlisted or not ended.epoch)
        if ended is not None and wanted.matches(source) and (is_listed or wanted.source == source):
            known = source_inventory(ended.state, bool(engine.core.limbo_of(ended.state)))
            known.held.extend(held_to_wire(ended.held_by_epoch()))
            known.settled = ended.settled
            yield known
    # One that has changed in the meantime may have ended, and be back.
    came = engine.changes.since(wanted.began) if wanted.changed is not None else None
    for source in wanted.of(engine.core.sources) if came is None else came:
        if source in engine.core.sources and source not in told and wanted.matches(source):
            yield _live(engine, engine.core.sources[source])


def _is_archived(state: SourceState, place: ArchivedPlace | None) -> bool:
    """Return whether nothing of a source is new to an archive that has it so far.

    The store was told so by a job that had compared the histories. A stream that is begun anew
    forgets what it was told.
    """
    held = state.held
    return (
        place is not None
        and held.stable_upto == place.upto <= held.archived_upto
        and state.lineage.epoch_at(place.upto) == place.epoch
    )


def _live(engine: Engine, state: SourceState) -> store_v1.SourceInventory:
    known = source_inventory(state, bool(engine.core.doubt_of(state)))
    known.proxy = state.name in engine.announced
    known.finished = engine.is_finished(state)
    owner = engine.core.identities.lives.owner(Who(state.name))
    known.owner = cast(store_v1.Owner, owner)
    known.durability = engine.durability(state.name.topic)
    return known
