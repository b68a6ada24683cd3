"""The sweep of the state of the world: rows of no more use are removed, step by step.

Which candidates those are is decided in quorate.store.rules.state_rows. The maker of the rows runs
the sweep between its own steps, so the two never write at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from quorate.protocol.bookmarks import Bookmark, Place, Position, place_at
from quorate.protocol.errors import StorageUnreadable
from quorate.protocol.identity import SourceName
from quorate.store.engine import Engine
from quorate.store.rules.state_rows import Generations, to_remove
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.records import Malformed
from quorate.store.storage.state_records import (
    hidden_key,
    pack_hidden,
    progress_key,
    rows_of_topic,
    unpack_hidden,
    whole_keys,
)
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.state_large import LargeRows
from quorate.store.tasks.state_progress import Keyed, RowsProgress

_log = logging.getLogger("quorate.store.tasks.state_sweep")

_STEP_ROWS = 1024
"""The rows that one step of a sweep reads."""


@dataclass(frozen=True, slots=True)
class _Horizon:
    """The facts of a topic at some time. A sweep removes nothing that left the journal later."""

    retained_from: Mapping[int, int]
    """The first number kept of each source with rows, by session ID."""
    generations: Generations
    stable: Mapping[SourceName, Place]
    """The last stable message of each source."""

    def kept_from(self, generations: Generations) -> dict[int, int]:
        """Return the first number kept of each source that is in the same generation now."""
        return {
            session_id: first
            for session_id, first in self.retained_from.items()
            if generations.get(session_id) == self.generations[session_id]
        }


class StateSweep:
    """The removal of rows of one store."""

    def __init__(
        self,
        engine: Engine,
        apart: Apart,
        progress: RowsProgress,
        large: LargeRows,
        obsolete: dict[bytes, list[int]],
        keyed: Callable[[str], Keyed | None],
        remove: Callable[[bytes, bytes], None],
        lacked: Callable[[str, Position], Bookmark | None],
        now_ns: Callable[[], int],
    ) -> None:
        """Begin with nothing removed.

        - large: the large rows, whose payloads go with them.
        - obsolete: the places of rows of other keys, by the beginning of their keys: session IDs.
        - keyed: returns the keys of a topic.
        - remove: removes all rows from one key to another.
        - lacked: returns a place before a position that the rows of a topic have yet to come to.
        - now_ns: the time of day, which decides when a message has expired.
        """
        self._engine = engine
        self._apart = apart
        self._progress = progress
        self._obsolete = obsolete
        self._keyed = keyed
        self._remove = remove
        self._lacked = lacked
        self._now_ns = now_ns
        self._hidden = set(progress.topics())
        """The topics that may have candidates that leave their keys without a row."""
        self._large = large
        self._have_large = set(progress.topics())
        """The topics that may have payloads of large rows."""
        self._horizons: dict[str, _Horizon] = {}
        """The horizon to which the rows of a topic must come before it is swept."""
        self._looked: dict[str, Mapping[int, int]] = {}
        """The first number kept of each source when the topic was swept last."""

    def hides(self, topic: str) -> None:
        """Note that a topic may have candidates that leave their keys without a row."""
        self._hidden.add(topic)

    def has_large(self, topic: str) -> None:
        """Note that a topic has the payload of a large row, which may lose its row."""
        self._have_large.add(topic)

    async def look(self) -> list[SourceName]:
        """Remove what is of no more use, and return the sources that are gone with it.

        An unreadable row holds up this alone. Raises StorageFailed.
        """
        try:
            await self._remove_obsolete()
            return await self._sweep_all()
        except (StorageUnreadable, Malformed) as error:
            _log.error("rows of no more use cannot be removed: %s", error)
            return []

    async def _remove_obsolete(self) -> None:
        """Remove the rows of topics whose keys have changed, or that have none any more."""
        writer = self._engine.writer
        for prefix, sessions in self._obsolete.items():
            await self._apart(partial(self._remove, *rows_of_topic(prefix)))
            await self._large.sweep(prefix)
            # They go last, so that a crash before leaves what says that there is more to remove.
            gone = [Write(Table.STATE, progress_key(prefix, each), None) for each in sessions]
            gone.append(Write(Table.STATE, hidden_key(prefix), None))
            await writer.durable(writer.submit(gone, sync=False))
            _log.info("rows of %d sources were removed: their keys have changed", len(sessions))
        self._obsolete.clear()

    async def _sweep_all(self) -> list[SourceName]:
        """Sweep each topic in which a source has ended, or what hides others may go."""
        sources, writer = self._engine.core.sources, self._engine.writer
        ended = [each.source for each in self._progress if each.source not in sources]
        of_ended = {each.topic for each in ended}
        for topic in self._progress.topics():
            keyed = self._keyed(topic)
            assert keyed is not None
            horizon = self._passed(topic)
            if horizon is not None or topic in of_ended:
                await self.sweep(topic, keyed, horizon)
            if topic in self._have_large and not await self._large.sweep(keyed.prefix):
                self._have_large.discard(topic)
        gone = []
        for source in ended:
            keyed = self._keyed(source.topic)
            if source in sources or keyed is None:
                continue  # it began anew meanwhile
            key = progress_key(keyed.prefix, source.session_id)
            self._progress.forget(source)
            gone.append(source)
            await writer.durable(writer.submit((Write(Table.STATE, key, None),), sync=False))
        return gone

    def _passed(self, topic: str) -> _Horizon | None:
        """Return the horizon up to which what hides others may go; None: nothing may.

        What was stable then may be older than a deletion that leaves the journal, and hidden by it.
        So the rows must have come to it.
        """
        progress, horizon = self._progress, self._horizons.get(topic)
        sources = self._engine.core.sources
        if horizon is None:
            retained_from = progress.retained_from(topic)
            if topic not in self._hidden or self._looked.get(topic) == retained_from:
                return None
            stable = {
                name: place_at(state.lineage, state.held.stable_upto)
                for name, state in sources.items()
                if name.topic == topic
            }
            horizon = _Horizon(retained_from, progress.generations(topic), stable)
            self._horizons[topic] = horizon
        left = {name: place for name, place in horizon.stable.items() if name in sources}
        if self._lacked(topic, Position(left)) is not None:
            return None
        del self._horizons[topic]
        self._looked[topic] = horizon.retained_from
        return horizon

    async def sweep(self, topic: str, keyed: Keyed, horizon: _Horizon | None = None) -> None:
        """Remove the rows of a topic that are of no more use. Raises StorageFailed, Malformed.

        horizon: up to where what hides others may go; None: it stays.
        """
        writer, reads, progress = self._engine.writer, self._engine.reads, self._progress
        first, last = rows_of_topic(keyed.prefix)
        while rows := await self._apart(partial(whole_keys, reads, first, last, _STEP_ROWS)):
            first = rows[-1][0] + b"\0"
            generations = progress.generations(topic)
            retained_from = {} if horizon is None else horizon.kept_from(generations)
            useless, hidden_ns = to_remove(rows, generations, retained_from, self._now_ns())
            gone = [Write(Table.STATE, key, None) for key in useless]
            if hidden_ns > self._hidden_ns(keyed):
                gone.append(Write(Table.STATE, hidden_key(keyed.prefix), pack_hidden(hidden_ns)))
            if gone:
                await writer.durable(writer.submit(gone, sync=False))

    def forgets_the_past(self, keyed: Keyed) -> Write:
        """Return what notes that nothing is known of rows before now."""
        return Write(Table.STATE, hidden_key(keyed.prefix), pack_hidden(self._now_ns()))

    def _hidden_ns(self, keyed: Keyed) -> int:
        return unpack_hidden(self._engine.reads.get(Table.STATE, [hidden_key(keyed.prefix)])[0])
