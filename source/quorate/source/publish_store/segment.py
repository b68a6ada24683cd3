"""A segment: a file of fixed size, mapped into memory, in which messages are kept.

Behind its header it has tables of the messages' times and sizes, and then the messages. A message
is copied first, and its size is entered last: so it counts once it is whole. The kernel has all at
once, whatever becomes of the process. A synced segment also has a table of checksums, because a
host that goes down may have written one page and not another.

Which segments there are, and what the messages mean, is not known here.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import google_crc32c

from quorate.disk.files import allocate, put_in_place
from quorate.protocol.limits import FRAGMENT_BYTES

# The fields in their order:
# - magic, checksum of the rest;
# - entries of the table, bytes of messages;
# - first sequence number, stable_upto;
# - boot ID, whether it is synced.
_HEADER = struct.Struct("<4sIIQQq16s?")
_MAGIC = b"QPS1"
_CHECKED_FROM = 8
_HEADER_BYTES = 64
_ENTRY_BYTES = 4
_TIME = struct.Struct("<q")
_LENGTH = struct.Struct("<I")

_ATTRIBUTED = 1 << 31
"""Marks an entry whose message has attributes. Their length, and they, are in front of it."""


class Encoded(NamedTuple):
    """A message as it is kept."""

    payload: bytes
    attributes: bytes
    time_ns: int
    """When it was sent, in ns since 1970."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first bytes of a segment."""

    entries: int
    """The highest number of messages in it; 0: it has one batch that was committed as a whole."""
    room: int
    """The highest number of bytes of messages in it, or the bytes of the batch."""
    first: int
    """The sequence number of the first message."""
    stable_upto: int
    """The highest number that was known to be stable when the segment was begun."""
    boot: bytes
    """The ID of the run of the operating system that wrote it; all zero: unknown."""
    synced: bool
    """Whether its messages are on the disk when a send returns."""

    @property
    def sizes_at(self) -> int:
        """The offset of the table of sizes, behind that of the times."""
        return _HEADER_BYTES + self.entries * _TIME.size

    @property
    def sums_at(self) -> int:
        """The offset of the table of checksums, behind that of the sizes."""
        return self.sizes_at + self.entries * _ENTRY_BYTES

    @property
    def data_at(self) -> int:
        """The offset of the messages."""
        return self.sums_at + self.synced * self.entries * _ENTRY_BYTES

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self.data_at + self.room

    def encode(self) -> bytes:
        """Return the header as it is in the file."""
        fields = (self.entries, self.room, self.first, self.stable_upto, self.boot, self.synced)
        rest = _HEADER.pack(_MAGIC, 0, *fields)[_CHECKED_FROM:]
        rest = rest.ljust(_HEADER_BYTES - _CHECKED_FROM, b"\0")
        checksum: int = google_crc32c.value(rest)
        return _MAGIC + checksum.to_bytes(4, "little") + rest

    @staticmethod
    def parse(raw: bytes) -> Header | None:
        """Return the header of a file; None: it has no valid one."""
        if len(raw) < _HEADER_BYTES:
            return None
        magic, checksum, *fields = _HEADER.unpack_from(raw)
        if magic != _MAGIC or google_crc32c.value(raw[_CHECKED_FROM:_HEADER_BYTES]) != checksum:
            return None
        return Header(*fields)


class Segment:
    """A mapped segment, to which messages are added one behind the other.

    `write`, `times` and `sizes` are for the publish store, which every send calls. `write` copies
    bytes behind those before, and raises ValueError if they do not fit. The others are the tables.
    """

    def __init__(self, path: Path, header: Header, memory: mmap.mmap) -> None:
        """Begin without messages. memory: the mapped file, whose tables are empty."""
        self.path = path
        self.header = header
        self.first = header.first
        self._memory = memory
        tables = memoryview(memory)
        self._views = [tables]
        self.times = self._table(tables, _HEADER_BYTES, "q", _TIME.size)
        self.sizes = self._table(tables, header.sizes_at)
        self.sums = self._table(tables, header.sums_at) if header.synced else None
        self.write = memory.write
        memory.seek(header.data_at)

    def _table(
        self, memory: memoryview, at: int, code: Literal["q", "I"] = "I", size: int = _ENTRY_BYTES
    ) -> memoryview:
        part = memory[at : at + self.header.entries * size]
        table = part.cast(code)
        self._views += [part, table]
        return table

    def add(
        self,
        sequence: int,
        payloads: Sequence[bytes],
        attributes: Sequence[bytes],
        times: Sequence[int],
    ) -> None:
        """Add consecutive messages, all of them or none.

        attributes: as many as payloads, or none. times: the time of each, in ns since 1970.
        Raises ValueError if they do not fit.
        """
        at = sequence - self.first
        contents = _attributed(payloads, attributes) if any(attributes) else payloads
        sizes = array("I", [len(content) + 1 for content in contents])
        if at + len(sizes) > len(self.sizes):
            raise ValueError("the table has no room")
        for number, each in enumerate(attributes):
            sizes[number] |= _ATTRIBUTED if each else 0
        self.write(b"".join(contents))
        self.times[at : at + len(sizes)] = memoryview(array("q", times))
        if self.sums is not None:
            for number, (content, time_ns) in enumerate(zip(contents, times, strict=True)):
                self.sums[at + number] = checksum_of(sequence + number, content, time_ns)
        # The first size counts: without it, nobody looks at the others.
        self.sizes[at + 1 : at + len(sizes)] = memoryview(sizes)[1:]
        self.sizes[at] = sizes[0]

    def add_large(self, payload: bytes, attributes: bytes, time_ns: int) -> Iterator[None]:
        """Add the first message, a part in each step. It counts once the iterator has ended."""
        length = _LENGTH.pack(len(attributes)) if attributes else b""
        content = (length, attributes, payload)
        size = sum(map(len, content)) + 1
        checksum = checksum_of(self.first, b"", time_ns)
        for part in content:
            whole = memoryview(part)
            for at in range(0, len(part), FRAGMENT_BYTES):
                step = bytes(whole[at : at + FRAGMENT_BYTES])
                self.write(step)
                if self.sums is not None:
                    checksum = google_crc32c.extend(checksum, step)
                yield
        if self.sums is not None:
            self.sums[0] = checksum
        self.times[0] = time_ns
        self.sizes[0] = size | _ATTRIBUTED if attributes else size

    def rewind(self, sequence: int) -> None:
        """Drop the messages from this number on: their sends were interrupted."""
        at = max(0, sequence - self.first)
        sizes = [(size & ~_ATTRIBUTED) - 1 for size in self.sizes[:at]]
        count = len(self.sizes) - at
        self.sizes[at:] = memoryview(bytes(count * _ENTRY_BYTES)).cast("I")
        self._memory.seek(self.header.data_at + sum(sizes))

    def sync(self) -> None:
        """Put it on the disk, unless it was removed meanwhile. Raises OSError.

        This may run in a thread while messages are added.
        """
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def release(self) -> mmap.mmap:
        """Return the mapped file, which this segment uses no longer."""
        for view in reversed(self._views):
            view.release()
        return self._memory

    def close(self) -> None:
        """Unmap the file."""
        self.release().close()


