"""Guards of what sources send and stores take that are taken out.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tests import seams
from tests.world.channel import Call
from tests.world.disk import WorldWriter

from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import StorageFailed
from quorate.protocol.framing import (
    BatchHeader,
    check_batch,
    encode_batch,
    read_header,
    read_messages,
)
from quorate.source.protocol.retention import Retention
from quorate.source.protocol.store_cursors import Streams
from quorate.store.rules.source_state import (
    AppendStream,
)
from quorate.store.rules.stream import SourceStreams
from quorate.v1 import messages_pb2 as v1

LOST = 0.02
"""The part of the messages that such a transport loses."""
_real_again = seams.RESEND_PLAN_SENT_AGAIN.real()
_real_skip = seams.SOURCE_STREAMS_SKIP.real()


def acknowledged_before_the_sync(to: pytest.MonkeyPatch) -> None:
    """A store acknowledges what is written and not synced."""
    seams.MEMORY_STORAGE_SYNC.replace(to, lambda _: None)


def failed_syncs_are_tried_again(to: pytest.MonkeyPatch) -> None:
    """A store goes on after a failed sync."""
    real = WorldWriter._commit

    def commit(self: WorldWriter, commit: Any) -> None:
        with contextlib.suppress(StorageFailed):
            real(self, commit)

    to.setattr(WorldWriter, "_commit", commit)


def gaps_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch that does not go on where the last one ended."""
    _lose_frames(to)

    def check_next(self: SourceStreams, stream: AppendStream, header: Any) -> None:
        self._check_open(stream)
        stream.expected = header.first

    seams.SOURCE_STREAMS_CHECK_NEXT.replace(to, check_next)


def unstable_is_forgotten(to: pytest.MonkeyPatch) -> None:
    """The source lets go of what is not stable, and the stores take it for a hole."""

    def trim(self: Retention, *_: int) -> None:
        while len(self) > 3:
            self._frames.popleft()
            self.base += 1
        self._settled = max(self._settled, self.base)

    seams.SOURCE_RETENTION_TRIM.replace(to, trim)


def skips_of_unstable_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store lets a source skip what is not stable."""
    unstable_is_forgotten(to)

    def skip(self: SourceStreams, stream: AppendStream, first: int, last: int) -> Any:
        stream.state.held.stable_upto = max(stream.state.held.stable_upto, last)
        return _real_skip(self, stream, first, last)

    seams.SOURCE_STREAMS_SKIP.replace(to, skip)


def old_epochs_are_sent(to: pytest.MonkeyPatch) -> None:
    """A source that sends again what it has as it was, of its old epoch."""

    def again(_: int, kept_upto: int, unstable: Sequence[bytes]) -> Any:
        for own in unstable:
            epoch = read_header(own).epoch
            yield from _real_again(epoch, kept_upto, [own])

    seams.RESEND_PLAN_SENT_AGAIN.replace(to, again)


def retries_get_new_numbers(to: pytest.MonkeyPatch) -> None:
    """A source sends again what it has as if it were new, whatever the stores have kept."""

    def again(epoch: int, kept_upto: int, unstable: Iterable[bytes]) -> Any:
        for own in unstable:
            header = check_batch(own)
            first, messages = kept_upto + 1, read_messages(own, header)
            kept_upto += len(messages[0])
            batch = _encoded(header, epoch, first, *messages)
            yield first, kept_upto, batch

    seams.RESEND_PLAN_SENT_AGAIN.replace(to, again)


def stores_take_any_epoch(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch of an epoch that its lineage does not name."""
    old_epochs_are_sent(to)
    real = seams.SOURCE_STREAMS_APPEND.real()

    def append(self: SourceStreams, stream: AppendStream, frame: bytes, stable_upto: int) -> Any:
        epoch, stream.epoch = stream.epoch, read_header(frame).epoch
        try:
            return real(self, stream, frame, stable_upto)
        finally:
            stream.epoch = epoch

    seams.SOURCE_STREAMS_APPEND.replace(to, append)
    seams.STORE_STREAM_CHECK_BELONGS.replace(to, lambda *_: None)


def numbers_are_used_twice(to: pytest.MonkeyPatch) -> None:
    """A source that sends a store what it has already, with other content."""
    real_opened, real_frame = (
        seams.STORE_CURSORS_OPENED.real(),
        seams.STORE_CURSORS_NEXT_FRAME.real(),
    )
    held: dict[tuple[int, str], int] = {}

    def opened(self: Streams, store: str, next_sequence: int, *rest: Any) -> Any:
        held[id(self), store] = next_sequence
        return real_opened(self, store, min(next_sequence, rest[-1].first), *rest)

    def next_frame(self: Streams, store: str, *rest: Any) -> Any:
        frame = real_frame(self, store, *rest)
        if frame is None or self.cursors[store].next_sequence > held[id(self), store]:
            return frame
        return _other_content(frame)

    seams.STORE_CURSORS_OPENED.replace(to, opened)
    seams.STORE_CURSORS_NEXT_FRAME.replace(to, next_frame)


def _encoded(
    header: BatchHeader,
    epoch: int,
    first: int,
    payloads: Sequence[bytes],
    attributes: Sequence[Attributes] | None,
) -> bytes:
    """Another batch that was made at the same time."""
    made = header.timestamp_ns
    return encode_batch(header.source, epoch, first, payloads, made, b"", attributes or ())


def _lose_frames(to: pytest.MonkeyPatch) -> None:
    """A transport that now and then loses a message in the middle of a stream."""
    real = Call.up

    def up(self: Call, message: bytes | None) -> None:
        network = self.client._channel.network
        is_source = self.client._loop.name.startswith("source")
        if message is None or not is_source or network._random.random() >= LOST:
            real(self, message)

    to.setattr(Call, "up", up)


def _other_content(frame: bytes) -> bytes:
    parsed = v1.Frame.FromString(frame)
    if parsed.WhichOneof("kind") != "batch":
        return frame
    header = check_batch(parsed.batch)
    payloads, attributes = read_messages(parsed.batch, header)
    reversed_ = [payload[::-1] for payload in payloads]
    parsed.batch = _encoded(header, header.epoch, header.first, reversed_, attributes)
    return parsed.SerializeToString()
