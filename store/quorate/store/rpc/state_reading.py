"""The rows of a query, read from a frozen view in bounded steps. All of it runs in threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import Shown
from quorate.protocol.filters.projection import Projection
from quorate.protocol.framing import body_of, check_batch, rows_of
from quorate.protocol.identity import SourceName
from quorate.store.rules.state_order import Ordering, Sorted
from quorate.store.rules.state_rows import Generations, StateDigest, rows_among
from quorate.store.storage.interface import Reads, Row, Table
from quorate.store.storage.state_records import (
    Candidate,
    Progress,
    key_of,
    progress_key,
    progress_of_topic,
    row_key,
    rows_of_key,
    rows_of_topic,
    unpack_candidate,
    unpack_progress,
    whole_keys,
)
from quorate.v1 import store_pb2 as store_v1

STEP_BYTES = 512 * 1024
"""Bytes that one step reads, about."""
STEP_ROWS_MAX = 1024
"""The most rows that one step reads."""
SORTED_MAX = 100_000
"""The most rows that a store sorts for one query."""

_FETCHED = 16
"""The sorted rows that one step reads. Each may have as many bytes as a batch may."""
_WHERE = "in the state of the world"


@dataclass(frozen=True, slots=True)
class Asked:
    """The rows that a query asks for."""

    keys: Sequence[bytes]
    """Only these keys; empty: all."""
    where: Filter | None
    select: Projection | None
    ordering: Ordering | None
    limit: int
    """The most rows; 0: all."""
    counts_only: bool


class StateView:
    """The state of one topic as of one moment."""

    def __init__(
        self, frozen: Reads, prefix: bytes, topic: str, generations: Generations, now_ns: int
    ) -> None:
        """See a frozen table of rows.

        - prefix: the beginning of the keys of the topic's rows.
        - generations: those of the topic's sources.
        - now_ns: the time at which rows may have expired.
        """
        self._frozen = frozen
        self._prefix = prefix
        self._topic = topic
        self._generations = generations
        self._now_ns = now_ns
        self.count = 0
        """The rows that passed so far."""

    def position(self) -> Position:
        """Return the position that the rows have come to. Raises StorageFailed, Malformed."""
        first, last = progress_of_topic(self._prefix)
        places: dict[SourceName, Place] = {}
        while rows := self._frozen.scan(Table.STATE, first, last, STEP_ROWS_MAX):
            for key, value in rows:
                progress = unpack_progress(key, value)
                generation = self._generations.get(progress.source.session_id)
                if generation is not None and generation <= progress.place.epoch:
                    places[progress.source] = progress.place
            first = rows[-1][0] + b"\0"
        return Position(places)

    def steps(self, asked: Asked) -> Iterator[list[bytes]]:
        """Yield the rows that are asked for, as batches of one message; a step may have none.

        Raises InvalidArgument, StorageFailed, CorruptBatch, Malformed.
        """
        if asked.ordering is not None and not asked.counts_only:
            yield from self._sorted(asked, asked.ordering)
            return
        for rows in self._rows(asked.keys):
            chosen = [
                each.frame
                for _, each in rows
                if asked.where is None or asked.where.passes(_shown(each.frame))
            ]
            room = asked.limit - self.count if asked.limit else len(chosen)
            self.count += len(chosen)
            kept = [] if asked.counts_only else chosen[: max(0, room)]
            yield [_selected(frame, asked.select) for frame in kept]

    def progress_of(self, source: SourceName) -> Progress:
        """Return how far rows have come in a source. Raises StorageFailed, Malformed."""
        key = progress_key(self._prefix, source.session_id)
        (value,) = self._frozen.get(Table.STATE, [key])
        return Progress(source, NO_PLACE, 0) if value is None else unpack_progress(key, value)

    def candidates_of(self, source: SourceName) -> Iterator[list[store_v1.StateCandidate]]:
        """Yield the candidates of a source, step by step. Raises StorageFailed, Malformed."""
        first, last = rows_of_topic(self._prefix)
        limit = 16
        while stored := self._frozen.scan(Table.STATE, first, last, limit):
            first = stored[-1][0] + b"\0"
            limit = _limit(stored)
            unpacked = ((key_of(key), unpack_candidate(key, value)) for key, value in stored)
            yield [
                store_v1.StateCandidate(
                    key=key,
                    epoch=each.epoch,
                    sequence=each.sequence,
                    time_ns=each.time_ns,
                    expires_ns=each.expires_ns,
                    row=each.frame,
                )
                for key, each in unpacked
                if each.session_id == source.session_id
            ]

    def digest(self) -> Iterator[StateDigest]:
        """Yield the digest of the topic's rows, after each step. The last one is complete."""
        digest = StateDigest(self._generations)
        first, last = rows_of_topic(self._prefix)
        while stored := whole_keys(self._frozen, first, last, STEP_ROWS_MAX):
            first = stored[-1][0] + b"\0"
            digest.add(stored)
            yield digest
        yield digest

    def _rows(self, keys: Sequence[bytes]) -> Iterator[list[tuple[bytes, Candidate]]]:
        """Yield rows in steps, each with its key."""
        if keys:
            for key in keys:
                first, last = rows_of_key(self._prefix, key)
                stored = self._frozen.scan(Table.STATE, first, last, len(self._generations) or 1)
                yield self._found(stored)
            return
        first, last = rows_of_topic(self._prefix)
        limit = 16
        while stored := whole_keys(self._frozen, first, last, limit):
            first = stored[-1][0] + b"\0"
            yield self._found(stored)
            limit = _limit(stored)

    def _found(self, stored: Sequence[Row]) -> list[tuple[bytes, Candidate]]:
        return list(rows_among(stored, self._generations, self._now_ns))

    def _sorted(self, asked: Asked, ordering: Ordering) -> Iterator[list[bytes]]:
        limit = min(asked.limit or SORTED_MAX, SORTED_MAX)
        best: list[Sorted] = []
        for rows in self._rows(asked.keys):
            for key, row in rows:
                shown = _shown(row.frame)
                if asked.where is None or asked.where.passes(shown):
                    self.count += 1
                    stored_at = row_key(self._prefix, key, row.session_id)
                    best.append(Sorted(ordering.ranks(shown), stored_at))
            if len(best) > 2 * limit:
                best = ordering.best(best, limit)
            yield []
        if not asked.limit and self.count > limit:
            raise InvalidArgument(
                "order_by",
                f"{self.count:,} rows would have to be sorted, more than {limit:,}; give a limit, "
                "or narrow the rows with where",
            )
        best = ordering.best(best, limit)
        for at in range(0, len(best), _FETCHED):
            keys = [each.row_key for each in best[at : at + _FETCHED]]
            found = zip(keys, self._frozen.get(Table.STATE, keys), strict=True)
            frames = [unpack_candidate(key, value).frame for key, value in found if value]
            yield [_selected(frame, asked.select) for frame in frames]


def _limit(stored: Sequence[Row]) -> int:
    """Return how many rows to read next, so that a step has about its bytes."""
    size = sum(len(value) for _, value in stored)
    return max(2, min(STEP_ROWS_MAX, len(stored) * STEP_BYTES // max(size, 1)))


def _shown(frame: bytes) -> Shown:
    header = check_batch(frame, _WHERE)
    body = body_of(frame, header)
    return Shown(header, body.read_payloads(), body)


def _selected(frame: bytes, select: Projection | None) -> bytes:
    if select is None:
        return frame
    header = check_batch(frame, _WHERE)
    body = body_of(frame, header)
    return rows_of(header, body, [0], [select.of(body.read_payloads()[0])])
