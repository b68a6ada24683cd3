"""The ranges of sources that a table or a stream reads, from options and the stores' answers.

Nothing here knows Spark. How ranges become partitions is in quorate.pipeline.read.batch_reader.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import pyarrow as pa

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.options import BoundKind, ReadBound, ReadBounds, ReadOptions
from quorate.pipeline.read.left_out import LeftOut, warn_of
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import (
    Part,
    SourceRange,
)
from quorate.pipeline.stores.client import Catalogue, Stores
from quorate.pipeline.stores.decoding import record_batches
from quorate.protocol.answers import Piece
from quorate.protocol.errors import InvalidArgument, UnknownTopic
from quorate.protocol.identity import SourceName

_log = logging.getLogger("quorate.pipeline")

_NAMED = 5
"""Number of sources that an error names as examples."""


def stores_of(options: ReadOptions) -> Stores:
    """Return the stores to read from, with the archive behind them if the options name one."""
    if options.archive:
        # Importing Parquet takes time, which a read without an archive saves.
        from quorate.pipeline.archive.falling_through import StoresAndArchive

        return StoresAndArchive(
            options.stores, options.archive, options.asked_pattern, options.timeouts
        )
    return Stores(options.stores, options.asked_pattern, options.timeouts)


def sources_of(catalogue: Catalogue, options: ReadOptions) -> dict[SourceName, KnownSource]:
    """Return the sources that the options select."""
    return {name: known for name, known in catalogue.sources.items() if options.selects(name)}


def wanted_ranges(stores: Stores, options: ReadOptions) -> list[SourceRange]:
    """Return what a table of these options has: the ranges of each source, in their order.

    Without failOnDataLoss, messages that no store has are left out here, with a warning.
    Raises as Stores.sources, UnknownTopic, and InvalidArgument for a bound of no source.
    """
    sources = sources_of(stores.sources(), options)
    check_found(options, sources, stores)
    check_named("startingOffsets", options.start, sources)
    check_named("endingOffsets", options.end, sources)
    warn_of_ends("startingOffsets", options.start, sources)
    warn_of_ends("endingOffsets", options.end, sources)
    wanted = [
        (known, part) for known in sources.values() for part in _ranges_of(stores, known, options)
    ]
    if options.fail_on_data_loss:
        return [part for _, part in wanted]
    return LeftOut(stores).rest(wanted)


def _ranges_of(stores: Stores, known: KnownSource, options: ReadOptions) -> Iterator[SourceRange]:
    first = begins_at(stores, known, options.start.of(known.name))
    until = ends_at(stores, known, options.end.of(known.name))
    if first < until:
        yield from stores.parted(known, range_of(known, first, until))


def range_of(known: KnownSource, first: int, until: int) -> SourceRange:
    """Return the messages [first, until) of a source as a range to plan with."""
    return SourceRange(known.name, first, until, known.lineage, message_bytes=known.message_bytes)


def begins_at(stores: Stores, known: KnownSource, bound: ReadBound) -> int:
    """Return the first sequence number from a bound on, at most one past the last stable one."""
    if bound.kind is BoundKind.TIME:
        found = stores.first_since(known.name, bound.value)
        return min(max(found, known.earliest), known.until)
    return _number_at(known, bound)


def ends_at(stores: Stores, known: KnownSource, bound: ReadBound) -> int:
    """Return one past the last stable sequence number before a bound."""
    if bound.kind is not BoundKind.TIME:
        return _number_at(known, bound)
    found = stores.first_since(known.name, bound.value)
    # The answering stores may lack messages from before that time. Then the read goes to the end,
    # so that it fails at these messages instead of leaving them out.
    certain = found in known.held or found <= known.held.low
    return min(found, known.until) if certain else known.until


def _number_at(known: KnownSource, bound: ReadBound) -> int:
    match bound.kind:
        case BoundKind.EARLIEST:
            return known.earliest
        case BoundKind.SEQUENCE:
            return min(bound.value, known.until)
    return known.until


def unmatched(options: ReadOptions, found: Iterable[SourceName]) -> list[str]:
    """Return what the options name and no found source has: topics, sources, or the pattern."""
    sources = [name for name in found if options.selects(name)]
    if options.sources:
        return sorted(map(str, options.sources.difference(sources)))
    if options.topics:
        return sorted(options.topics.difference(name.topic for name in sources))
    return [] if sources else [options.topics_pattern or "any topic"]


def known_topics(stores: Stores) -> list[str]:
    """Return every topic that a store knows, whatever was asked for."""
    return sorted({name.topic for name in Stores(stores.addresses).sources().sources})


def check_found(options: ReadOptions, found: Iterable[SourceName], stores: Stores) -> None:
    """Raise UnknownTopic for a topic or a source of the options that no store knows.

    A pattern may match nothing yet, so that is only logged.
    """
    for wanted in unmatched(options, found):
        known = ", ".join(known_topics(stores))
        if options.topics or options.sources:
            raise UnknownTopic(wanted, known)
        _log.warning("the table is empty: no topic matches %s; known: %s", wanted, known or "none")


def warn_of_ends(
    option: str, bounds: ReadBounds, sources: Mapping[SourceName, KnownSource]
) -> None:
    """Log each bound beyond the end of its source: what is missing may be expected to be there."""
    for name, bound in bounds.by_source.items():
        if bound.kind is BoundKind.SEQUENCE and bound.value > sources[name].until:
            _log.warning(
                "%s is to be read with %s %d, but its stable messages end before %d",
                name,
                option,
                bound.value,
                sources[name].until,
            )


def check_named(option: str, bounds: ReadBounds, sources: Mapping[SourceName, KnownSource]) -> None:
    """Raise InvalidArgument if an option has a bound for a source that is not read."""
    for name in sorted(bounds.by_source.keys() - sources.keys()):
        known = list(map(str, sources))
        close = difflib.get_close_matches(str(name), known) or known[:_NAMED]
        raise InvalidArgument(
            f"option {option}",
            f"{name} is not one of the sources to read, which are {len(known):,}: "
            f"{', '.join(close)}{', …' if len(close) < len(known) else ''}; correct its name, or "
            "leave it out",
        )


def read_part(
    stores: Stores, part: Part, columns: pa.Schema, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part. Raises as Stores.fetch, and StoresAndArchive.archived_rows."""
    for archived, ranges in groupby(part.ranges, lambda each: each.archived):
        if not archived:
            pieces = _pieces(stores, ranges, part.number, fail_on_data_loss)
            yield from record_batches(pieces, columns)
            continue
        for each in ranges:
            yield from stores.archived_rows(each, columns)


def _pieces(
    stores: Stores, ranges: Iterable[SourceRange], turn: int, fail_on_data_loss: bool
) -> Iterator[Piece]:
    for each in ranges:
        first = each.first
        while first < each.until:
            try:
                for piece in stores.fetch(each.source, each.lineage, first, each.until - 1, turn):
                    yield piece
                    first = piece.last + 1
            except MessagesGone as gone:
                if fail_on_data_loss:
                    raise
                warn_of([gone])
                first = gone.last + 1
