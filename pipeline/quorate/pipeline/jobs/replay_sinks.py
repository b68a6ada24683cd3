"""The sinks of a replay: a function, or topics, each through a source.

The marker of each source has the position of the replay in its topic, so that a replay that is
started again goes on there. When a message is due is not decided here.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from typing import Any

from quorate.pipeline.errors import FunctionFailed, WriteNotOurs
from quorate.pipeline.jobs.replay import (
    Position,
    Replayed,
)
from quorate.pipeline.write.resuming import session_id
from quorate.pipeline.write.writing import LoopThread, commit_patiently
from quorate.protocol.attributes import Attributes, checked_attributes
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.identity import SourceName, check_topic
from quorate.protocol.layout import Layout
from quorate.protocol.limits import BATCH_BYTES_TARGET, BATCH_MESSAGES_MAX, MESSAGE_BYTES_USUAL
from quorate.protocol.times import nanoseconds_of
from quorate.protocol.tls import tls_of_environment
from quorate.source import Source
from quorate.source.protocol.outgoing import Ready

TIME_PROPERTY = "original-time"
"""The property with the original time of a message: ISO 8601, UTC, to the microsecond."""
TOPIC_PROPERTY = "original-topic"
NAME_BYTES_MAX = 256
TIMEOUT_SECONDS = 60.0

_FORMAT = 1
_PLACES_SHOWN = 4
"""Number of innermost places of a traceback that an error shows."""


def check_target(to: str) -> None:
    """Raise InvalidArgument if no message can be sent to such a topic; see TopicsSink."""
    check_topic(to.replace("{topic}", "x"))


class FunctionSink:
    """Calls a function with each message."""

    def __init__(self, function: Callable[[Replayed], object]) -> None:
        self._function = function

    def take(self, message: Replayed) -> bool:
        """Call the function with a message. Raises FunctionFailed."""
        try:
            self._function(message)
        except Exception as error:
            raise _failed(self._function, message, error) from error
        return True

    def flush(self) -> None:
        """Do nothing, because the function has already been called with every message."""


def _failed(
    function: Callable[[Replayed], object], message: Replayed, error: Exception
) -> FunctionFailed:
    name = getattr(function, "__qualname__", repr(function))
    at = message.position
    # The first place is the call in this module.
    places = traceback.extract_tb(error.__traceback__)[1:]
    shown = "".join(traceback.format_list(places[-_PLACES_SHOWN:])).rstrip()
    if len(places) > _PLACES_SHOWN:
        shown = f"  …\n{shown}"
    return FunctionFailed(
        f"{getattr(function, '__module__', '?')}:{name}",
        f"{at.topic}/{at.source} {at.sequence}",
        message.time.isoformat(timespec="microseconds"),
        "".join(traceback.format_exception_only(error)).strip().rstrip("."),
        shown,
    )


class TopicsSink:
    """Sends messages to topics. It is used in a `with` block, which ends when all are stable."""

    def __init__(
        self, to: str, layout: Layout, name: str, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """to: the topic; `{topic}` in it stands for the topic of the message.

        - name: the name of the replay; one with the same name goes on where the last one ended.
        - timeout: seconds to wait for enough stores.

        Raises InvalidArgument.
        """
        check_target(to)
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise InvalidArgument("name", f"does not have between 1 and {NAME_BYTES_MAX} bytes")
        self._to = to
        self._layout = layout
        self._name = name
        self._timeout = timeout
        self._loop = LoopThread()
        self._targets: dict[str, _Target] = {}

    def __enter__(self) -> TopicsSink:
        self._loop.__enter__()
        try:
            if "{topic}" not in self._to:
                self._target(self._to)
        except BaseException:
            self._loop.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # Sent messages must become stable, also after a failure or an interruption.
            for target in self._targets.values():
                self._loop.run(target.source.close(self._timeout if kind is None else 10.0))
        finally:
            self._loop.__exit__(None, None, None)

    @property
    def position(self) -> Position | None:
        """The position up to which all messages are sent, if one topic takes them all.

        None: the replay begins at its beginning.
        """
        target = self._targets.get(self._to)
        return target.position if target is not None else None

    @property
    def last(self) -> dict[str, int]:
        """By topic, the number of the last message that was sent."""
        return {topic: each.source.next_sequence - 1 for topic, each in self._targets.items()}

    def take(self, message: Replayed) -> bool:
        target = self._target(self._to.replace("{topic}", message.topic))
        if target.position is not None and message.position <= target.position:
            return False
        attributes = _attributes(message)
        if not target.fits(message.payload, attributes):
            self._commit(target)
        target.add(message, attributes)
        return True

    def flush(self) -> None:
        for target in self._targets.values():
            if target.waits:
                self._commit(target)

    def _commit(self, target: _Target) -> None:
        self._loop.run_whole(target.commit(self._timeout))

    def _target(self, topic: str) -> _Target:
        if topic not in self._targets:
            opening = _opened(topic, self._layout, self._name, self._timeout)
            self._targets[topic] = self._loop.run(opening)
        return self._targets[topic]


class _Target:
    """One topic of a sink: its source, and the messages that wait for the next batch.

    An interruption never leaves half a message or half a batch, so the waiting messages can always
    be flushed.
    """

    def __init__(self, source: Source, name: str, position: Position | None) -> None:
        self.source = source
        self._position = position
        self._waiting: list[tuple[Replayed, Attributes]] = []
        """The waiting messages, each with its attributes."""
        self._bytes = 0
        self._name = name

    @property
    def position(self) -> Position | None:
        """The position of the last message that was taken."""
        return self._waiting[-1][0].position if self._waiting else self._position

    @property
    def waits(self) -> bool:
        """A message waits to be committed."""
        return bool(self._waiting)

    def fits(self, payload: bytes, attributes: Attributes) -> bool:
        """Return whether the batch has room for a message. Raises MessageTooLarge."""
        size = len(payload) + attributes.size
        if size > MESSAGE_BYTES_USUAL:
            raise MessageTooLarge(size, MESSAGE_BYTES_USUAL)
        return not self._waiting or (
            len(self._waiting) < BATCH_MESSAGES_MAX and self._bytes + size <= BATCH_BYTES_TARGET
        )

    def add(self, message: Replayed, attributes: Attributes) -> None:
        self._bytes += len(message.payload) + attributes.size
        self._waiting.append((message, attributes))

    async def commit(self, timeout: float) -> None:
        """Send the waiting messages.

        timeout: seconds to wait for enough stores, after which it raises NotRegistered.
        """
        position = self.position
        assert position is not None
        ready = Ready(
            [message.payload for message, _ in self._waiting],
            [attributes for _, attributes in self._waiting],
        )
        marker = _encoded(self._name, position)
        await commit_patiently(self.source, ready, marker, timeout)
        self._position, self._waiting, self._bytes = position, [], 0


async def _opened(topic: str, layout: Layout, name: str, timeout: float) -> _Target:
    session = session_id(f"backtest:{name}", 0)
    source = await Source.open(
        topic,
        stores=layout,
        session_id=session,
        take_over=True,
        timeout=timeout,
        tls=tls_of_environment(os.environ),
    )
    try:
        return _Target(source, name, _decoded(name, source.name, source.marker))
    except BaseException:
        await source.close()
        raise


def _encoded(name: str, at: Position) -> bytes:
    fields = {"quorate-backtest": _FORMAT, "name": name, "at": at}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _decoded(name: str, source: SourceName, text: bytes) -> Position | None:
    if not text:
        return None
    try:
        fields: dict[str, Any] = json.loads(text)
        time_us, topic, original, sequence = fields["at"]
        found = fields["quorate-backtest"], fields["name"]
        position = Position(int(time_us), str(topic), str(original), int(sequence))
    except (ValueError, TypeError, KeyError):
        raise WriteNotOurs(str(source), "an application's own marker") from None
    if found != (_FORMAT, name):
        raise WriteNotOurs(str(source), f"the replay {found[1]}, format {found[0]}")
    return position


def _attributes(message: Replayed) -> Attributes:
    original = {
        TIME_PROPERTY: message.time.isoformat(timespec="microseconds").encode(),
        TOPIC_PROPERTY: message.topic.encode(),
    }
    expires_ns = None if message.expires is None else nanoseconds_of(message.expires)
    return checked_attributes(
        message.key, {**message.properties, **original}, message.deleted, expires_ns
    )
