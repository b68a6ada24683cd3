"""Retention: which messages a store lets go, why it keeps others, the steps (protocol.md 12).

Pure rules. The oldest batches of a source go when they exceed any bound and every condition holds.
Only stable messages go. A store in doubt keeps everything.

A batch goes in two phases. First the batch's row leaves the index, and `retained_from` becomes
durable with it. Then, in bounded steps, the batch leaves the journal. A crash in between leaves
batches that no row refers to. The table RELEASED still names them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from quorate.protocol.bookmarks import Place
from quorate.protocol.errors import CorruptBatch, InvalidArgument, StorageFailed
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX, WHOLE_BATCH_BYTES_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.recovery import Marker
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Slowest
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.large_batches import (
    LargeRow,
    fragments,
    large_row,
    removal,
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
"""The names of the conditions that can hold messages back."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds on what a store keeps of a source; 0: no such bound."""

    bytes: int = 0
    """The most bytes of its batches in the journal. The newest batch is always kept."""
    seconds: float = 0.0
    """The greatest age of a batch, in seconds since the store took it."""
    messages: int = 0
    """The number of newest messages to keep. The batch with the oldest of them is kept whole."""
    until: frozenset[str] | None = None
    """Conditions that must hold before any message goes; None: those that the source asks for."""
    subscriber_seconds: float = 0.0
    """Seconds for which messages wait for running subscriptions to read them."""

    def __bool__(self) -> bool:
        return bool(self.bytes or self.seconds or self.messages)


@dataclass(frozen=True, slots=True)
class Limit:
    """The number up to which a source's messages may go."""

    upto: int
    why: str
    """The reason to keep the next message, as text for people."""


def conditions(state: SourceState, bounds: Bounds) -> frozenset[str]:
    """Return the conditions that must hold before a message of a source goes.

    A source that waits for its receivers asks the stores to keep unacknowledged messages.
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
    """Return how far stability and the conditions let messages go.

    doubt: why the store cannot vouch for the source; empty: it vouches.

    positions: the highest acknowledged number of each receiver that is waited for, as far as any
    store knows.

    silent: stores that were not heard since the start. They may know more receivers.
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


def as_far_as_read(held: Limit, slowest: Slowest | None) -> Limit:
    """Return how far messages may go that subscriptions are still to read.

    - held: how far everything else lets them go.
    - slowest: the subscription that has read least; None: nobody reads the source.
    """
    if slowest is None or slowest.upto >= held.upto:
        return held
    why = f"the subscription of {slowest.client} has read up to {slowest.upto} only"
    return Limit(slowest.upto, why)


def as_far_as_rows(held: Limit, rows: Place, lineage: Lineage) -> Limit:
    """Return how far messages may go of which rows of the state of the world are to be made.

    - held: how far everything else lets them go.
    - rows: the place to which rows of the source are made.
    """
    upto = rows.sequence if rows.belongs_to(lineage) else NOTHING
    return held if upto >= held.upto else Limit(upto, f"rows are made up to {upto} only")


class SubscriberWaits:
    """The waits of retention for running subscriptions, of each source by itself.

    A wait begins when subscriptions alone keep a message. It lasts until they keep none, or until
    its time is over. So no message waits for longer than that time, however slowly they read.
    """

    def __init__(self) -> None:
        self._began: dict[SourceName, float] = {}

    def within(
        self, source: SourceName, held: Limit, slowest: Slowest | None, seconds: float, now: float
    ) -> Limit:
        """Return how far messages may go: as far as `held`, and as subscriptions have read.

        - slowest: the subscription that has read least; None: nobody reads the source.
        - seconds: how long to wait at most.
        - now: the time in seconds, of a clock that never jumps.
        """
        is_over = now >= self._began.get(source, now) + seconds
        return held if is_over else as_far_as_read(held, slowest)

    def kept(self, source: SourceName, now: float) -> None:
        """Note that subscriptions alone keep a message of the source."""
        self._began.setdefault(source, now)

    def over(self, source: SourceName) -> None:
        """Note that subscriptions keep no message of the source."""
        self._began.pop(source, None)

    def forget_all_but(self, sources: Collection[SourceName]) -> None:
        """Forget the waits for sources that are gone."""
        for source in self._began.keys() - sources:
            del self._began[source]


def is_over(state: SourceState, bounds: Bounds) -> bool:
    """Return whether a source exceeds its bound of bytes or of messages."""
    return 0 < bounds.bytes < state.journal_bytes or 0 < bounds.messages < state.held.ranges.count()


def is_due(oldest: IndexEntry, state: SourceState, bounds: Bounds, old_before: int) -> bool:
    """Return whether the oldest row of a source exceeds a bound. old_before: as for `choose`."""
    messages = state.held.ranges.count()
    return _is_due(oldest, state, bounds, old_before, state.journal_bytes, messages)


