"""The sinks of a replay: a function, or topics, each through a source.

The marker of each source has the position of the replay in its topic, so that a replay that is
started again goes on there. When a message is due is not decided here.
"""

from __future__ import annotations

import json
import os
import traceback
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import Any

from quorate.pipeline.errors import FunctionFailed, WriteNotOurs
from quorate.pipeline.jobs.replay import Position, Replayed, ReplayProgress, Slice, as_time
from quorate.pipeline.rules.resuming import session_id
from quorate.pipeline.write.writing import LoopThread, commit_patiently
from quorate.protocol.attributes import Attributes, checked_attributes
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.identity import SourceName, check_topic
from quorate.protocol.layout import Layout
from quorate.protocol.limits import BATCH_BYTES_TARGET, BATCH_MESSAGES_MAX, MESSAGE_BYTES_USUAL
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

    def take(self, messages: Slice, progress: ReplayProgress) -> None:
        """Call the function with each message. Raises FunctionFailed."""
        function, called = self._function, 0
        try:
            for message in messages:
                function(message)
                called += 1
        except Exception as error:
            raise _failed(function, message, error) from error
        finally:
            progress.add(messages, called)

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

    def take(self, messages: Slice, progress: ReplayProgress) -> None:
        if "{topic}" not in self._to:
            self._take(self._to, messages, progress)
            return
        for topic in dict.fromkeys(messages.topics):
            self._take(self._to.replace("{topic}", topic), messages.only(topic), progress)

    def _take(self, topic: str, messages: Slice, progress: ReplayProgress) -> None:
        target = self._target(topic)
        already = target.already(messages)
        progress.already += already
        sized = _sized(messages.part(already, len(messages)))
        first = 0
        while first < len(sized):
            end = target.fitting(sized, first)
            if end == first:
                self._commit(target)
                continue
            target.add(sized, first, end)
            progress.add(sized.messages.part(first, end), end - first)
            first = end

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


@dataclass(frozen=True, slots=True)
class _Sized:
    """Messages as they are sent, and how large they are."""

    messages: Slice
    attributes: Sequence[Attributes]
    sizes: Sequence[int]
    """The bytes of each message."""
    ends: Sequence[int]
    """The bytes of each message and of all before it."""

    def __len__(self) -> int:
        return len(self.messages)

    def size(self, first: int, end: int) -> int:
        """Return the bytes of the messages from `first` on and before `end`."""
        return self.ends[end - 1] - (self.ends[first - 1] if first else 0)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Messages that wait for the next batch."""

    payloads: Sequence[bytes]
    attributes: Sequence[Attributes]
    sizes: Sequence[int]
    position: Position
    """The position of the last one."""


class _Target:
    """One topic of a sink: its source, and the messages that wait for the next batch.

    An interruption never leaves half a message or half a batch, so the waiting messages can always
    be flushed.
    """

    def __init__(self, source: Source, name: str, position: Position | None) -> None:
        self.source = source
        self._position = position
        self._waiting: list[_Waiting] = []
        self._count = 0
        self._bytes = 0
        self._name = name

    @property
    def position(self) -> Position | None:
        """The position of the last message that was taken."""
        return self._waiting[-1].position if self._waiting else self._position

    @property
    def waits(self) -> bool:
        """A message waits to be committed."""
        return bool(self._waiting)

    def already(self, messages: Slice) -> int:
        """Return how many of these messages were taken before."""
        position = self.position
        return 0 if position is None else messages.rows_upto(position)

    def fitting(self, sized: _Sized, first: int) -> int:
        """Return the row before which messages from `first` on have room in the batch.

        A message that is larger than a batch has room in an empty one. Raises MessageTooLarge.
        """
        before = sized.ends[first - 1] if first else 0
        room = before + BATCH_BYTES_TARGET - self._bytes
        most = min(len(sized), first + BATCH_MESSAGES_MAX - self._count)
        end = bisect_right(sized.ends, room, first, most)
        if end > first or self._waiting:
            return end
        if (size := sized.size(first, first + 1)) > MESSAGE_BYTES_USUAL:
            raise MessageTooLarge(size, MESSAGE_BYTES_USUAL)
        return first + 1

    def add(self, sized: _Sized, first: int, end: int) -> None:
        self._bytes += sized.size(first, end)
        self._count += end - first
        self._waiting.append(
            _Waiting(
                sized.messages.payloads[first:end],
                sized.attributes[first:end],
                sized.sizes[first:end],
                sized.messages.position(end - 1),
            )
        )

    async def commit(self, timeout: float) -> None:
        """Send the waiting messages.

        timeout: seconds to wait for enough stores, after which it raises NotRegistered.
        """
        position = self.position
        assert position is not None
        ready = Ready(
            [payload for each in self._waiting for payload in each.payloads],
            [own for each in self._waiting for own in each.attributes],
            [size for each in self._waiting for size in each.sizes],
        )
        marker = _encoded(self._name, position)
        await commit_patiently(self.source, ready, marker, timeout)
        self._position, self._waiting, self._bytes, self._count = position, [], 0, 0


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


def _sized(messages: Slice) -> _Sized:
    """Return messages with the attributes that they are sent with."""
    made = _Originals()
    if _say_nothing(messages):
        origins = list(zip(messages.sent_us, messages.topics, strict=True))
        attributes = list(map(made.__getitem__, origins))
        own_sizes = list(map(made.sizes.__getitem__, origins))
    else:
        attributes = list(
            map(
                made.added,
                messages.sent_us,
                messages.topics,
                messages.keys,
                messages.properties,
                messages.deleted,
                messages.expires_us,
            )
        )
        own_sizes = [own.size for own in attributes]
    sizes = list(map(add, map(len, messages.payloads), own_sizes))
    return _Sized(messages, attributes, sizes, list(accumulate(sizes)))


def _say_nothing(messages: Slice) -> bool:
    """Return whether messages have payloads only."""
    return not (
        any(messages.deleted)
        or any(messages.properties)
        or messages.keys.count(None) < len(messages)
        or messages.expires_us.count(None) < len(messages)
    )


class _Originals(dict[tuple[int, str], Attributes]):
    """The attributes that say the original time and topic, by both. Messages often share them."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[int, str], int] = {}
        """The bytes of the attributes that were looked up."""
        self._seconds: dict[int, bytes] = {}
        """The text of each second since 1970."""

    def __missing__(self, origin: tuple[int, str]) -> Attributes:
        """Make the attributes of a message that has no other ones."""
        made = self[origin] = Attributes(None, self._properties(*origin))
        self.sizes[origin] = made.size
        return made

    def added(
        self,
        time_us: int,
        topic: str,
        key: bytes | None,
        properties: Mapping[str, bytes],
        deleted: bool,
        expires_us: int | None,
    ) -> Attributes:
        """Return the attributes of a message with those of its origin."""
        return checked_attributes(
            key,
            {**properties, **self._properties(time_us, topic)},
            deleted,
            None if expires_us is None else expires_us * 1000,
        )

    def _properties(self, time_us: int, topic: str) -> dict[str, bytes]:
        seconds, rest_us = divmod(time_us, 1_000_000)
        text = self._seconds.get(seconds)
        if text is None:
            whole = as_time(seconds * 1_000_000).replace(tzinfo=None)
            text = self._seconds[seconds] = whole.isoformat().encode()
        return {TIME_PROPERTY: b"%b.%06d+00:00" % (text, rest_us), TOPIC_PROPERTY: topic.encode()}
