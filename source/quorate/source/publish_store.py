"""Publish stores: the places where a source keeps messages that are not yet stable.

A batch is in the publish store before it goes on the wire. `MemoryPublishStore` adds nothing to
the memory of the source. `FilePublishStore` outlives the process: a source that was killed sends
its unstable messages again, unchanged and under the same sequence numbers.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import google_crc32c

from quorate.disk.files import replace_file, sync_directory
from quorate.protocol.errors import CorruptBatch, DataDirectoryInUse, QuorateError, StorageFailed
from quorate.protocol.framing import check_batch, read_header
from quorate.protocol.identity import SourceName, parse_session_id
from quorate.protocol.limits import FRAME_BYTES_MAX, NOTHING

_log = logging.getLogger("quorate.source.publish_store")

_LENGTH = struct.Struct("<I")
_MARK = struct.Struct("<qI")  # stable_upto, crc32c of it
_SEGMENT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Remembered:
    """The content of a publish store when it was opened."""

    source: SourceName | None = None
    """The source of the messages; None: the publish store never had any."""
    stable_upto: int = NOTHING
    """The highest number that the publish store was told is stable."""
    batches: list[bytes] = field(default_factory=list)
    """The batches with messages above stable_upto, in order."""


class PublishStore(Protocol):
    """The calls that a source makes to a publish store. One source uses it at a time."""

    durable: bool
    """Whether it outlives the process."""
    slow: bool
    """Whether appending waits for a disk. Then the source appends in a thread."""

    def open(self) -> Remembered:
        """Open it. Raises DataDirectoryInUse, CorruptBatch, StorageFailed."""
        ...

    def claim(self, source: SourceName) -> None:
        """Keep the messages of this source only from now on. Raises StorageFailed."""
        ...

    def append(self, batch: bytes, last: int) -> None:
        """Keep a batch whose last message has the number `last`. Raises StorageFailed."""
        ...

    def settle(self, stable_upto: int) -> None:
        """Note that everything up to this number is stable, and may go. Raises StorageFailed."""
        ...

    def forget(self) -> None:
        """Remove everything of the source, which was deregistered. Raises StorageFailed."""
        ...

    def close(self) -> None: ...


class MemoryPublishStore:
    """A publish store that keeps nothing. Unstable messages are in the memory of the source."""

    durable = False
    slow = False

    def open(self) -> Remembered:
        return Remembered()

    def claim(self, source: SourceName) -> None:
        pass

    def append(self, batch: bytes, last: int) -> None:
        pass

    def settle(self, stable_upto: int) -> None:
        pass

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _Segment:
    path: Path
    last: int


class FilePublishStore:
    """A directory of segments of batches. A segment is removed once all of it is stable.

    Without sync it outlives the process (kill -9 included); with sync also the host, at the price
    of one fdatasync for each batch.
    """

    durable = True

    def __init__(self, path: str | Path, sync: bool = False) -> None:
        self._path = Path(path)
        self._sync = sync
        self.slow = sync
        self._segments: deque[_Segment] = deque()
        self._file = -1
        self._mark = -1
        self._lock = -1
        self._size = 0
        self._number = 0

    def open(self) -> Remembered:
        try:
            return self._open()
        except OSError as error:
            self.close()
            raise StorageFailed(str(self._path), str(error)) from error
        except QuorateError:
            self.close()
            raise

    def _open(self) -> Remembered:
        self._path.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryInUse(str(self._path), "another source") from None
        self._mark = os.open(self._path / "stable", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        stable_upto = self._read_mark()
        batches = self._read_segments(stable_upto)
        self._new_segment()
        return Remembered(self._read_claim(), stable_upto, batches)

    def _read_claim(self) -> SourceName | None:
        try:
            session_id, _, topic = (self._path / "source").read_text("utf-8").partition(" ")
        except FileNotFoundError:
            return None
        return SourceName(topic, parse_session_id(session_id))

    def claim(self, source: SourceName) -> None:
        try:
            path, content = self._path / "source", f"{source.session_id:#x} {source.topic}".encode()
            if self._sync:
                replace_file(path, content)
            else:
                temporary = self._path / "source.new"
                temporary.write_bytes(content)
                temporary.rename(path)
        except OSError as error:
            raise StorageFailed(str(self._path), str(error)) from error

    def _read_mark(self) -> int:
        raw = os.pread(self._mark, _MARK.size, 0)
        if len(raw) == _MARK.size:
            stable_upto, checksum = _MARK.unpack(raw)
            if google_crc32c.value(raw[:8]) == checksum:
                return int(stable_upto)
        # Sending too much again is harmless: stores know what they have.
        return NOTHING

    def _read_segments(self, stable_upto: int) -> list[bytes]:
        batches: list[bytes] = []
        paths = sorted(self._path.glob("*.segment"))
        for path in paths:
            last = NOTHING
            for batch in self._read_segment(path, newest=path == paths[-1]):
                last = read_header(batch).last
                if last > stable_upto:
                    batches.append(batch)
            self._segments.append(_Segment(path, last))
            self._number = int(path.stem) + 1
        return batches

    def _read_segment(self, path: Path, newest: bool) -> list[bytes]:
        """Return the batches of a segment. Cut a torn end off the newest segment."""
        raw = path.read_bytes()
        batches: list[bytes] = []
        at = 0
        while at < len(raw):
            batch = _batch_at(raw, at)
            if batch is None:
                if not newest or _any_batch_behind(raw, at):
                    raise CorruptBatch(f"in {path} at {at}", "valid ones follow it")
                _log.warning("cut %d torn bytes off %s", len(raw) - at, path)
                os.truncate(path, at)
                break
            batches.append(batch)
            at += _LENGTH.size + len(batch)
        return batches

    def _new_segment(self) -> None:
        path = self._path / f"{self._number:020}.segment"
        self._number += 1
        if self._file >= 0:
            os.close(self._file)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644)
        self._size = 0
        self._segments.append(_Segment(path, NOTHING))
        if self._sync:
            sync_directory(self._path)

    def append(self, batch: bytes, last: int) -> None:
        try:
            if self._size >= _SEGMENT_BYTES:
                self._new_segment()
            record = (_LENGTH.pack(len(batch)), batch)
            size = _LENGTH.size + len(batch)
            if os.writev(self._file, record) != size:
                raise OSError(f"only a part of {size} bytes was written")
            if self._sync:
                os.fdatasync(self._file)
        except OSError as error:
            raise StorageFailed(str(self._path), str(error)) from error
        self._size += size
        self._segments[-1].last = last

    def settle(self, stable_upto: int) -> None:
        raw = stable_upto.to_bytes(8, "little", signed=True)
        try:
            os.pwrite(self._mark, raw + google_crc32c.value(raw).to_bytes(4, "little"), 0)
            # The newest segment stays: it is being written.
            while len(self._segments) > 1 and self._segments[0].last <= stable_upto:
                self._segments.popleft().path.unlink()
        except OSError as error:
            raise StorageFailed(str(self._path), str(error)) from error

    def forget(self) -> None:
        try:
            # The name of the source goes last: while it is there, the segments are that source's.
            while self._segments:
                self._segments.popleft().path.unlink()
            os.ftruncate(self._mark, 0)
            (self._path / "source").unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(str(self._path), str(error)) from error

    def close(self) -> None:
        for descriptor in (self._file, self._mark, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._mark = self._lock = -1
        self._segments.clear()


def _batch_at(raw: bytes, at: int) -> bytes | None:
    """Return the batch of the record that begins here; None: it is torn or corrupt."""
    if at + _LENGTH.size > len(raw):
        return None
    (length,) = _LENGTH.unpack_from(raw, at)
    begin = at + _LENGTH.size
    if length > FRAME_BYTES_MAX or begin + length > len(raw):
        return None
    batch = raw[begin : begin + length]
    try:
        check_batch(batch)
    except CorruptBatch:
        return None
    return batch


def _any_batch_behind(raw: bytes, at: int) -> bool:
    """Return whether a whole and correct batch begins anywhere behind a bad record."""
    begin = raw.find(b"QRB1", at + _LENGTH.size + 1)
    while begin >= 0:
        if _batch_at(raw, begin - _LENGTH.size) is not None:
            return True
        begin = raw.find(b"QRB1", begin + 1)
    return False
