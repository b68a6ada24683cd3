"""The call Fetch: batches of the journal, in the order of their sequence numbers.

The answer is made here, for the service and for a simulated store alike. The caller brings the
function that reads a chunk. Chunks are bounded, and the next one is read when the client has taken
the last. Batches of a chunk share responses, and none waits for the next chunk. A bad batch is
reported as unknown: it is never served, and never reported as absent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.errors import CorruptBatch, InLimbo, StorageFailed
from quorate.protocol.fragments import FragmentReading
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.engine import Engine
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.state_only import (
    absence,
    answered_upto,
)
from quorate.store.storage.large_batches import LargeRow
from quorate.store.storage.maintenance_records import Poison
from quorate.store.storage.reader import StoredBatch
from quorate.v1 import messages_pb2 as v1

_CHUNK_BYTES = 1024 * 1024
_CHUNK_BATCHES_MAX = 256
_CHUNK_BATCHES_FIRST = 4

ReadChunk = Callable[[SourceState, Range, int], Awaitable[Sequence[StoredBatch]]]
"""A function that reads the beginning of a held range, at most so many batches, as reader.read.

The store may change before the result is there. Of a large batch only the row is read.
"""

ReadFragment = Callable[[LargeRow, int], Awaitable[bytes]]
"""A function that reads the fragment of this number, as large_batches.read_fragment."""


async def fetch(
    engine: Engine,
    read: ReadChunk,
    read_fragment: ReadFragment,
    source: SourceName,
    first: int,
    last: int,
    *,
    delivers: bool = False,
) -> AsyncIterator[v1.FetchResponse]:
    """Yield the held batches of [first, last], the missing parts with causes, and the end.

    delivers: the messages are to be delivered, so poison is withheld. Raises UnknownTopic,
    InLimbo, StorageFailed.
    """
    state = _known_source(engine, source)
    known = await _readable(engine, state)
    packing = AnswerPacking()
    count = _CHUNK_BATCHES_FIRST
    while first <= (reach := min(last, max(known.held.high, known.held.retained_from - 1))):
        for response in packing.all():
            yield response
        if state.lineage is not known.lineage:
            known = await _readable(engine, state)
            continue
        if released := known.released_at(first):
            packing.missing(released, v1.LOOKUP_RELEASED, _let_go(engine))
            first = released.last + 1
            continue
        if delivers and first in state.poisoned:
            poison = Range(first, min(reach, state.poisoned.contiguous_upto(first)))
            packing.missing(poison, v1.LOOKUP_POISONED, _poison_of(state, poison))
            first = poison.last + 1
            continue
        upto = state.poisoned.missing_upto(first, reach) if delivers else reach
        piece, is_held = known.piece(first, upto)
        if not is_held:
            _pack_lacking(packing, engine, state, piece)
            first = piece.last + 1
            continue
        chunk = await read(state, piece, count)
        if state.lineage is not known.lineage:
            continue  # a new epoch began meanwhile: these batches may no longer belong
        if any(batch.problem for batch in chunk) and _has_changed(state, known):
            known = await _readable(engine, state)
            continue
        for batch in chunk:
            if batch.large is not None:
                large = _Large(batch.large, batch.part)
                async for response in large.fragments(packing, read_fragment):
                    yield response
                if large.problem and not _has_changed(state, known):
                    engine.found_unreadable(state, batch.part, large.problem)
            elif batch.problem:
                engine.found_unreadable(state, batch.part, batch.problem)
                packing.missing(batch.part, v1.LOOKUP_UNKNOWN, batch.problem)
            else:
                packing.fetched(batch.frame, batch.part)
            for response in packing.full():
                yield response
        first = chunk[-1].part.last + 1
        size = sum(batch.size for batch in chunk)
        count = max(1, min(_CHUNK_BATCHES_MAX, len(chunk) * _CHUNK_BYTES // max(size, 1)))
    if first <= last and (rest := _behind(engine, state, first, last)) is not None:
        _pack_lacking(packing, engine, state, rest)
    held = state.held
    packing.end(held.high, held.stable_upto, state.lineage, held.retained_from)
    for response in packing.all():
        yield response


@dataclass(slots=True)
class _Large:
    """A large batch that is read, checked and packed, one fragment after the other."""

    row: LargeRow
    part: Range
    problem: str = ""
    """Why it could not be read to its end; empty: it could."""

    async def fragments(
        self, packing: AnswerPacking, read: ReadFragment
    ) -> AsyncIterator[v1.FetchResponse]:
        """Yield the responses with its fragments.

        The last fragment of a bad batch does not go out: the client is told why instead.
        """
        reading = FragmentReading("in the journal")
        try:
            for number in range(self.row.count):
                data = await read(self.row, number)
                at = reading.at
                reading.take(at, self.row.size, data)
                packing.fragment(at, self.row.size, data, self.part)
                for response in packing.full():
                    yield response
        except (CorruptBatch, StorageFailed) as error:
            self.problem = str(error)
            packing.missing(self.part, v1.LOOKUP_UNKNOWN, self.problem)


def _has_changed(state: SourceState, known: SourceState) -> bool:
    """Return whether batches may have been let go, or repaired, while they were read."""
    is_let_go = state.held.retained_from > known.held.retained_from
    return is_let_go or not state.is_as_readable_as(known)


def _behind(engine: Engine, state: SourceState, first: int, last: int) -> Range | None:
    """Return the part of [first, last], behind all held numbers, that the answer covers.

    None: the stream has not come that far.
    """
    if engine.core.limbo_of(state):
        return Range(first, last)
    upto = max(min(last, state.losses.high), answered_upto(state))
    return Range(first, upto) if upto >= first else None


def _known_source(engine: Engine, source: SourceName) -> SourceState:
    if source not in engine.core.sources and (reason := engine.core.limbo_without(source)):
        raise InLimbo(str(source), engine.core.store, reason)
    return engine.receivers.source(source)


def _pack_lacking(packing: AnswerPacking, engine: Engine, state: SourceState, piece: Range) -> None:
    """Pack the causes for a part that the store lacks: lost, released, absent, or unknown in limbo.

    A store in limbo must not report absence: it may have had the messages once.
    """
    store = engine.core.store
    if reason := engine.core.limbo_of(state):
        why, detail = v1.LOOKUP_UNKNOWN, f"store {store} is in limbo: {reason}"
    else:
        why, detail = v1.LOOKUP_ABSENT, f"store {store} {absence(state)}"
    lost = state.losses.both(RangeSet([piece]))
    released = state.released().minus(state.losses).both(RangeSet([piece]))
    parts = [(part, why, detail) for part in RangeSet([piece]).minus(lost).minus(released)]
    parts += [(part, v1.LOOKUP_RELEASED, _let_go(engine)) for part in released]
    parts += [(part, v1.LOOKUP_LOST, _loss_of(state, part)) for part in lost]
    for part in sorted(parts):
        packing.missing(*part)


def _let_go(engine: Engine) -> str:
    return f"store {engine.core.store} let it go"


def _loss_of(state: SourceState, part: Range) -> str:
    """Return the operators' reasons for accepting the loss."""
    records = (each for each in state.accepted if each.first <= part.first <= each.last)
    return "; ".join(f"an operator accepted its loss: {each.reason}" for each in records)


def _poison_of(state: SourceState, part: Range) -> str:
    """Return the operators' reasons for not delivering messages."""
    records = (
        each
        for each in state.poison
        if each.poison is Poison.MARKED and each.first <= part.first <= each.last
    )
    return "; ".join(f"an operator marked it as poison: {each.reason}" for each in records)


async def _readable(engine: Engine, state: SourceState) -> SourceState:
    """Return the held part as it is now, once all of it is readable."""
    known = state.as_it_is()
    await engine.written(state)
    return known
