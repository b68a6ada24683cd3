"""The takeover of rows that a peer made: those of a whole topic, as of one moment at the peer.

A store takes rows over if it can no longer read all messages that they are made of. When it asks,
and whom, is decided in quorate.store.tasks.state. Which of its own rows go, and which of the peer's
it takes, is decided in quorate.store.rules.state_rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from functools import partial

from quorate.protocol.bookmarks import NO_PLACE
from quorate.protocol.errors import BrokenAnswer, StateUnavailable
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.store.engine import Engine
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.state_rows import Covered, choose
from quorate.store.storage.interface import Columns, Table, Write
from quorate.store.storage.state_records import (
    Candidate,
    Progress,
    key_of,
    pack_candidate,
    row_key,
    rows_of_topic,
)
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.state_large import LargeRows
from quorate.store.tasks.state_peers import Ask, candidate_of, is_too_large, progress_of
from quorate.store.tasks.state_progress import Keyed, RowsProgress, is_in
from quorate.v1 import store_pb2 as store_v1

_STEP_ROWS = 1024
"""The own rows that one step reads."""


class RowsTakeover:
    """The takeover of rows at one store."""

    def __init__(
        self, engine: Engine, apart: Apart, progress: RowsProgress, large: LargeRows, ask: Ask
    ) -> None:
        """Begin with nothing taken over.

        - apart: runs what reads rows.
        - ask: asks a peer for the rows of a topic.
        """
        self._engine = engine
        self._apart = apart
        self._progress = progress
        self._large = large
        self._ask = ask

    async def take(
        self, address: str, state: SourceState, keyed: Keyed, part: Range
    ) -> list[Progress] | None:
        """Take over the rows of a peer, if they have these numbers of a source.

        Return how far they have come, of each source that was taken over. None: they have none of
        these numbers. Raises QuorateError; StateUnavailable if they have yet to come to them.
        """
        topic = state.name.topic
        request = store_v1.StateCandidatesRequest(
            protocol_version=PROTOCOL_VERSION, topic=topic, keys=keyed.keying.text
        )
        theirs: dict[SourceName, Progress] = {}
        covered: Covered | None = None
        first, last = rows_of_topic(keyed.prefix)
        async with aclosing(self._ask(address, request)) as answers:
            async for answer in answers:
                for each in answer.places:
                    progress = progress_of(topic, each)
                    theirs[progress.source] = progress
                if not (answer.candidates or answer.end):
                    continue
                if covered is None:
                    if not _has(theirs.get(state.name), address, state, part):
                        return None
                    covered = self._covered(theirs.values())
                found = {
                    row_key(keyed.prefix, wire.key, wire.session_id): candidate_of(wire)
                    for wire in answer.candidates
                    if wire.session_id in covered
                }
                upto = last if answer.end else max(found, default=b"")
                await self._merge(topic, keyed, found, first, upto, covered)
                first = max(first, upto + b"\0")
        return [each for each in theirs.values() if each.source.session_id in (covered or {})]

    def _covered(self, theirs: Iterable[Progress]) -> Covered:
        """Return the numbers of each source for which a peer's rows speak, by session ID.

        A stream that is another one here, or whose rows here are of an older one, is left out.
        """
        covered = {}
        for each in theirs:
            state, own = self._engine.core.sources.get(each.source), self._progress.of(each.source)
            place = NO_PLACE if own is None else own.place
            if (
                state is not None
                and each.place.belongs_to(state.lineage)
                and is_in(place, state.lineage)
            ):
                numbers = range(each.lacks_upto + 1, each.place.sequence + 1)
                covered[each.source.session_id] = numbers
        return covered

    async def _merge(
        self,
        topic: str,
        keyed: Keyed,
        found: Mapping[bytes, Candidate],
        first: bytes,
        last: bytes,
        covered: Covered,
    ) -> None:
        """Replace rows from one key to another. found: what the peer has there, by row key."""
        generations, wanted = self._progress.generations(topic), dict(found)
        while own := await self._apart(
            partial(self._engine.reads.scan, Table.STATE, first, last, _STEP_ROWS)
        ):
            gone, known = choose(own, found, covered, generations)
            for row in known:
                del wanted[row]
            await self._commit([Write(Table.STATE, row, None) for row in gone])
            first = own[-1][0] + b"\0"
        small: dict[bytes, bytes] = {}
        more: list[Write] = []
        for row, candidate in wanted.items():
            if is_too_large(SourceName(topic, candidate.session_id), candidate):
                more += await self._large.write(keyed.prefix, key_of(row), candidate)
            else:
                small[row] = pack_candidate(candidate)
        await self._commit(more, Columns(Table.STATE, list(small), list(small.values())))

    async def _commit(self, rows: list[Write], columns: Columns | None = None) -> None:
        writer = self._engine.writer
        if rows or (columns is not None and columns.keys):
            await writer.durable(writer.submit(rows, sync=False, columns=columns))


def _has(progress: Progress | None, address: str, state: SourceState, part: Range) -> bool:
    """Return whether the rows of a peer have these numbers. progress: how far they have come.

    Raises BrokenAnswer; StateUnavailable if they have yet to come to all of them.
    """
    source = state.name
    if progress is None or progress.lacks_upto >= part.last:
        return False
    if progress.place.sequence < part.first:
        return False
    if not progress.place.belongs_to(state.lineage):
        raise BrokenAnswer(address, f"its rows of {source} are of another stream")
    if progress.place.sequence < part.last:
        upto = progress.place.sequence
        raise StateUnavailable(source.topic, address, f"its rows of {source} are made up to {upto}")
    return True
