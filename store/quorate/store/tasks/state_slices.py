"""The slices of a source's stream that rows are made of: read in a thread, within bounds.

Which message of a slice is the candidate of a key is decided in
quorate.store.rules.state_candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.protocol.errors import CorruptBatch, StorageFailed
from quorate.protocol.framing import read_header
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.state_candidates import Candidates
from quorate.store.storage.interface import Columns, Reads, Table
from quorate.store.storage.large_batches import load_large
from quorate.store.storage.reader import StoredBatch, passed_upto, read_rows
from quorate.store.storage.state_records import Candidate, RowKeys, key_of, unpack_candidate
from quorate.store.tasks.state_progress import Keyed

SLICE_BYTES = 256 * 1024
"""Bytes of the batches that one read of a slice takes, about."""
_SLICE_BYTES_MAX = 2 * 1024 * 1024
"""The bytes of batches above which a slice reads no more of them."""
_SLICE_KEYS = 512
"""The keys above which a slice reads no more batches.

So a commit of rows is short, and a key that changes often is written once for all of its messages.
"""
_BATCHES_MAX = 256
"""The most batches of one read."""
_NO_ROWS = Columns(Table.STATE, (), ())


@dataclass(slots=True)
class Slice:
    """The outcome of reading some batches of a source."""

    rows: Columns = _NO_ROWS
    """The candidates as rows."""
    left_out: int = 0
    upto: int | None = None
    """The last number that was read; None: none was."""
    batches: int = 0
    size: int = 0
    """The bytes of the batches."""
    problem: StoredBatch | None = None
    """The batch behind it, which cannot be read."""
    large: dict[bytes, Candidate] = field(default_factory=dict)
    """The candidates of large messages, by key, if `make_rows` read them. `rows` lacks them."""
    hides: bool = False
    """Whether some of these rows leave their keys without a row, now or later."""

    @property
    def keys(self) -> list[bytes]:
        """The keys of all candidates."""
        return [*map(key_of, self.rows.keys), *self.large]

    @property
    def batches_next(self) -> int:
        """How many batches to read next, so that a read has about its bytes."""
        fitting = self.batches * SLICE_BYTES // max(self.size, 1)
        return max(1, min(_BATCHES_MAX, fitting))


def make_rows(reads: Reads, state: SourceState, wanted: Range, count: int, keyed: Keyed) -> Slice:
    """Read the first batches of a range, and make rows of the last message of each key.

    count: the batches of one read. There are several reads if they have few keys.
    """
    made, found = Slice(), _no_candidates(state, keyed)
    while _read(reads, state, wanted, count, made, found):
        if made.upto is None or len(found) > _SLICE_KEYS or made.size > _SLICE_BYTES_MAX:
            break
        wanted, count = Range(made.upto + 1, wanted.last), made.batches_next
    _finish(made, found)
    if found.large:
        _set_large_apart(made, found.large)
    made.hides = found.hides
    return made


def _set_large_apart(made: Slice, large: set[bytes]) -> None:
    """Take rows out that are too large. large: their keys."""
    rows = list(zip(made.rows.keys, made.rows.values, strict=True))
    made.large = {key_of(key): unpack_candidate(key, row) for key, row in rows if key in large}
    small = [(key, row) for key, row in rows if key not in large]
    made.rows = Columns(Table.STATE, [key for key, _ in small], [row for _, row in small])


def read_slice(reads: Reads, state: SourceState, wanted: Range, count: int, keyed: Keyed) -> Slice:
    """Read the first batches of a range as far as they are on the disk, and find their rows."""
    made, found = Slice(), _no_candidates(state, keyed)
    _read(reads, state, wanted, count, made, found)
    _finish(made, found)
    return made


def _no_candidates(state: SourceState, keyed: Keyed) -> Candidates:
    return Candidates(keyed.keying, RowKeys(keyed.prefix, state.name.session_id))


def _finish(made: Slice, found: Candidates) -> None:
    made.rows = found.rows()
    made.left_out += found.left_out


def _read(
    reads: Reads, state: SourceState, wanted: Range, count: int, made: Slice, found: Candidates
) -> bool:
    """Read the first batches of a range as far as they are on the disk.

    Return whether more of it may follow.
    """
    reg_id = state.reg_id
    try:
        upto = passed_upto(reads, reg_id, wanted, SEQUENCE_MAX, count)
    except (StorageFailed, CorruptBatch) as error:
        made.problem = StoredBatch(Range(wanted.first, wanted.first), b"", str(error))
        return False
    if upto < wanted.first:
        return False
    for each in read_rows(reads, reg_id, state.name, Range(wanted.first, upto), count):
        problem = each.problem
        frame = each.frame
        if each.large is not None:
            try:
                frame = load_large(reads, each.large).joined()
            except (StorageFailed, CorruptBatch) as error:
                problem = str(error)
        if problem:
            made.problem = StoredBatch(each.part, b"", problem)
            return False
        try:
            found.add(frame, read_header(frame), each.part)
        except CorruptBatch:
            # Its checksum is right, so its source made it so: it has no message.
            made.left_out += len(each.part)
        made.upto = each.part.last
        made.batches += 1
        made.size += len(frame)
        if each.large is not None:
            return False
    return made.upto is not None and made.upto < wanted.last