def _attributed(payloads: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
    """Return messages as a segment keeps them."""
    return [
        b"".join((_LENGTH.pack(len(own)), own, payload)) if own else payload
        for payload, own in zip(payloads, attributes, strict=True)
    ]


def room_for(payloads: Sequence[bytes], attributes: Sequence[bytes]) -> int:
    """Return the bytes that these messages need in a segment, or a few more."""
    size = sum(map(len, payloads)) + sum(map(len, attributes))
    return size + len(attributes) * _LENGTH.size


def checksum_of(sequence: int, content: bytes, time_ns: int) -> int:
    """Return the checksum of a message as a segment keeps it."""
    begun = google_crc32c.extend(sequence & 0xFFFFFFFF, _TIME.pack(time_ns))
    checksum: int = google_crc32c.extend(begun, content)
    return checksum


def begin_segment(path: Path, header: Header, batch: bytes = b"") -> Segment:
    """Make a segment. Its file has its name once it is whole. Raises OSError.

    batch: the batch of a segment that has no table.
    """
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        allocate(descriptor, header.size)
        memory = mmap.mmap(descriptor, header.size)
        memory.write(header.encode())
        memory.write(batch)
        if header.synced:
            os.fsync(descriptor)
            put_in_place(new, path)
        else:
            new.rename(path)  # not synced, because without sync nothing is to outlive the host
    finally:
        os.close(descriptor)
    return Segment(path, header, memory)


def reuse_segment(spare: Segment, path: Path, header: Header) -> Segment:
    """Make a segment of one that nobody needs, and of the same size. Raises OSError.

    The pages of its file are in memory already, which saves a third of a message's time.
    """
    new = path.with_suffix(".new")
    spare.path.rename(new)
    memory = spare.release()
    memory.seek(0)
    memory.write(header.encode())
    memory.seek(header.sizes_at)
    memory.write(bytes(header.entries * _ENTRY_BYTES))
    new.rename(path)
    return Segment(path, header, memory)


def read_segment(raw: bytes, header: Header) -> tuple[list[Encoded], bool]:
    """Return the messages in a segment's file, and whether all of them are as they were written.

    Those from the first damaged one on are left out.
    """
    times = array("q", raw[_HEADER_BYTES : header.sizes_at])
    sizes = array("I", raw[header.sizes_at : header.sums_at])
    sums = array("I", raw[header.sums_at : header.data_at])
    contents: list[Encoded] = []
    at = header.data_at
    for number, size in enumerate(sizes):
        if not size:
            break
        end = at + (size & ~_ATTRIBUTED) - 1
        content = raw[at:end]
        if end > header.size or (
            sums and checksum_of(header.first + number, content, times[number]) != sums[number]
        ):
            return contents, False
        own = _LENGTH.unpack_from(content)[0] if size & _ATTRIBUTED else None
        if own is None:
            contents.append(Encoded(content, b"", times[number]))
        else:
            begin = _LENGTH.size
            attributes = content[begin : begin + own]
            contents.append(Encoded(content[begin + own :], attributes, times[number]))
        at = end
    return contents, True


def cut_segment(path: Path, header: Header, kept: int) -> None:
    """Drop the messages behind the first `kept` ones from a segment's file. Raises OSError."""
    with path.open("r+b") as file:
        file.seek(header.sizes_at + kept * _ENTRY_BYTES)
        file.write(bytes((header.entries - kept) * _ENTRY_BYTES))
        file.flush()
        os.fsync(file.fileno())
