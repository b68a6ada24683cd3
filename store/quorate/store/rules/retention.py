"""Retention: what a store lets go of, what keeps it, and how it goes (DESIGN 4.5).

Pure rules. A source's oldest batches go for any bound that they are over, if every condition holds,
and never above what is stable. In two phases: first `retained_from` becomes durable together with
the batches' rows leaving the index; then, in bounded steps, the batches leave the journal. A crash
in between leaves batches that nothing refers to, and that the table RELEASED still names. Nothing
is let go because something is not known: whoever is in doubt keeps everything.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from quorate.protocol.errors import CorruptBatch, InvalidArgument, StorageFailed
from quorate.protocol.framing import read_header
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.recovery import Marker
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import (
    BAD_BATCH_KEYS,
    bad_batch_key,
    bad_batch_position,
)
from quorate.store.storage.records import (
    IndexEntry,
    Malformed,
    index_key,
    position_key,
    position_of,
    unpack_released,
)

ACKNOWLEDGED, ARCHIVED = "acknowledged", "archived"
"""Conditions."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a store keeps of a source; 0: no such bound."""

    bytes: int = 0
    """Of its batches in the journal, at most; but the newest is kept."""
    seconds: float = 0.0
    """Since the store took a batch."""
    messages: int = 0
    """At least: of the batch that has the oldest of them, all are kept."""
    until: frozenset[str] | None = None
    """Conditions that must hold before anything goes; None: those that the source asks for."""

    def __bool__(self) -> bool:
        return bool(self.bytes or self.seconds or self.messages)


@dataclass(frozen=True, slots=True)
class Limit:
    """How far a source's messages may go."""

    upto: int
    why: str
    """What keeps the next one, for people."""


def conditions(state: SourceState, bounds: Bounds) -> frozenset[str]:
    """What must hold before anything of a source goes.

    A source that waits for its receivers asks its stores to keep what these have not acknowledged.
    """
    if bounds.until is not None:
        return bounds.until
    information = state.registration.information
    paced = information is not None and information.HasField("receiver_pacing")
    return frozenset((ACKNOWLEDGED,) if paced else ())


def limit(
    state: SourceState,
    until: frozenset[str],
    doubt: str,
    positions: Mapping[int, int],
    silent: Iterable[str],
) -> Limit:
    """How far the conditions, and stability, let messages go.

    doubt: why the store can not vouch for the source. positions: the highest that each receiver of
    it that is waited for has acknowledged, as far as any store knows. silent: stores that were not
    heard since the start, and may know more receivers.
    """
    if doubt:
        return Limit(NOTHING, f"the store is in limbo for it: {doubt}")
    limits = [Limit(state.held.stable_upto, "what follows is not known to be stable")]
    if ARCHIVED in until:
        upto = state.held.archived_upto
        limits.append(Limit(upto, f"an archive has it up to {upto} only"))
    if ACKNOWLEDGED in until:
        limits += [
            Limit(upto, f"receiver {receiver:#x} has acknowledged up to {upto} only")
            for receiver, upto in positions.items()
        ]
        limits += [
            Limit(NOTHING, f"{store} was not heard yet, and may know more receivers")
            for store in silent
        ]
    return min(limits, key=lambda each: each.upto)


def is_over(state: SourceState, bounds: Bounds) -> bool:
    """Whether a source is over a bound other than that of age; not every batch may go then."""
    return 0 < bounds.bytes < state.journal_bytes or 0 < bounds.messages < state.held.ranges.count()


def is_due(oldest: IndexEntry, state: SourceState, bounds: Bounds, old_before: int) -> bool:
    """Whether its oldest row goes, if the limit lets it. old_before: as for choose."""
    messages = state.held.ranges.count()
    return _is_due(oldest, state, bounds, old_before, state.journal_bytes, messages)


