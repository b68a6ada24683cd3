"""A peer's answer: whether it counts, and what this store learns from it.

The consequences are decided in quorate.store.rules.store_identity. Peers are called elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import NamedTuple

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import (
    source_from_wire,
)
from quorate.store.engine import Engine
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.peer_wire import (
    knowledge_from_wire,
)
from quorate.store.rules.store_identity import (
    Met,
    knows,
    replacement,
)
from quorate.store.tasks.throttle import is_busy_peer
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.tasks.peer_answers")


class Question(NamedTuple):
    """A question to a peer: the greeting that it had, and when it was asked."""

    greeting: store_v1.Greeting
    since: int
    """The moment of the store's standing when it asked."""
    at: float
    """The time of the question in seconds, by this store's monotonic clock."""


class AskAgain:
    """An outcome: ask again, with a greeting that now names the incarnation the peer remembers."""


def heard_from(
    engine: Engine,
    asked: Question,
    answer: PeerAnswer,
    who: store_v1.Greeting,
    now: float,
    before: Heard | None,
) -> Heard | AskAgain | None:
    """Return the peer's answer as heard, or AskAgain.

    None: the answer is void, because it is for an earlier incarnation of this store. who: the
    peer's own greeting. before: the peer's previous answer.
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
    heard = Heard(answer, asked.at, now, first, counts, busy)
    _note_changes(engine, heard, before)
    return heard


def _take_note(engine: Engine, asked: Question, answer: PeerAnswer, who: store_v1.Greeting) -> bool:
    """Submit the rows that follow from a peer's answer. Return whether the answer counts.

    A store may learn which incarnation it had before, and which other stores were replaced.
    """
    standing = engine.core.standing
    present = standing.met(who, asked.since)
    for met, name in (
        (present, who.store_name),
        *((standing.heard_of(third), third.store_name) for third in answer.known),
    ):
        if met.is_news:
            announce_replacement(engine, met, standing.peers[name])
        if met.writes:
            engine.writer.submit(met.writes, sync=met.is_news)
    if answer.remembered is not None and (rows := standing.comes_after(answer.remembered)):
        engine.writer.submit(rows)
    counts = present.is_present and knows(asked.greeting, answer.remembered)
    if counts:
        _note_lives(engine, answer)
    return counts


def _note_lives(engine: Engine, answer: PeerAnswer) -> None:
    """Note a sign of life of each source that streams to the peer.

    It is noted at once: the next answer may replace this one before a task looks at it. Every
    answer tells of all sources that stream.
    """
    for source in answer.news:
        if answer.knowledge(source).live and source in engine.core.sources:
            engine.core.identities.lives.heard_elsewhere(Who(source))


def _note_changes(engine: Engine, heard: Heard, before: Heard | None) -> None:
    """Note the sources of which a peer says anything else than before."""
    now = heard.answer.sources
    then: Mapping[SourceName, SourceKnowledge] = {} if before is None else before.answer.sources
    is_comparable = (
        before is not None
        and before.answer.incarnation == heard.answer.incarnation
        and before.answer.limbo == heard.answer.limbo
        and before.counts == heard.counts
    )
    told = heard.answer.told if is_comparable else None
    for source in (*now, *(then.keys() - now.keys())) if told is None else told:
        if not is_comparable or then.get(source) != now.get(source):
            engine.news.note(source)


def announce_replacement(engine: Engine, met: Met, present: store_v1.Greeting) -> None:
    """Tell the sources, and the log, of an incarnation that was not known."""
    engine.replaced(replacement(present))
    if met.remembered is not None:
        _log.info(
            "store %s at %s has another incarnation than before. It lost its data, was put back "
            "from a copy, or shares its name with another store. Its earlier acknowledgements no "
            "longer count",
            present.store_name,
            present.address,
        )


def since(engine: Engine, before: Heard | None) -> store_v1.Moment | None:
    """Return the moment since which a peer is asked for changes; None: it is asked for all.

    before: the peer's previous answer. A store in limbo relies on no earlier answer.
    """
    return None if before is None or engine.core.in_limbo else before.answer.moment


async def read_inventory(
    address: str,
    responses: AsyncIterable[store_v1.InventoryResponse],
    before: PeerAnswer | None = None,
) -> tuple[PeerAnswer, store_v1.Greeting]:
    """Return a peer's answer and its greeting. Raises InvalidArgument if it has no greeting.

    before: the answer since which the peer was asked for changes; None: it was asked for all.
    """
    store: store_v1.StoreInventory | None = None
    sources: dict[SourceName, SourceKnowledge] = {}
    gone = list[SourceName]()
    async for response in responses:
        if response.HasField("store"):
            store = response.store
        for source in response.sources:
            sources[source_from_wire(source.source)] = knowledge_from_wire(source)
        gone += map(source_from_wire, response.gone)
    if store is None:
        raise InvalidArgument("inventory", f"of {address} has no greeting that names the store")
    told: Collection[SourceName] | None = None
    if store.changes_only:
        if before is None:
            raise InvalidArgument("inventory", f"of {address} has changes only, unasked")
        told, sources = _changed(before.sources, sources, gone)
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
        store.moment if store.HasField("moment") else None,
        told,
    )
    return answer, store.store


def _changed(
    before: Mapping[SourceName, SourceKnowledge],
    changed: Mapping[SourceName, SourceKnowledge],
    gone: Iterable[SourceName],
) -> tuple[Collection[SourceName], dict[SourceName, SourceKnowledge]]:
    """Return the sources that may have changed, and what the peer knows of all its sources now.

    changed: all ended sources that the peer still names are among them.
    """
    ended = [source for source, known in before.items() if known.begun.ended]
    sources = dict(before)
    for source in (*ended, *gone):
        sources.pop(source, None)
    sources.update(changed)
    return dict.fromkeys((*ended, *gone, *changed)), sources
