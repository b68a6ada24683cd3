"""The past rows of a topic: the candidates that keys had at a position, found in the journal.

A key that has not changed since has its candidate among the rows. For the others the journal is
read from the position backwards, until each is found. A key of which retention may have let the
candidate go is an error, never a missing row. All of it runs in threads, in bounded steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from quorate.protocol.errors import QuorateError
from quorate.protocol.ranges import Range
from quorate.store.rpc.state_reading import stored_rows
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.state_rows import generation_of
from quorate.store.storage.interface import Reads, Row, Table
from quorate.store.storage.state_records import (
    Candidate,
    hidden_key,
    is_row_key,
    unpack_candidate,
    unpack_hidden,
)
from quorate.store.tasks.state_progress import Keyed
from quorate.store.tasks.state_slices import SLICE_BYTES, read_slice

CHANGED_MAX = 100_000
"""The most keys that may have changed since, for one query."""
CHANGED_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of their messages that one query may hold."""
_NUMBERS_FIRST, _NUMBERS_MAX = 64, 8192

Lacks = Callable[[str], QuorateError]
"""Returns the error of a past that the journal no longer reaches, with the reason."""


@dataclass(frozen=True, slots=True)
class PastStream:
    """The stream of a source as it was at a time."""

    state: SourceState
    upto: int
    """The last number that counts."""


class Past:
    """The rows of one topic at a time that has passed."""

    def __init__(
        self,
        frozen: Reads,
        journal: Reads,
        keyed: Keyed,
        streams: Sequence[PastStream],
        as_of_ns: int,
        lacks: Lacks,
    ) -> None:
        """See rows as of a time, once `steps` is done.

        - frozen: the table of the rows as they are now.
        - streams: those of the topic's sources. The rows have all that counts of each.
        """
        self._frozen = frozen
        self._journal = journal
        self._prefix = keyed.prefix
        self._keyed = keyed
        self._streams = {each.state.name.session_id: each for each in streams}
        self._as_of_ns = as_of_ns
        self._lacks = lacks
        self._changed: dict[int, set[bytes]] = {session_id: set() for session_id in self._streams}
        """The rows that a source has changed since: their keys."""
        self._found: dict[bytes, bytes] = {}
        """The candidates of then, where they are others than now: as rows."""
        self._bytes = 0

    def steps(self, keys: Sequence[bytes]) -> Iterator[None]:
        """Find the candidates of then, step by step. keys: only these; empty: all.

        Raises the error of `lacks`, StorageFailed, CorruptBatch, Malformed.
        """
        hidden_ns = unpack_hidden(self._frozen.get(Table.STATE, [hidden_key(self._prefix)])[0])
        if self._as_of_ns < hidden_ns:
            raise self._lacks("deletions and expired messages of that time have been let go")
        for stored in stored_rows(self._frozen, self._prefix, keys):
            for key, value in stored:
                self._see(key, unpack_candidate(key, value))
            yield
        for session_id, stream in self._streams.items():
            yield from self._search(stream, self._changed[session_id])

    def reads(self) -> Reads:
        """Return the rows of then, as a table of rows."""
        return _PastRows(self._frozen, self._found, self._counts)

    def _counts(self, candidate: Candidate) -> bool:
        """Return whether a candidate counted then already."""
        stream = self._streams.get(candidate.session_id)
        return stream is not None and candidate.sequence <= stream.upto

    def _see(self, key: bytes, candidate: Candidate) -> None:
        """Note a row of which the journal must be asked. key: that of the row."""
        stream = self._streams.get(candidate.session_id)
        if stream is None or generation_of(stream.state.lineage) > candidate.epoch:
            return
        if candidate.sequence > stream.upto:
            changed = self._changed[candidate.session_id]
            changed.add(key)
            if len(changed) > CHANGED_MAX:
                raise self._lacks(f"more than {CHANGED_MAX:,} keys have changed since")
        elif self._is_let_go(candidate, stream) and candidate.time_ns > self._as_of_ns:
            raise self._lacks(f"messages of {stream.state.name} of that time have been let go")

    def _is_let_go(self, candidate: Candidate, stream: PastStream) -> bool:
        return candidate.sequence < stream.state.held.retained_from

    def _search(self, stream: PastStream, changed: set[bytes]) -> Iterator[None]:
        """Find the last messages of these rows up to a number, from there backwards."""
        state, last, numbers = stream.state, stream.upto, _NUMBERS_FIRST
        retained_from = state.held.retained_from
        while changed and last >= retained_from:
            part = Range(max(retained_from, last - numbers + 1), last)
            found, size = self._read(state, part, changed)
            self._found |= found
            self._bytes += sum(map(len, found.values()))
            self._check_bytes(0)
            changed = changed - found.keys()
            last = part.first - 1
            fitting = len(part) * SLICE_BYTES // max(size, 1)
            numbers = max(1, min(_NUMBERS_MAX, 2 * numbers, fitting))
            yield
        if changed and retained_from:
            raise self._lacks(
                f"messages of {state.name} below {retained_from:,} have been let go, and they may "
                f"be the rows of {len(changed):,} keys that have changed since"
            )

    def _check_bytes(self, more: int) -> None:
        if self._bytes + more > CHANGED_BYTES_MAX:
            raise self._lacks(f"what has changed since has more than {CHANGED_BYTES_MAX:,} bytes")

    def _read(
        self, state: SourceState, part: Range, changed: set[bytes]
    ) -> tuple[dict[bytes, bytes], int]:
        """Return the candidates of these rows in a part of a stream, packed.

        With them how many bytes were read.
        """
        found: dict[bytes, bytes] = {}
        first, size = part.first, 0
        while first <= part.last:
            lost_upto = state.losses.contiguous_upto(first)
            if lost_upto >= first:
                first = lost_upto + 1
                continue
            wanted = Range(first, part.last)
            read = read_slice(self._journal, state, wanted, len(part), self._keyed)
            if read.upto is None:
                why = "is not there" if read.problem is None else read.problem.problem
                raise self._lacks(f"message {first:,} of {state.name} cannot be read: {why}")
            rows = zip(read.rows.keys, read.rows.values, strict=True)
            found |= {key: row for key, row in rows if key in changed}
            self._check_bytes(sum(map(len, found.values())))
            size += read.size
            first = read.upto + 1
        return found, size


class _PastRows:
    """A table of rows in which some candidates are those of then."""

    def __init__(
        self, frozen: Reads, found: dict[bytes, bytes], counts: Callable[[Candidate], bool]
    ) -> None:
        self._frozen = frozen
        self._found = found
        self._counts = counts

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        values = zip(keys, self._frozen.get(table, keys), strict=True)
        return [None if value is None else self._then(key, value) for key, value in values]

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        found: list[Row] = []
        while True:
            wanted = limit - len(found)
            rows = self._frozen.scan(table, first, last, wanted)
            found += (
                (key, then) for key, now in rows if (then := self._then(key, now)) is not None
            )
            if len(rows) < wanted or len(found) == limit:
                return found
            first = rows[-1][0] + b"\0"

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        raise NotImplementedError("no query of rows asks for it")

    def _then(self, key: bytes, value: bytes) -> bytes | None:
        if not is_row_key(key) or self._counts(unpack_candidate(key, value)):
            return value
        return self._found.get(key)