def choose(
    rows: Iterable[IndexEntry], state: SourceState, bounds: Bounds, upto: int, old_before: int
) -> tuple[list[IndexEntry], bool]:
    """Which of the oldest rows go, and whether it is the limit that keeps the next.

    rows: of the index, ascending from the first. upto: the limit. old_before: batches before this
    position of the journal are older than the bound.
    """
    size, messages = state.journal_bytes, state.held.ranges.count()
    going: list[IndexEntry] = []
    for row in rows:
        if not _is_due(row, state, bounds, old_before, size, messages):
            return going, False
        if row.last > upto:
            return going, True
        going.append(row)
        count = _count(row)
        # Of a batch that has several rows the size is not known here.
        size -= row.size or size * count // max(messages, count)
        messages -= count
    return going, False


def _is_due(
    row: IndexEntry,
    state: SourceState,
    bounds: Bounds,
    old_before: int,
    size: int,
    messages: int,
) -> bool:
    """size, messages: what there is of the source, from this row on.

    Batches go as a whole. So many messages stay at least; so many bytes at most, but for the
    newest batch: a bound that is less than one is not to keep nothing.
    """
    return (
        (0 < bounds.bytes < size and row.last < state.held.ranges.high)
        or 0 < bounds.messages <= messages - _count(row)
        or (bounds.seconds > 0 and row.position < old_before)
    )


def _count(row: IndexEntry) -> int:
    return row.last - row.first + 1


def readable(reads: Reads, state: SourceState, going: Iterable[IndexEntry]) -> frozenset[int]:
    """Where in the journal the batches are of which nothing is known to be unreadable.

    What a source has that was deleted, and is back, may only be noted (see bad_batches). Raises
    StorageFailed.
    """
    positions = [
        row.position
        for row in going
        if not state.unreadable
        or state.unreadable.holes(row.first, row.last) == [Range(row.first, row.last)]
    ]
    notes = reads.get(Table.META, [bad_batch_key(each) for each in positions])
    return frozenset(each for each, note in zip(positions, notes, strict=True) if note is None)


def let_go(reads: Reads, state: SourceState, going: Sequence[IndexEntry]) -> list[Write]:
    """The first phase, for the oldest rows of a source; every write of it must be readable.

    Raises StorageFailed, CorruptBatch.
    """
    held, last = state.held, going[-1].last
    assert last <= held.stable_upto, (last, held.stable_upto)
    writes: list[Write] = []
    for row in going:
        writes.append(Write(Table.INDEX, index_key(state.reg_id, row.first), None))
        writes.append(index.may_leave(state.reg_id, row.position, row.size))
    if held.set_aside:
        for key, row in index.aside(reads, state.reg_id):
            if row.last <= last:
                writes.append(Write(Table.SET_ASIDE, key, None))
                writes.append(index.may_leave(state.reg_id, row.position, row.size))
    held.ranges.remove(0, last)
    held.retained_from = max(held.retained_from, last + 1)
    held.next_sequence = max(held.next_sequence, last + 1)
    held.released_bytes += index.leaving_bytes(writes)
    return [*writes, *state.read_well(0, last), *state.prune_markers(), state.held_row()]


def take_over(
    reads: Reads, state: SourceState, retained_from: int, markers: Iterable[Marker] = ()
) -> list[Write]:
    """Note that others let go what is below: this store need not have it any more, but keeps it.

    What can not be read of it is given up. markers: what they know; the newest is not in a batch
    that will be fetched. Every write of the source must be readable. Raises StorageFailed,
    CorruptBatch.
    """
    held = state.held
    retained_from = max(retained_from, held.retained_from)
    unneeded = state.unneeded(retained_from)
    if retained_from == held.retained_from and not unneeded:
        return []
    writes: list[Write] = []
    for part in unneeded:
        for entry in index.entries(reads, state.reg_id, part.first, part.last):
            writes += index.cut_out(state.reg_id, entry, part)
    for part in unneeded:
        held.ranges.remove(part.first, part.last)
    held.released_bytes += index.leaving_bytes(writes)
    held.retained_from = retained_from
    held.stable_upto = max(held.stable_upto, retained_from - 1)
    held.next_sequence = max(held.next_sequence, retained_from)
    marker = _newest_below(retained_from, state.lineage, markers)
    if marker is not None and marker not in state.markers:
        writes += state.add_marker(marker)
    return [*writes, *state.read_well(0, retained_from - 1), state.held_row()]


