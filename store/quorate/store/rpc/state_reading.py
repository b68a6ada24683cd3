"""The rows of a query, read from a frozen view in bounded steps. All of it runs in threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import key_of_row
from quorate.protocol.payloads import Reader, reader_of
from quorate.protocol.wire import bookmark_to_wire
from quorate.store.rules.state_order import Ordering, Sorted
from quorate.store.rules.state_rows import (
    Generations,
    StateDigest,
    by_key,
    frame_of,
    has_changed,
    is_in_force,
    is_row,
    newest_of,
    rows_among,
)
from quorate.store.rules.state_shown import ShownRows, StoredRows, large_alone
from quorate.store.storage.interface import Reads, Row, Table
from quorate.store.storage.large_rows import LacksPayload, is_large, whole
from quorate.store.storage.state_records import (
    Candidate,
    Progress,
    candidates_alone,
    key_of,
    progress_of_topic,
    row_of_source,
    rows_of_topic,
    rows_with_key,
    unpack_candidate,
    unpack_progress,
    whole_keys,
)
from quorate.store.tasks.state_progress import Keyed
from quorate.v1 import store_pb2 as store_v1

STEP_BYTES = 512 * 1024
"""Bytes that one step reads, about."""
STEP_ROWS_MAX = 1024
"""The most rows that one step reads."""
SORTED_MAX = 100_000
"""The most rows that a store sorts for one query."""

T = TypeVar("T")

Change = store_v1.StateChange
_FETCHED = 16
"""The sorted rows that one step reads. Each may have as many bytes as a batch may."""


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


@dataclass(frozen=True, slots=True)
class Watched:
    """The rows that a watch asks for."""

    where: Filter | None
    select: Projection | None


class IsLarge(Exception):
    """The payload of a row is beside it, and was not to be read."""


class StateView:
    """The state of one topic as of one moment."""

    def __init__(
        self,
        frozen: Reads,
        keyed: Keyed,
        topic: str,
        generations: Generations,
        now_ns: int,
        joins_parts: bool = True,
    ) -> None:
        """See a frozen table of rows.

        - keyed: the keys of the topic.
        - generations: those of the topic's sources.
        - now_ns: the time at which rows may have expired.
        - joins_parts: whether it reads the payloads of large rows. Otherwise it raises IsLarge.
        """
        self._frozen = frozen
        self._prefix = keyed.prefix
        self._form = keyed.keying.payload
        self._topic = topic
        self._generations = generations
        self._now_ns = now_ns
        # A method of this object would keep it, and so the frozen table, until a collection.
        self._whole = partial(whole, frozen, keyed.prefix) if joins_parts else _only_small
        self.count = 0
        """The rows that passed so far."""

    def position(self) -> Position:
        """Return the position that the rows have come to. Raises StorageFailed, Malformed."""
        return Position({each.source: each.place for step in self.progress() for each in step})

    def progress(self) -> Iterator[list[Progress]]:
        """Yield how far rows have come in each source. Raises StorageFailed, Malformed."""
        first, last = progress_of_topic(self._prefix)
        while rows := self._frozen.scan(Table.STATE, first, last, STEP_ROWS_MAX):
            found = [unpack_progress(key, value) for key, value in rows]
            yield [each for each in found if self._is_in_force(each.source, each.place)]
            first = rows[-1][0] + b"\0"

    def _is_in_force(self, source: SourceName, place: Place) -> bool:
        first_epoch = self._generations.get(source.session_id)
        return first_epoch is not None and first_epoch <= place.epoch

    def steps(self, asked: Asked) -> Iterator[list[bytes]]:
        """Yield the rows that are asked for, as batches of one message; a step may have none.

        Raises InvalidArgument, StorageFailed, CorruptBatch, Malformed.
        """
        if asked.ordering is not None and not asked.counts_only:
            yield from self._sorted(asked, asked.ordering)
            return
        for chosen in self._passing(asked):
            room = asked.limit - self.count if asked.limit else len(chosen)
            self.count += len(chosen)
            kept = [] if asked.counts_only else chosen[: max(0, room)]
            yield from _in_steps((self._given(row, asked.select) for row in kept), len)
            if asked.limit and not asked.counts_only and self.count >= asked.limit:
                return

    def _passing(self, asked: Asked) -> Iterator[list[Candidate]]:
        """Yield the rows that pass, in steps."""
        where, shown = asked.where, self._shown(asked.where)
        for stored in self._stored(asked.keys):
            if where is not None:
                alone = candidates_alone(stored, self._generations, self._now_ns)
                if alone is not None:
                    kept, payloads_at = alone
                    seen = StoredRows(self._topic, self._reader(where), kept, payloads_at)
                    passing = where.passing(seen, range(len(kept)))
                    yield [unpack_candidate(*kept[place]) for place in passing]
                    continue
            rows = rows_among(stored, self._generations, self._now_ns)
            yield _chosen([row for _, row in rows], where, shown)

    def candidates(self) -> Iterator[list[store_v1.StateCandidate]]:
        """Yield all candidates in force, step by step. Raises StorageFailed, Malformed."""
        first, last = rows_of_topic(self._prefix)
        limit = 16
        while stored := self._frozen.scan(Table.STATE, first, last, limit):
            first = stored[-1][0] + b"\0"
            limit = _limit(stored)
            unpacked = ((key_of(key), unpack_candidate(key, value)) for key, value in stored)
            yield from _in_steps(
                (
                    store_v1.StateCandidate(
                        key=key,
                        session_id=each.session_id,
                        epoch=each.epoch,
                        sequence=each.sequence,
                        time_ns=each.time_ns,
                        expires_ns=each.expires_ns,
                        row=self._whole(each).body,
                    )
                    for key, each in unpacked
                    if is_in_force(each, self._generations)
                ),
                store_v1.StateCandidate.ByteSize,
            )

    def digest(self) -> Iterator[StateDigest]:
        """Yield the digest of the topic's rows, after each step. The last one is complete."""
        digest = StateDigest(self._generations, self._now_ns)
        first, last = rows_of_topic(self._prefix)
        while stored := whole_keys(self._frozen, first, last, STEP_ROWS_MAX):
            first = stored[-1][0] + b"\0"
            digest.add(stored)
            yield digest
        yield digest

    def changes(self, watched: Watched, since: Position | None) -> Iterator[list[Change]]:
        """Yield all rows that pass, step by step. Raises StorageFailed, CorruptBatch, Malformed.

        since: a position that the rows have behind them. Then only keys that have changed since
        are given, also those without a row that passes.
        """
        before = None if since is None else _numbers(since, self._topic)
        for stored in self._stored(()):
            yield from _in_steps(
                (
                    change
                    for key, candidates in by_key(stored)
                    if before is None or has_changed(candidates, self._generations, before)
                    if (change := self._change(key, candidates, watched)).row or before is not None
                ),
                Change.ByteSize,
            )

    def changes_of(self, watched: Watched, keys: Sequence[bytes]) -> Iterator[list[Change]]:
        """Yield the rows of these keys, and of those without a row the reason why, in steps.

        Raises StorageFailed, CorruptBatch, Malformed.
        """
        found = {
            key: candidates for stored in self._stored(keys) for key, candidates in by_key(stored)
        }
        yield from _in_steps(
            (self._change_now(key, found.get(key, []), watched) for key in keys), Change.ByteSize
        )

    def _change_now(self, key: bytes, candidates: list[Candidate], watched: Watched) -> Change:
        """Return a change of a table that is not frozen: a large row may have been replaced."""
        while True:
            try:
                return self._change(key, candidates, watched)
            except LacksPayload:
                stored = rows_with_key(self._frozen, self._prefix, key)
                again = [unpack_candidate(*each) for each in stored]
                if again == candidates:
                    raise
                candidates = again

    def _change(self, key: bytes, candidates: Iterable[Candidate], watched: Watched) -> Change:
        newest = newest_of(candidates, self._generations)
        reason = store_v1.LEFT_REASON_UNSPECIFIED
        if newest is None:
            reason = store_v1.LEFT_REASON_ENDED
        elif not newest.body:
            reason = store_v1.LEFT_REASON_DELETED
        elif not is_row(newest, self._now_ns):
            reason = store_v1.LEFT_REASON_EXPIRED
        elif not _chosen([newest], watched.where, self._shown(watched.where)):
            reason = store_v1.LEFT_REASON_NO_MATCH
        change = Change(key=_key_to_wire(key), reason=reason)
        if newest is not None:
            source = SourceName(self._topic, newest.session_id)
            place = Place(newest.epoch, newest.sequence)
            change.by.CopyFrom(bookmark_to_wire(Bookmark(source, *place)))
            if not reason:
                change.row = self._given(newest, watched.select)
        return change

    def _rows(self, keys: Sequence[bytes]) -> Iterator[Iterable[tuple[bytes, Candidate]]]:
        """Yield rows in steps, each with what the stored rows of its key have in common."""
        for stored in self._stored(keys):
            yield rows_among(stored, self._generations, self._now_ns)

    def _stored(self, keys: Sequence[bytes]) -> Iterator[list[Row]]:
        return stored_rows(self._frozen, self._prefix, keys)

    def _sorted(self, asked: Asked, ordering: Ordering) -> Iterator[list[bytes]]:
        limit = min(asked.limit or SORTED_MAX, SORTED_MAX)
        best: list[Sorted] = []
        shown = self._shown(asked.where, ordering)
        for rows in self._rows(asked.keys):
            step = list(rows)
            # A message is the row of one key.
            same_of = {(row.session_id, row.sequence): same for same, row in step}
            passing = _chosen([row for _, row in step], asked.where, shown)
            for chosen in large_alone(passing):
                self.count += len(chosen)
                ranks = ordering.ranks(shown.at(chosen), range(len(chosen)))
                stored_at = [
                    row_of_source(same_of[row.session_id, row.sequence], row.session_id)
                    for row in chosen
                ]
                best += map(Sorted, ranks, stored_at)
            if len(best) > 2 * limit:
                best = ordering.best(best, limit)
            yield []
        if not asked.limit and self.count > limit:
            raise InvalidArgument(
                "order_by",
                f"{self.count:,} rows would have to be sorted, more than {limit:,}; give a limit, "
                "narrow the rows with where, or sort them with sql",
            )
        best = ordering.best(best, limit)
        for at in range(0, len(best), _FETCHED):
            keys = [each.row_key for each in best[at : at + _FETCHED]]
            found = zip(keys, self._frozen.get(Table.STATE, keys), strict=True)
            yield from _in_steps(
                (
                    self._given(unpack_candidate(key, value), asked.select)
                    for key, value in found
                    if value
                ),
                len,
            )

    def _shown(self, where: Filter | None, ordering: Ordering | None = None) -> ShownRows:
        """Return what stands for rows, with all that these ask for."""
        return ShownRows(self._topic, self._reader(where, ordering), self._whole)

    def _reader(self, where: Filter | None, ordering: Ordering | None = None) -> Reader:
        """Return what makes documents of payloads, with all that these ask for."""
        members = frozenset[str]().union(*(each.members for each in (where, ordering) if each))
        return reader_of(self._form, members)

    def _given(self, row: Candidate, select: Projection | None) -> bytes:
        """Return a row as it is given: a batch of one message. Raises CorruptBatch."""
        row = self._whole(row)
        payload = None if select is None else select.of(row.payload, self._form)
        return frame_of(self._topic, row, payload)