def choose(
    rows: Iterable[IndexEntry], state: SourceState, bounds: Bounds, upto: int, old_before: int
) -> tuple[list[IndexEntry], bool]:
    """Return the oldest rows to let go, and whether the limit alone keeps the next row.

    rows: the source's rows of the index, ascending from the first.

    upto: the limit.

    old_before: the position of the journal before which batches exceed the bound of age.
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
        # A batch with several rows has no known size in each row: estimate by its messages.
        size -= row.size or size * count // max(messages, count)
        messages -= count
    return going, False


def choose_before(
    rows: Iterable[IndexEntry], before: int, excess: int, limit: Limit
) -> tuple[list[IndexEntry], str]:
    """Return the oldest rows to let go because the whole store is over its bound.

    - rows: those of one source in the index, ascending from the first.
    - before: a position in the journal. Younger batches stay: another source has an older one.
    - excess: the bytes that the store has too many.

    Also return why the next row stays that would have to go; empty: none would.
    """
    going: list[IndexEntry] = []
    for row in rows:
        if excess <= 0 or row.position >= before:
            break
        if row.last > limit.upto:
            return going, limit.why
        going.append(row)
        # Of a batch with several rows the size is unknown: the next step looks again.
        excess -= row.size or excess
    return going, ""


def choose_below(
    rows: Iterable[IndexEntry], below: int, limit: Limit
) -> tuple[list[IndexEntry], str]:
    """Return the oldest rows that are wholly below a number, and why the next of them stays.

    rows: the source's rows of the index, ascending from the first.
    """
    going: list[IndexEntry] = []
    for row in rows:
        if row.last >= below:
            break
        if row.last > limit.upto:
            return going, limit.why
        going.append(row)
    return going, ""


def _is_due(
    row: IndexEntry,
    state: SourceState,
    bounds: Bounds,
    old_before: int,
    size: int,
    messages: int,
) -> bool:
    """Return whether a row exceeds a bound. size, messages: those from this row on.

    Batches go as a whole. At least `bounds.messages` messages stay. At most `bounds.bytes` bytes
    stay, but the newest batch stays even if it is larger than that.
    """
    return (
        (0 < bounds.bytes < size and row.last < state.held.ranges.high)
        or 0 < bounds.messages <= messages - _count(row)
        or (bounds.seconds > 0 and row.position < old_before)
    )


def _count(row: IndexEntry) -> int:
    return row.last - row.first + 1


def readable(reads: Reads, state: SourceState, going: Iterable[IndexEntry]) -> frozenset[int]:
    """Return the journal positions of the batches that are not known to be unreadable.

    A batch may be unreadable by a note alone (see `bad_batches`), if its source was deleted and is
    back. Raises StorageFailed.
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
    """Do the first phase for the oldest rows of a source.

    Every write of the source must be readable. Raises StorageFailed, CorruptBatch.
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
    """Note that other stores let go everything below retained_from.

    This store keeps the messages that it has of those, and gives up those that it cannot read.
    Every write of the source must be readable. Raises StorageFailed, CorruptBatch.

    markers: markers that the other stores know. The newest one below may be in no batch that this
    store will fetch.
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
    """Return the newest marker below retained_from that belongs to the lineage, if any."""
    belonging = (
        marker
        for marker in markers
        if marker.sequence < retained_from and lineage.epoch_at(marker.sequence) == marker.epoch
    )
    return max(belonging, key=lambda marker: marker.sequence, default=None)


