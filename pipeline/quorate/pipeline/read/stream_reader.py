"""Reading as a stream: how far each micro-batch goes, and its partitions.

Spark keeps one StreamReader while a query runs, in a process that it may kill at any time, and asks
it for offsets. Workers call read() on copies. The two offsets of a micro-batch alone determine its
messages. How a partition becomes rows is in quorate.pipeline.read.ranges.
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from quorate.pipeline.errors import OffsetsBehind
from quorate.pipeline.options import LATEST, BoundKind, ReadOptions
from quorate.pipeline.read.batch_reader import PartReader, StoresPartition
from quorate.pipeline.read.cursors import Cursor
from quorate.pipeline.read.left_out import LeftOut
from quorate.pipeline.read.ranges import (
    begins_at,
    check_named,
    known_topics,
    range_of,
    sources_of,
    unmatched,
)
from quorate.pipeline.read.trigger import Trigger
from quorate.pipeline.rules import offsets
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import SourceRange
from quorate.pipeline.stores.client import Catalogue
from quorate.protocol.errors import InvalidArgument, MissingMessages
from quorate.protocol.identity import SourceName

GRACE_SECONDS = 0.3
"""Seconds to wait for each next store once one store has answered."""

Offsets = dict[str, int]

LEFT_OUT = "leftOut"
"""The name, beside those of sources, of the number of messages that this run left out."""

_NAMED = 5
"""Number of topics that a warning names as examples."""

_log = logging.getLogger("quorate.pipeline")


class StreamReader(PartReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what becomes stable, beginning where the options or a cursor say."""

    def __init__(self, options: ReadOptions, columns: pa.Schema) -> None:
        """Raise InvalidArgument for options that a stream cannot have."""
        _check(options)
        super().__init__(options, columns)
        self._cursor = Cursor(self._stores, options.cursor) if options.cursor else None
        self._trigger = Trigger(options.trigger_messages_min, options.trigger_delay_seconds)
        self._initial: Offsets | None = None
        self._last: dict[SourceName, int] | None = None
        """By source, where a run ends that reads what is available now; None: no such run."""
        self._latest: Offsets | None = None
        self._catalogue: Catalogue | None = None
        self._left_out = None if options.fail_on_data_loss else LeftOut(self._stores)
        self._looked = False
        """The warning about topics without a source was considered."""

    # Offsets.

    def initialOffset(self) -> Offsets:
        # Spark asks twice and starts from the second answer. After a crash it asks again. So
        # without a cursor every answer must be the same.
        if self._initial is None:
            sources = sources_of(self._look(), self._options)
            known = self._cursor.register(sources.values()) if self._cursor else {}
            if not known:
                check_named("startingOffsets", self._options.start, sources)
            self._initial = offsets.to_json(
                {name: self._begins_at(one, known) for name, one in sources.items()}
            )
            self._acknowledge(offsets.from_json(self._initial))
        return self._initial

    def _begins_at(self, source: KnownSource, known: Mapping[SourceName, int]) -> int:
        if known:
            # The cursor was in use, so a source without a position of it is new.
            return known.get(source.name, 0)
        start = self._options.start.of(source.name)
        if start.kind is BoundKind.SEQUENCE and start.value > source.until:
            # Beginning lower would hand over unwanted messages. Waiting could last for ever.
            raise InvalidArgument(
                "startingOffsets",
                f"{source.name} is to be read from {start.value} on, but the next number that can "
                f'become stable is {source.until}; give {source.until}, less, or "latest"',
            )
        return begins_at(self._stores, source, start)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.trigger_messages_max:
            return ReadMaxRows(self._options.trigger_messages_max)
        if self._options.trigger_bytes_max:
            return ReadMaxBytes(self._options.trigger_bytes_max)
        if self._options.trigger_messages_min:
            return ReadMinRows(self._options.trigger_messages_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        begin = offsets.from_json(start)
        sources = self._sources_for(begin)
        if self._cursor is not None:
            self._cursor.register(sources.values())
        # Spark has finished everything before the start of the next micro-batch.
        self._acknowledge(begin)
        end = offsets.latest(begin, {name: one.until for name, one in sources.items()})
        self._latest = offsets.to_json(end)
        if self._last is not None:
            end = {name: min(until, self._last.get(name, 0)) for name, until in end.items()}
            end = offsets.latest(begin, end)
        elif not isinstance(limit, ReadAllAvailable) and self._waits(begin, end):
            return offsets.to_json(begin)
        limited = self._limited(begin, end, limit)
        if self._left_out is not None:
            # Spark asks for the latest offset once it has this one, and shows it with this batch.
            self._ranges(offsets.forward(begin, limited), sources)
        return offsets.to_json(limited)

    def _waits(self, begin: offsets.Vector, end: offsets.Vector) -> bool:
        ranges = offsets.forward(begin, end).values()
        return self._trigger.waits(sum(until - first for first, until in ranges), time.monotonic())

    def reportLatestOffset(self) -> Offsets | None:
        """Return what Spark shows as the latest offset in a query's progress, and nowhere else."""
        if self._latest is None or self._left_out is None:
            return self._latest
        return {**self._latest, LEFT_OUT: self._left_out.messages}

    def prepareForTriggerAvailableNow(self) -> None:
        sources = sources_of(self._look(), self._options)
        self._last = {name: one.until for name, one in sources.items()}

    def commit(self, end: Offsets) -> None:
        self._acknowledge(offsets.from_json(end))

    def _acknowledge(self, vector: offsets.Vector) -> None:
        if self._cursor is not None:
            self._cursor.acknowledge(vector)

    def _look(self) -> Catalogue:
        self._catalogue = self._stores.sources_within(GRACE_SECONDS)
        self._warn_of_nothing(self._catalogue)
        return self._catalogue

    def _warn_of_nothing(self, catalogue: Catalogue) -> None:
        """Warn once of each wanted topic without a source. It may appear, or be misspelt."""
        if self._looked:
            return
        self._looked = True
        missing = unmatched(self._options, catalogue.sources)
        known = known_topics(self._stores) if missing else []
        for wanted in missing:
            close = difflib.get_close_matches(wanted, known) or known[:_NAMED]
            _log.warning(
                "no store that answered has a source for %s; the query waits until one appears; "
                "known topics: %s",
                wanted,
                ", ".join(close) or "none",
            )

    def _sources_for(self, begin: offsets.Vector) -> dict[SourceName, KnownSource]:
        """Return the selected sources. Raises OffsetsBehind if the stream of one was begun anew."""
        catalogue = self._look()
        sources = sources_of(catalogue, self._options)
        everybody = not catalogue.silent and not catalogue.limbo
        for name, one in sources.items():
            # All stores answered, and none has what was read, stable or not. So the stream is
            # another.
            if everybody and begin.get(name, 0) > one.high + 1:
                raise OffsetsBehind(str(name), begin[name], one.until)
        return sources

    def _limited(
        self, begin: offsets.Vector, end: offsets.Vector, limit: ReadLimit
    ) -> offsets.Vector:
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited(begin, end, limit.max_rows)
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else 0
        if isinstance(limit, ReadMaxRows):
            bytes_max = self._options.trigger_bytes_max
        if bytes_max:
            end = offsets.limited_by_bytes(begin, end, self._bytes_of(begin, end), bytes_max)
        return end

    def _bytes_of(self, begin: offsets.Vector, end: offsets.Vector) -> dict[SourceName, float]:
        """Return the rough bytes of a message of each source that has messages to read."""
        assert self._catalogue is not None
        sizes = {}
        for name, (first, _) in offsets.forward(begin, end).items():
            known = self._catalogue.sources.get(name)
            if known is not None:
                sizes[name] = self._stores.message_bytes(name, known.lineage, first)
        return sizes

    # Partitions.

    def partitions(self, start: Offsets, end: Offsets) -> list[StoresPartition]:
        ranges = offsets.forward(offsets.from_json(start), offsets.from_json(end))
        return self.planned(self._ranges(ranges, self._known_for(ranges)))

    def _ranges(
        self,
        ranges: Mapping[SourceName, tuple[int, int]],
        sources: Mapping[SourceName, KnownSource],
    ) -> list[SourceRange]:
        """Return what is read of half-open ranges."""
        parts = [
            (sources[name], part)
            for name, (first, until) in ranges.items()
            for part in self._stores.parted(sources[name], range_of(sources[name], first, until))
        ]
        if self._left_out is None:
            return [part for _, part in parts]
        return self._left_out.rest(parts)

    def _known_for(
        self, ranges: Mapping[SourceName, tuple[int, int]]
    ) -> dict[SourceName, KnownSource]:
        """Return the known sources, after asking the stores again if a range goes further."""

        def enough(catalogue: Catalogue) -> bool:
            sources = catalogue.sources
            return all(
                source in sources and until <= sources[source].until
                for source, (_, until) in ranges.items()
            )

        catalogue = self._catalogue
        if catalogue is None or not enough(catalogue):
            catalogue = self._look()
        for source, (first, until) in ranges.items():
            if source not in catalogue.sources:
                silent = ", ".join(catalogue.silent)
                raise MissingMessages(str(source), first, until - 1, silent)
        return catalogue.sources


def _check(options: ReadOptions) -> None:
    if options.end.all() != {LATEST}:
        raise InvalidArgument("option endingOffsets", "is for tables; a stream does not end")
    moving = {BoundKind.LATEST, BoundKind.TIME}
    if not options.cursor and any(each.kind in moving for each in options.start.all()):
        raise InvalidArgument(
            "option cursorName",
            "is missing. A stream that starts at the latest message or at a time needs a cursor to "
            "keep its start. Spark forgets it if the query stops before its first batch ends",
        )