def _only_small(row: Candidate) -> Candidate:
    if is_large(row):
        raise IsLarge
    return row


def _in_steps(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield all items in lists of a bounded size, one list at least. The items may be large."""
    step: list[T] = []
    size = 0
    for each in items:
        step.append(each)
        size += size_of(each)
        if size > STEP_BYTES:
            yield step
            step, size = [], 0
    yield step


def _key_to_wire(packed: bytes) -> store_v1.StateKey:
    key = key_of_row(packed)
    if isinstance(key, bytes):
        return store_v1.StateKey(raw=key)
    return store_v1.StateKey(values=json.dumps(key))


def _chosen(rows: list[Candidate], where: Filter | None, shown: ShownRows) -> list[Candidate]:
    """Return the rows that pass."""
    if where is None:
        return rows
    chosen: list[Candidate] = []
    for some in large_alone(rows):
        passing = where.passing(shown.at(some), range(len(some)))
        chosen += [some[row] for row in passing]
    return chosen


def _numbers(position: Position, topic: str) -> dict[int, int]:
    """Return the last number before a position of each source of a topic, by session ID."""
    return {
        source.session_id: place.sequence
        for source, place in position.items()
        if source.topic == topic
    }


def stored_rows(reads: Reads, prefix: bytes, keys: Sequence[bytes]) -> Iterator[list[Row]]:
    """Yield all that is stored of these keys, or of all keys if there are none, in steps.

    prefix: of the topic. Raises StorageFailed.
    """
    if keys:
        for key in keys:
            yield rows_with_key(reads, prefix, key)
        return
    first, last = rows_of_topic(prefix)
    limit = 16
    while stored := whole_keys(reads, first, last, limit):
        first = stored[-1][0] + b"\0"
        yield stored
        limit = _limit(stored)


def _limit(stored: Sequence[Row]) -> int:
    """Return how many rows to read next, so that a step has about its bytes."""
    size = sum(len(value) for _, value in stored)
    return max(2, min(STEP_ROWS_MAX, len(stored) * STEP_BYTES // max(size, 1)))