def _newest_below(retained_from: int, lineage: Lineage, markers: Iterable[Marker]) -> Marker | None:
    """The newest marker of what was let go, if there is one."""
    belonging = (
        marker
        for marker in markers
        if marker.sequence < retained_from and lineage.epoch_at(marker.sequence) == marker.epoch
    )
    return max(belonging, key=lambda marker: marker.sequence, default=None)


def archived(state: SourceState, upto: int) -> tuple[Write, ...]:
    """Note that an archive has everything up to there.

    Raises InvalidArgument above what is stable.
    """
    held = state.held
    if upto > held.stable_upto:
        raise InvalidArgument(
            "upto", f"{upto} is not known to be stable here; that is so up to {held.stable_upto}"
        )
    if upto <= held.archived_upto:
        return ()
    held.archived_upto = upto
    return (state.held_row(),)


# The second phase.


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What leaves the journal in one step; if nothing was found there is nothing to write."""

    writes: list[Write]
    batches: int
    bytes: int
    late: Mapping[int, int]
    """By RegID: bytes that were not counted as let go before."""
    positions: Range | None
    """Where in the journal; None: nothing was found."""
    unread: Mapping[int, str]
    """By position: why what was let go stays nevertheless."""


def reclaim(reads: Reads, position: int, rows_max: int, trusted: Collection[int] = ()) -> Reclaimed:
    """Take batches that nothing refers to out of the journal, from a position on.

    One that can not be read stays, and so does its row of RELEASED: what may refer to it is not
    known, and the disk must not be made to compact it (see unreadable). It keeps no other. Those
    at the trusted positions need not be looked at. Every row of RELEASED that can be read must be
    durable. Raises StorageFailed if these can not be.
    """
    writes: list[Write] = []
    late: dict[int, int] = {}
    unread: dict[int, str] = {}
    count = total = 0
    rows = reads.scan(Table.RELEASED, position_key(position), position_key(_HIGHEST), rows_max)
    for key, value in rows:
        try:
            reg_id, size = unpack_released(value)
            if size and position_of(key) not in trusted:
                reads.get(Table.JOURNAL, [key])
            found = size or _unreferred(reads, reg_id, key)
        except (Malformed, StorageFailed, CorruptBatch) as error:
            unread[position_of(key)] = str(error)
            continue
        writes.append(Write(Table.RELEASED, key, None))
        if found is None:
            continue
        if not size:
            late[reg_id] = late.get(reg_id, 0) + found
        writes.append(Write(Table.JOURNAL, key, None))
        count += 1
        total += found
    where = Range(position_of(rows[0][0]), position_of(rows[-1][0])) if rows else None
    return Reclaimed(writes, count, total, late, where, unread)


_HIGHEST = 2**64 - 1


def _unreferred(reads: Reads, reg_id: int, key: bytes) -> int | None:
    """The size of a batch that no row names any more; None if one does."""
    frame = reads.get(Table.JOURNAL, [key])[0]
    if frame is None:
        return 0
    try:
        header = read_header(frame, "in the journal")
        numbers = Range(header.first, min(header.last, SEQUENCE_MAX))
    except (CorruptBatch, AssertionError):
        return len(frame)  # it serves nobody
    if index.is_referred_to(reads, reg_id, position_of(key), numbers):
        return None
    return len(frame)


def unreadable(reads: Reads, reg_id: int, parts: Iterable[Range]) -> str:
    """Why the disk does not give a batch of these numbers; empty: it gives all of them.

    What it gives may be corrupt in itself. Where it gives nothing it must not be made to compact:
    RocksDB writes nothing any more once it has met a block that it can not read while it does.
    """
    try:
        for part in parts:
            for entry in index.entries(reads, reg_id, part.first, part.last):
                reads.get(Table.JOURNAL, [position_key(entry.position)])
    except (StorageFailed, CorruptBatch) as error:
        return str(error)
    return ""


def bad_batches(reads: Reads, reg_id: int, part: Range) -> list[Write]:
    """Note where in the journal what was found unreadable is, for as long as it is there.

    Also when its numbers are those of other messages by then, or nobody's.
    """
    try:
        found = list(index.entries(reads, reg_id, part.first, part.last))
    except (StorageFailed, CorruptBatch):
        return []  # it is not known where it is
    return [Write(Table.META, bad_batch_key(entry.position), b"") for entry in found]


def still_bad(reads: Reads) -> tuple[str, list[Write]]:
    """Why the disk does not give a batch that was noted (see unreadable); empty: none is left.

    With what forgets those that it gives again. What was noted must be durable. Raises
    StorageFailed.
    """
    writes: list[Write] = []
    key, end = BAD_BATCH_KEYS
    while rows := reads.scan(Table.META, key, end, 1024):
        for key, _ in rows:
            try:
                reads.get(Table.JOURNAL, [position_key(bad_batch_position(key))])
            except StorageFailed as error:
                return str(error), writes
            writes.append(Write(Table.META, key, None))
        key += b"\0"
    return "", writes


# How old what is.


@dataclass(frozen=True, slots=True)
class Mark:
    """What was taken by a time: all batches before a position of the journal."""

    position: int
    observed: float
    """Seconds for which the store had run and looked around by then, over all its runs."""
    wall: float
    """s since 1970 by the store's clock."""