def archived(state: SourceState, upto: int) -> tuple[Write, ...]:
    """Note that an archive has everything up to this number.

    Raises InvalidArgument if the number is not known to be stable.
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
    """The batches that leave the journal in one step; no writes if none was found."""

    writes: list[Write]
    batches: int
    bytes: int
    late: Mapping[int, int]
    """Bytes that were not counted as let go before, by RegID."""
    positions: Range | None
    """The positions in the journal that this step looked at; None: there were none."""
    groups: Range | None
    """The groups of fragments that leave with large batches, and what is between them; None:
    none leaves."""
    unread: Mapping[int, str]
    """The reason why a released batch stays nevertheless, by position."""


def reclaim(reads: Reads, position: int, rows_max: int, trusted: Collection[int] = ()) -> Reclaimed:
    """Remove released batches that no row refers to from the journal, from a position on.

    An unreadable batch stays, with its row of RELEASED, and keeps no other. The rows that refer to
    it are unknown, and the disk must not compact it (see `unreadable`). The step does not read the
    batches at trusted positions. Every readable row of RELEASED must be durable. Raises
    StorageFailed if RELEASED cannot be read.
    """
    writes: list[Write] = []
    late: dict[int, int] = {}
    unread: dict[int, str] = {}
    groups: list[int] = []
    count = total = 0
    rows = reads.scan(Table.RELEASED, position_key(position), position_key(_HIGHEST), rows_max)
    for key, value in rows:
        try:
            reg_id, size = unpack_released(value)
            is_trusted = size and position_of(key) in trusted
            large = None
            if not is_trusted or size > WHOLE_BATCH_BYTES_MAX:
                large = _read_all(reads, key, of_fragments=not is_trusted)
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
        if large is not None:
            writes += removal(large.group, large.count)
            groups.append(large.group)
        count += 1
        total += found
    where = Range(position_of(rows[0][0]), position_of(rows[-1][0])) if rows else None
    between = Range(min(groups), max(groups)) if groups else None
    return Reclaimed(writes, count, total, late, where, between, unread)


_HIGHEST = 2**64 - 1


def _read_all(reads: Reads, key: bytes, *, of_fragments: bool = True) -> LargeRow | None:
    """Read a batch of the journal as a whole, and return its row if it is a large one.

    of_fragments: whether to read the fragments, too. Raises StorageFailed: the disk cannot read it.
    """
    value = reads.get(Table.JOURNAL, [key])[0]
    try:
        large = large_row(value) if value is not None else None
        if large is not None and of_fragments:
            for _ in fragments(reads, large):
                pass
    except CorruptBatch:
        pass  # the disk reads what is there
    return large


def _unreferred(reads: Reads, reg_id: int, key: bytes) -> int | None:
    """Return the bytes of a batch that no row refers to; None if a row does."""
    frame = reads.get(Table.JOURNAL, [key])[0]
    if frame is None:
        return 0
    try:
        large = large_row(frame)
        header = large.header if large is not None else read_header(frame, "in the journal")
        numbers = Range(header.first, min(header.last, SEQUENCE_MAX))
    except (CorruptBatch, AssertionError):
        return len(frame)  # no row can serve a corrupt batch
    if index.is_referred_to(reads, reg_id, position_of(key), numbers):
        return None
    return large.size if large is not None else len(frame)


def unreadable(reads: Reads, reg_id: int, parts: Iterable[Range]) -> str:
    """Return why the disk fails to read a batch of these numbers; empty: it reads all of them.

    A batch that the disk reads may be corrupt in itself. The store must not compact a table with an
    unreadable block: RocksDB then refuses every further write.
    """
    try:
        for part in parts:
            for entry in index.entries(reads, reg_id, part.first, part.last):
                _read_all(reads, position_key(entry.position))
    except (StorageFailed, CorruptBatch) as error:
        return str(error)
    return ""


def bad_batches(reads: Reads, reg_id: int, part: Range) -> list[Write]:
    """Return notes of the journal positions of unreadable batches.

    A note stays as long as the batch does, even when other messages have its numbers by then.
    """
    try:
        found = list(index.entries(reads, reg_id, part.first, part.last))
    except (StorageFailed, CorruptBatch):
        return []  # the position is unknown
    return [Write(Table.META, bad_batch_key(entry.position), b"") for entry in found]


def still_bad(reads: Reads) -> tuple[str, list[Write]]:
    """Return why the disk fails to read a noted batch; empty: it reads all of them.

    The writes drop the notes of batches that it reads again. The notes must be durable. Raises
    StorageFailed.
    """
    writes: list[Write] = []
    key, end = BAD_BATCH_KEYS
    while rows := reads.scan(Table.META, key, end, 1024):
        for key, _ in rows:
            try:
                _read_all(reads, position_key(bad_batch_position(key)))
            except StorageFailed as error:
                return str(error), writes
            writes.append(Write(Table.META, key, None))
        key += b"\0"
    return "", writes


# The age of batches.


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, and the journal's next position then."""

    position: int
    observed: float
    """The seconds that the store had run by then, without pauses, over all its runs."""
    wall: float
    """The seconds since 1970 by the store's clock."""


_STEPS = 64
"""The precision of an age: it is known to about one part in so many."""


@dataclass(frozen=True, slots=True)
class Ages:
    """The ages of the batches in the journal, as marks of past moments.

    By the wall clock alone, a jump of the clock would let everything go. So a batch counts as older
    than a time only if the store has also run for half of that time since.
    """

    marks: tuple[Mark, ...] = ()
    """The marks, ascending."""

    def noted(self, mark: Mark) -> Ages:
        """Return the ages with one more mark. Older marks are kept at wider distances."""
        kept = [mark]
        for at in range(len(self.marks) - 1, -1, -1):
            known = self.marks[at]
            # Without it there would be a gap from the next newer to the next older one.
            gap = kept[-1].observed - self.marks[at - 1].observed if at else inf
            if gap > (mark.observed - known.observed) / _STEPS:
                kept.append(known)
        return replace(self, marks=tuple(reversed(kept)))

    def old_before(self, seconds: float, observed: float, wall: float) -> int:
        """Return the position before which all batches are older than this many seconds.

        observed, wall: the present times, in seconds, as in a Mark.
        """
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
        raise Malformed(f"the ages of batches cannot be read: {error}") from None


def mark_seconds(shortest: float) -> float:
    """Return the seconds between two marks, for the shortest of all bounds in seconds."""
    return min(max(1.0, shortest / _STEPS), 600.0)
