"""The segments that earlier processes left in a publish store, read and judged.

While the host runs, the kernel loses nothing, so whatever is amiss is damage. If the host went down
in between, the newest messages may be missing, or on the disk only in part. They are dropped then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quorate.disk.files import replace_file
from quorate.protocol.attributes import Attributes, decode_attributes
from quorate.protocol.errors import CorruptBatch, PublishStoreDamaged
from quorate.protocol.fragments import Batch, encode_alone, header_of
from quorate.protocol.framing import body_of, check_batch, encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    BATCH_BYTES_TARGET,
    BATCH_MESSAGES_MAX,
    MESSAGE_BYTES_USUAL,
)
from quorate.protocol.times import times_of
from quorate.source.publish_store.notes import Note, read_notes
from quorate.source.publish_store.segment import Encoded, Header, cut_segment, read_segment

_log = logging.getLogger("quorate.source.publish_store")


class Content(NamedTuple):
    """A message that was kept."""

    payload: bytes
    attributes: Attributes
    time_ns: int
    """When it was sent, in ns since 1970."""

    @property
    def size(self) -> int:
        """The bytes that it counts."""
        return len(self.payload) + self.attributes.size


@dataclass(frozen=True, slots=True)
class Part:
    """One segment as it was read."""

    path: Path
    header: Header
    contents: list[Content]
    """Its messages, up to the first that is not as it was written."""
    whole: bool
    """Whether every message is as it was written."""
    marker: bytes = b""
    """The marker of a segment that is one batch, which was committed."""

    @property
    def first(self) -> int:
        """The number of its first message."""
        return self.header.first

    @property
    def end(self) -> int:
        """The number behind its last message."""
        return self.first + len(self.contents)


class History:
    """The messages in a publish store when it was opened."""

    def __init__(self, directory: Path, source: SourceName, stable_upto: int, boot: bytes) -> None:
        """Begin without messages.

        stable_upto: the highest number that is known to be stable. boot: the ID of the present run
        of the operating system; all zero: unknown.
        """
        self._directory = directory
        self._source = source
        self._boot = boot
        self.stable_upto = stable_upto
        self.parts: list[Part] = []
        """The segments that count, in order."""
        self.first = 0
        """The number of the first message."""
        self._contents: list[Content] = []
        self._notes: list[Note] = []
        """The known batches, in order, with the epoch of each."""
        self._markers: dict[int, bytes] = {}
        """The markers of committed batches, by the batch's last number."""

    @property
    def next_sequence(self) -> int:
        """The number behind the newest message."""
        return self.first + len(self._contents)

    @property
    def knows_next(self) -> bool:
        """Whether no message that a send returned can be missing behind the newest one."""
        return bool(self.parts) and self._keeps_its_word(self.parts[-1])

    def read(self, paths: list[Path]) -> None:
        """Read these segments, in order. Raises PublishStoreDamaged, OSError."""
        parts = [self._part(path) for path in paths]
        self._join(parts)
        self._take_notes()
        sure_upto = self._sure_upto()
        if sure_upto < self.next_sequence - 1 or len(self.parts) < len(parts):
            self._drop_behind(sure_upto, parts)

    # -- reading ----------------------------------------------------------------------------

    def _part(self, path: Path) -> Part:
        raw = path.read_bytes()
        header = Header.parse(raw)
        if header is None:
            raise self._damaged(path, "does not begin like a segment")
        if len(raw) != header.size:
            raise self._damaged(path, f"has {len(raw):,} bytes instead of {header.size:,}")
        if header.entries:
            part = Part(path, header, *_decoded(*read_segment(raw, header)))
        else:
            part = self._commit(path, header, raw[header.data_at :])
        if not part.whole and self._was_written_now(part):
            raise self._damaged(path, f"has a damaged message with the number {part.end}")
        return part

    def _commit(self, path: Path, header: Header, batch: bytes) -> Part:
        try:
            known = check_batch(batch)
        except CorruptBatch:
            return Part(path, header, [], False)
        self._notes.append(Note.of(known))
        self._markers[known.last] = known.marker
        body = body_of(batch, known)
        attributes, times = body.read_every_attributes(), body.read_times(known.timestamp_ns)
        columns = body.read_payloads(), attributes, times
        return Part(path, header, list(map(Content, *columns)), True, known.marker)

    def _was_written_now(self, part: Part) -> bool:
        """Return whether the host has run without a break since the segment was written."""
        return any(self._boot) and part.header.boot == self._boot

    def _keeps_its_word(self, part: Part) -> bool:
        """Return whether the segment has each message that a send returned."""
        return part.header.synced or self._was_written_now(part)

    def _join(self, parts: list[Part]) -> None:
        """Put the parts together, up to one that is not whole or does not follow the one before."""
        for part in parts:
            if self.parts and part.first > self.next_sequence:
                if part.header.stable_upto >= part.first - 1:
                    self._contents.clear()
                elif self._was_written_now(self.parts[-1]):
                    before = f"the segment before it ends at {self.next_sequence - 1}"
                    raise self._damaged(part.path, f"begins at {part.first}, but {before}")
                else:
                    return
            if not self._contents:
                self.first = part.first
            # A send that was interrupted left its number to the next one.
            del self._contents[part.first - self.first :]
            self._contents += part.contents
            self.stable_upto = max(self.stable_upto, part.header.stable_upto)
            self.parts.append(part)
            if not part.whole:
                return

    def _take_notes(self) -> None:
        """Take the notes of batches, except those that the messages contradict."""
        for path in self._directory.glob("*.notes"):
            for note in read_notes(path.read_bytes()):
                if note.last >= self.next_sequence:
                    continue
                if note.first < self.first or self._is_right(note):
                    self._notes.append(note)
                elif part := self._written_now(note):
                    raise self._damaged(
                        part.path, f"has damaged messages with numbers {note.first} to {note.last}"
                    )
        self._notes.sort()

    def _is_right(self, note: Note) -> bool:
        return header_of(self._batch(note)).checksum == note.checksum

    def _written_now(self, note: Note) -> Part | None:
        """Return the segment of the first message; None: the host went down since one was
        written."""
        parts = [part for part in self.parts if part.end > note.first and part.first <= note.last]
        return parts[0] if all(map(self._was_written_now, parts)) else None

    def _sure_upto(self) -> int:
        """Return the number up to which all messages are as they were sent.

        Of messages that were not synced before the host went down, only notes can tell.
        """
        sure_upto = self.stable_upto
        for part in self.parts:
            if self._keeps_its_word(part):
                sure_upto = max(sure_upto, part.end - 1)
            for note in self._notes:
                if note.first <= sure_upto + 1 and note.first >= self.first:
                    sure_upto = max(sure_upto, note.last)
            if sure_upto < part.end - 1:
                break
        return sure_upto

    def _drop_behind(self, sure_upto: int, parts: list[Part]) -> None:
        """Drop the messages behind this number, because the host went down before they were safe.

        No send has returned their numbers, or the publish store was not synced.
        """
        _log.warning(
            "%s: the host went down before %s was on the disk from %d on; that is dropped",
            self._directory,
            self._source,
            sure_upto + 1,
        )
        del self._contents[max(0, sure_upto + 1 - self.first) :]
        self._notes = [note for note in self._notes if note.last <= sure_upto]
        for path in self._directory.glob("*.notes"):
            notes = [note for note in read_notes(path.read_bytes()) if note.last <= sure_upto]
            replace_file(path, b"".join(note.encode() for note in notes))
        for part in parts:
            if part.first > sure_upto:
                part.path.unlink()
            elif part.end - 1 > sure_upto or not part.whole:
                cut_segment(part.path, part.header, sure_upto + 1 - part.first)
        self.parts = [part for part in self.parts if part.first <= sure_upto]

    def _damaged(self, path: Path, detail: str) -> PublishStoreDamaged:
        return PublishStoreDamaged(str(self._directory), path.name, detail)

    # -- what is sent again -----------------------------------------------------------------

    def batches(self) -> list[Batch]:
        """Return all messages that are not known to be stable as batches, in order."""
        plan: list[Note] = []
        at = max(self.first, self.stable_upto + 1)
        for note in self._notes:
            if note.last >= at:
                plan += self._new_batches(at, note.first)
                plan.append(note._replace(first=max(at, note.first)))
                at = note.last + 1
        plan += self._new_batches(at, self.next_sequence)
        return [self._batch(note) for note in plan]

    def _new_batches(self, first: int, end: int) -> Iterator[Note]:
        """Yield the batches that become of messages without a note: from first on, before end."""
        while first < end:
            last, size = first, self._size(first)
            while (
                size < BATCH_BYTES_TARGET
                and last + 1 < min(end, first + BATCH_MESSAGES_MAX)
                and self._size(last + 1) <= MESSAGE_BYTES_USUAL
            ):
                last += 1
                size += self._size(last)
            yield Note(first, last, 0, 0)
            first = last + 1

    def _size(self, number: int) -> int:
        return self._contents[number - self.first].size

    def _batch(self, note: Note) -> Batch:
        if note.first == note.last and self._size(note.first) > MESSAGE_BYTES_USUAL:
            payload, own, time_ns = self._contents[note.first - self.first]
            return encode_alone(self._source, note.epoch, note.first, payload, time_ns, own)
        part = self._contents[note.first - self.first : note.last + 1 - self.first]
        timestamp_ns, later = times_of([each.time_ns for each in part])
        return encode_batch(
            self._source,
            note.epoch,
            note.first,
            [each.payload for each in part],
            timestamp_ns,
            self._markers.get(note.last, b""),
            [each.attributes for each in part],
            later,
        )


def _decoded(encoded: list[Encoded], whole: bool) -> tuple[list[Content], bool]:
    """Return the messages, and whether all of them are as they were written."""
    contents: list[Content] = []
    for payload, own, time_ns in encoded:
        try:
            contents.append(Content(payload, decode_attributes(own), time_ns))
        except CorruptBatch:
            return contents, False
    return contents, whole
