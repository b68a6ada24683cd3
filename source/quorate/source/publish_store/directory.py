"""The publish store in a directory: segments of messages, and how far the stream is stable.

The directory has these files:

- `source`: the source whose messages it keeps;
- `stable`: the highest number that the source reported as stable;
- `*.segment`: the messages, in the order of the files' numbers;
- `*.notes`: the batches that they became while the segment of the same number was the newest;
- `lock`: locked while a source uses the directory.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import google_crc32c

from quorate.disk.files import replace_file
from quorate.protocol.attributes import Attributes, encode_attributes
from quorate.protocol.errors import NotKept, PublishStoreDamaged, PublishStoreInUse, StorageFailed
from quorate.protocol.fragments import Batch, LargeBatch, header_of
from quorate.protocol.framing import body_of, cut, plain, read_header
from quorate.protocol.identity import SourceName, parse_session_id
from quorate.protocol.limits import NOTHING
from quorate.source.protocol.unstable import UnstableMessage, in_batches
from quorate.source.publish_store.history import History
from quorate.source.publish_store.interface import Remembered, Tail
from quorate.source.publish_store.notes import Note
from quorate.source.publish_store.segment import (
    Header,
    Segment,
    begin_segment,
    reuse_segment,
    room_for,
)

_log = logging.getLogger("quorate.source.publish_store")

_MARK = struct.Struct("<qI")  # stable_upto, crc32c of it
_ROOM_FIRST = 64 * 1024
_ROOM_MAX = 1024 * 1024
_ROOM_PER_ENTRY = 64
_SPARE_SEGMENTS = 16


@dataclass(slots=True)
class _Kept:
    """A file of messages."""

    path: Path
    last: int
    """The number of its last message. The newest file has a lower one here."""
    segment: Segment | None = None
    """The mapped file; None: an earlier process wrote it, or it is a commit."""

    def remove(self) -> None:
        if self.segment is not None:
            self.segment.close()
        self.path.unlink()
        self.path.with_suffix(".notes").unlink(missing_ok=True)


class FilePublishStore:
    """A directory that keeps messages until they are stable, also after the process has ended.

    A message is in it before `send` returns. Without sync it outlives the process, kill -9
    included. With sync it also outlives the host: `send` returns once the message is on the disk.
    Sends side by side share one sync.
    """

    durable = True

    def __init__(self, path: str | Path, sync: bool = False) -> None:
        self._path = Path(path)
        self._sync = sync
        self.slow = sync
        self.place = str(path)
        self._boot = _boot_id()
        self._source: SourceName | None = None
        self._files: deque[_Kept] = deque()
        self._unsynced: list[Segment] = []
        self._lock = self._mark = self._notes = -1
        self._file_number = 0
        self._first = 0
        self._stable_upto = NOTHING
        self._segment: Segment | None = None
        """The newest segment, to which messages are added."""
        self.tail = Tail()

    # -- opening ----------------------------------------------------------------------------

    def open(self) -> Remembered:
        """Open it. Raises PublishStoreInUse, PublishStoreDamaged, StorageFailed."""
        try:
            return self._open()
        except OSError as error:
            self.close()
            raise StorageFailed(self.place, str(error)) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> Remembered:
        self._path.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PublishStoreInUse(self.place) from None
        for unfinished in self._path.glob("*.new"):
            unfinished.unlink()
        self._mark = os.open(self._path / "stable", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._source = self._read_claim()
        self._stable_upto = self._read_mark()
        paths = self._segment_paths()
        if not paths:
            return Remembered(self._source, self._stable_upto)
        if self._source is None:
            raise PublishStoreDamaged(self.place, "source", "is missing")
        history = History(self._path, self._source, self._stable_upto, self._boot)
        history.read(paths)
        self._files.extend(_Kept(part.path, part.end - 1) for part in history.parts)
        self._file_number = int(paths[-1].stem) + 1
        self._first, self.tail.next = history.first, history.next_sequence
        self._stable_upto = history.stable_upto
        batches = history.batches()
        next_sequence = self.tail.next if history.knows_next else None
        return Remembered(self._source, self._stable_upto, batches, next_sequence)

    def _segment_paths(self) -> list[Path]:
        paths = list(self._path.glob("*.segment"))
        for path in paths:
            if not path.stem.isdecimal():
                raise PublishStoreDamaged(self.place, path.name, "has no number for a name")
        return sorted(paths, key=lambda path: int(path.stem))

    def _read_claim(self) -> SourceName | None:
        try:
            raw = (self._path / "source").read_bytes()
        except FileNotFoundError:
            return None
        claim, _, checksum = raw.removesuffix(b"\n").rpartition(b"\n")
        if checksum != _checksum(claim):
            raise PublishStoreDamaged(self.place, "source", "does not name a source")
        session_id, _, topic = claim.decode().partition(" ")
        return SourceName(topic, parse_session_id(session_id))

    def _read_mark(self) -> int:
        """Return the number in the file `stable`.

        Without a valid one, the source sends again what is stable: stores know what they have.
        """
        raw = os.pread(self._mark, _MARK.size, 0)
        if not raw:
            return NOTHING
        if len(raw) == _MARK.size:
            stable_upto, checksum = _MARK.unpack(raw)
            if google_crc32c.value(raw[:8]) == checksum:
                return int(stable_upto)
        _log.warning("%s/stable is damaged: stable messages are sent again", self._path)
        return NOTHING

    def claim(self, source: SourceName) -> None:
        """Keep the messages of this source only from now on. Raises StorageFailed."""
        if source == self._source:
            return
        claim = f"{source.session_id:#x} {source.topic}".encode()
        try:
            replace_file(self._path / "source", claim + b"\n" + _checksum(claim) + b"\n")
        except OSError as error:
            raise StorageFailed(self.place, str(error)) from error
        self._source = source

    def goes_on(self, next_sequence: int, unstable: Iterable[Batch]) -> None:
        """Note the number of the next message. Call it once, before anything is kept.

        unstable: batches that stores kept of the stream, in order. The publish store keeps those
        that it lacks. Raises StorageFailed.
        """
        try:
            for batch in unstable:
                self._take(batch)
            self._continue_at(next_sequence)
        except NotKept as error:
            raise StorageFailed(error.path, error.detail) from error

    def _take(self, batch: Batch) -> None:
        """Keep the part of a batch that is not kept yet."""
        header = header_of(batch)
        if self._files and header.last < self.tail.next:
            return
        attributes: list[Attributes] | None
        if isinstance(batch, LargeBatch):
            payload, own = batch.message()
            payloads, attributes = [payload], [own]
            times: Sequence[int] = [header.timestamp_ns]
        else:
            # A batch is made again from its messages, byte for byte: as it is without compression.
            batch = plain(batch, header)
            header = read_header(batch)
            if self._files and header.first < self.tail.next:
                batch = cut(batch, header, self.tail.next, header.last, header.epoch)
                header = read_header(batch)
            if header.marker:
                self._continue_at(header.first)
                self.keep_batch(batch)
                return
            body = body_of(batch, header)
            payloads, attributes = body.read_payloads(), body.read_attributes()
            times = body.read_times(header.timestamp_ns)
        self._continue_at(header.first)
        self.keep_all(header.first, payloads, attributes or (), times)
        self.packed(batch)

    def _continue_at(self, sequence: int) -> None:
        if self._segment is not None and sequence == self.tail.next:
            return
        if not self._files:
            # The stores keep what is before, and it is stable.
            self._first, self._stable_upto = sequence, max(self._stable_upto, sequence - 1)
        self._end_segment()
        self.tail.next = sequence
        self._begin_segment(0, 0)

    def unstable(self) -> list[UnstableMessage]:
        """Return the messages that are not known to be stable, while no source has it open.

        Another source can send them again. Raises PublishStoreInUse, PublishStoreDamaged,
        StorageFailed.
        """
        reader = FilePublishStore(self._path)
        try:
            remembered = reader.open()
            return in_batches(remembered.batches, remembered.stable_upto)
        finally:
            reader.close()

    # -- keeping ----------------------------------------------------------------------------

    def keep_all(
        self,
        first: int,
        payloads: Sequence[bytes],
        attributes: Sequence[Attributes],
        times: Sequence[int],
    ) -> None:
        """Keep consecutive messages. Raises NotKept.

        - attributes: as many as payloads, or none.
        - times: the time of each, in ns since 1970.
        """
        if first != self.tail.next:
            self.rewind(first)
        encoded = list(map(encode_attributes, attributes))
        try:
            self._add(payloads, encoded, times)
        except ValueError:
            self._end_segment()
            self._begin_segment(len(payloads), room_for(payloads, encoded))
            self._add(payloads, encoded, times)

    def _add(
        self, payloads: Sequence[bytes], attributes: Sequence[bytes], times: Sequence[int]
    ) -> None:
        if self._segment is None:
            raise ValueError("there is no segment")
        first = self.tail.next
        self.tail.next += len(payloads)
        try:
            self._segment.add(first, payloads, attributes, times)
        except ValueError:
            self.tail.next = first
            raise

    def keep_large(
        self, sequence: int, payload: bytes, attributes: Attributes, time_ns: int
    ) -> Iterator[None]:
        """Keep one large message, in a segment of its own, a part in each step.

        The message counts once the iterator has ended. Raises NotKept.
        """
        if sequence != self.tail.next:
            self.rewind(sequence)
        self._end_segment()
        encoded = encode_attributes(attributes)
        room = room_for((payload,), (encoded,))
        self._begin_segment(1, room)
        assert self._segment is not None
        # Early, so that the next call notices that this one was broken off.
        self.tail.next = sequence + 1
        yield from self._segment.add_large(payload, encoded, time_ns)

    def keep_batch(self, batch: bytes) -> None:
        """Keep a batch of messages that were not kept yet: all of them or none. Raises NotKept."""
        header = read_header(batch)
        if header.first != self.tail.next:
            self.rewind(header.first)
        self._end_segment()
        path = self._next_path()
        try:
            begin_segment(path, self._header(0, len(batch)), batch).close()
        except OSError as error:
            raise NotKept(self.place, str(error)) from error
        self._files.append(_Kept(path, header.last))
        self.tail.next = header.last + 1

    def packed(self, batch: Batch) -> None:
        """Note that kept messages became this batch. Raises StorageFailed."""
        if self._notes < 0:
            return  # the batch is a file of its own, or is noted by its messages alone
        try:
            os.write(self._notes, Note.of(header_of(batch)).encode())
        except OSError as error:
            raise StorageFailed(self.place, str(error)) from error

    def rewind(self, sequence: int) -> None:
        """Forget what is kept from this number on, because its sends were interrupted."""
        if self._segment is not None:
            self._segment.rewind(sequence)
        self.tail.next = sequence

    # -- segments ---------------------------------------------------------------------------

    def _begin_segment(self, entries: int, room: int) -> None:
        """Go on in a segment with room for so many messages and bytes. Raises NotKept."""
        path = self._next_path()
        try:
            spare = self._spare(entries, room)
            if spare is not None:
                old = spare.header
                self._segment = reuse_segment(spare, path, self._header(old.entries, old.room))
            else:
                room = max(room, self._usual_room())
                entries = max(entries, min(room, _ROOM_MAX) // _ROOM_PER_ENTRY, 1)
                self._segment = begin_segment(path, self._header(entries, room))
            self._notes = os.open(
                path.with_suffix(".notes"),
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC,
                0o644,
            )
        except OSError as error:
            raise NotKept(self.place, str(error)) from error
        self._files.append(_Kept(path, self.tail.next - 1, self._segment))
        if self._sync:
            self._unsynced.append(self._segment)
        if not self._sync:
            segment = self._segment
            self.tail.leads_to(segment.first, segment.write, segment.sizes, segment.times)

    def _end_segment(self) -> None:
        """Add nothing more to the newest segment."""
        if self._files:
            self._files[-1].last = self.tail.next - 1
        if self._notes >= 0:
            os.close(self._notes)
        self._notes = -1
        self._segment = None
        self.tail.no_room()

    def _next_path(self) -> Path:
        self._file_number += 1
        return self._path / f"{self._file_number - 1:020}.segment"

    def _header(self, entries: int, room: int) -> Header:
        return Header(entries, room, self.tail.next, self._stable_upto, self._boot, self._sync)

    def _usual_room(self) -> int:
        """Return the bytes of a new segment: twice those before, because they were not enough."""
        newest = self._files[-1].segment if self._files else None
        return min(2 * newest.header.room, _ROOM_MAX) if newest is not None else _ROOM_FIRST

    def _spare(self, entries: int, room: int) -> Segment | None:
        """Take away a segment that may be used again for so much. Smaller ones are removed."""
        if self._sync or not self._files or (newest := self._files[-1].segment) is None:
            return None
        room = max(room, min(newest.header.room, _ROOM_MAX))
        while len(self._files) > 1 and self._files[0].last <= self._stable_upto:
            spare = self._files[0].segment
            if spare is None or spare.header.entries < entries or spare.header.room < room:
                self._files.popleft().remove()
                continue
            self._files.popleft()
            spare.path.with_suffix(".notes").unlink(missing_ok=True)
            return spare
        return None

    def syncing(self) -> Callable[[], None]:
        """Return a call that puts on the disk what was kept so far.

        The call may run in another thread, and raises StorageFailed.
        """
        segments, self._unsynced = self._unsynced, self._unsynced[-1:]

        def sync() -> None:
            try:
                for segment in segments:
                    segment.sync()
            except OSError as error:
                raise StorageFailed(self.place, str(error)) from error

        return sync

    # -- what is stable ---------------------------------------------------------------------

    def settle(self, stable_upto: int) -> None:
        """Note that everything up to this number is stable, and may go. Raises StorageFailed."""
        self._stable_upto = stable_upto
        raw = stable_upto.to_bytes(8, "little", signed=True)
        try:
            os.pwrite(self._mark, raw + google_crc32c.value(raw).to_bytes(4, "little"), 0)
            # The newest file stays: it tells where the stream goes on.
            while len(self._files) > 1 and self._is_surplus():
                self._files.popleft().remove()
            self._remove_large()
        except OSError as error:
            raise StorageFailed(self.place, str(error)) from error

    def _is_surplus(self) -> bool:
        """Return whether the oldest file is neither needed nor worth keeping for another use."""
        files = self._files
        if files[0].last > self._stable_upto:
            return False
        if files[0].segment is None or self._sync:
            return True
        return len(files) > _SPARE_SEGMENTS + 1 and files[_SPARE_SEGMENTS].last <= self._stable_upto

    def _remove_large(self) -> None:
        """Remove the stable files of large messages: their room is not worth keeping."""
        stable = takewhile(lambda file: file.last <= self._stable_upto, self._files)
        surplus = 0
        for number, file in enumerate(stable, 1):
            if file.segment is not None and file.segment.header.room > _ROOM_MAX:
                surplus = number
        # Those before them go, too: the files that are left must follow each other.
        for _ in range(min(surplus, len(self._files) - 1)):
            self._files.popleft().remove()

    @property
    def unstable_messages(self) -> int:
        """The number of messages that are kept and not stable."""
        return max(0, self.tail.next - max(self._first, self._stable_upto + 1))

    @property
    def bytes_on_disk(self) -> int:
        """The bytes that the kept messages, and the room for further ones, take on the disk."""
        return sum(file.path.stat().st_size for file in self._files)

    def forget(self) -> None:
        """Remove everything of the source, which was deregistered. Raises StorageFailed."""
        try:
            self._end_segment()
            # The name of the source goes last: while it is there, the segments are that source's.
            while self._files:
                self._files.popleft().remove()
            os.ftruncate(self._mark, 0)
            (self._path / "source").unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(self.place, str(error)) from error

    def close(self) -> None:
        """Close it, also if it is not open."""
        self._end_segment()
        while self._files:
            file = self._files.popleft()
            if file.segment is not None:
                file.segment.close()
        self._unsynced.clear()
        for descriptor in (self._mark, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._mark = self._lock = -1


def _checksum(content: bytes) -> bytes:
    return f"{google_crc32c.value(content):08x}".encode()


def _boot_id() -> bytes:
    """Return the ID of this run of the operating system, 16 bytes; all zero: it is unknown."""
    try:
        return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
    except (OSError, ValueError):
        return bytes(16)