_STEPS = 64
"""Ages are known to about this part of themselves."""


@dataclass(frozen=True, slots=True)
class Ages:
    """How long ago the store took what, by its own receive order.

    The wall clock alone would let everything go when it jumps. So a batch counts as older than a
    time only if the store itself has seen half of that time pass since, too: whatever the clock
    says, what is younger than that stays.
    """

    marks: tuple[Mark, ...] = ()
    """Ascending."""

    def noted(self, mark: Mark) -> Ages:
        """With one more; the older they are the fewer are kept."""
        kept = [mark]
        for at in range(len(self.marks) - 1, -1, -1):
            known = self.marks[at]
            # Without it there would be a gap from the next newer to the next older one.
            gap = kept[-1].observed - self.marks[at - 1].observed if at else inf
            if gap > (mark.observed - known.observed) / _STEPS:
                kept.append(known)
        return replace(self, marks=tuple(reversed(kept)))

    def old_before(self, seconds: float, observed: float, wall: float) -> int:
        """The position before which everything was taken longer ago than this; times are now."""
        return max(
            (
                mark.position
                for mark in self.marks
                if wall - mark.wall >= seconds and observed - mark.observed >= seconds / 2
            ),
            default=0,
        )


AGES_KEY = b"ages"
_MARK = struct.Struct(">Qdd")


def ages_row(ages: Ages) -> Write:
    value = b"".join(_MARK.pack(mark.position, mark.observed, mark.wall) for mark in ages.marks)
    return Write(Table.META, AGES_KEY, value)


def unpack_ages(value: bytes) -> Ages:
    try:
        return Ages(tuple(Mark(*fields) for fields in _MARK.iter_unpack(value)))
    except struct.error as error:
        raise Malformed(f"how old what is can not be read: {error}") from None


def mark_seconds(shortest: float) -> float:
    """How often to note how far the journal has come, for the shortest of all bounds."""
    return min(max(1.0, shortest / _STEPS), 600.0)
