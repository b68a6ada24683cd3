"""The messages that an application hands over to be sent: checked, and made ready for the window.

How messages become batches is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from operator import add, attrgetter

from quorate.protocol.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    checked_attributes,
    has_any,
    of_keys,
    sizes_of,
)
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.limits import (
    BATCH_BYTES_TARGET,
    BATCH_MESSAGES_MAX,
    MARKER_BYTES_MAX,
    MESSAGE_BYTES_USUAL,
)
from quorate.protocol.times import expiry_ns


# A frozen one would take three times as long to make, and an application makes many.
@dataclass(slots=True)
class Outgoing:
    """A message with a key or properties, for `send_many` and `commit`."""

    payload: bytes
    key: bytes | None = None
    """The key: what the message is about. The state of the world has the last message for each
    key."""
    properties: Mapping[str, bytes] = field(default_factory=dict)
    """The properties, values by name, by which receivers may filter."""
    expires: datetime | float | None = None
    """The time at which it expires: a moment, or seconds from now; None: never. It may be past."""
    deleted: bool = False
    """Whether it deletes the row of its key in the state of the world."""


_FIELDS = [attrgetter(name) for name in ("payload", "key", "properties", "expires", "deleted")]


@dataclass(frozen=True, slots=True)
class Limit:
    """The size of the largest message that is accepted."""

    size: int
    """Bytes."""
    setting: str = "SourceOptions.message_bytes_max"
    """The setting that has the limit, and whose it is."""

    def check(self, size: int) -> None:
        """Raise MessageTooLarge for a message of so many bytes, unless it is within the limit."""
        if size > self.size:
            raise MessageTooLarge(size, self.size, self.setting)


@dataclass(frozen=True, slots=True)
class Ready:
    """Messages that were checked."""

    payloads: list[bytes]
    attributes: list[Attributes]
    """The attributes of each message; an empty list if no message has any."""
    sizes: list[int]
    """The bytes of the payload and the attributes of each message."""

    def __len__(self) -> int:
        return len(self.payloads)

    def part(self, first: int, end: int) -> Ready:
        """Return the messages from first on and before end."""
        attributes = self.attributes[first:end]
        return Ready(self.payloads[first:end], attributes, self.sizes[first:end])

    @property
    def size(self) -> int:
        """The bytes of all payloads and attributes."""
        return sum(self.sizes)


def ready_of(payloads: list[bytes], attributes: list[Attributes]) -> Ready:
    """Return messages that were checked. attributes: of each, or an empty list."""
    return Ready(payloads, attributes, message_sizes(payloads, attributes))


def one_ready(payload: bytes, attributes: Attributes) -> Ready:
    """Return one message that was checked."""
    return Ready([payload], [attributes], [len(payload) + attributes.size])


def message_sizes(payloads: Sequence[bytes], attributes: Sequence[Attributes]) -> list[int]:
    """Return the bytes of the payload and the attributes of each message.

    attributes: those of the first messages. The later ones, often all, have none.
    """
    sizes = list(map(len, payloads))
    if attributes:
        sizes[: len(attributes)] = map(add, sizes, sizes_of(attributes))
    return sizes


def fill_up(attributes: list[Attributes], count: int) -> None:
    """Append empty attributes for the later messages, until the list covers `count` messages."""
    attributes += repeat(NO_ATTRIBUTES, count - len(attributes))


def as_bytes(value: object, argument: str = "payload") -> bytes:
    """Return a payload, or another argument, as bytes. Raises InvalidArgument for other types."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(argument, f"is {type(value).__name__}, not bytes; encode it first")


def checked(messages: Iterable[bytes | Outgoing], limit: Limit, now_ns: int) -> Ready:
    """Return the messages if each is within the limit; raise InvalidArgument or MessageTooLarge.

    now_ns: the time from which seconds until they expire count, in ns since 1970.
    """
    ready = list(messages)
    if set(map(type, ready)) <= {bytes}:
        payloads: list[bytes] = ready  # type: ignore[assignment]
        plain = ready_of(payloads, [])
        limit.check(max(plain.sizes, default=0))
        return plain
    found = _with_keys_alone(ready)
    if found is None:
        return _with_attributes(ready, limit, now_ns)
    limit.check(max(found.sizes))
    return found


def checked_one(message: Outgoing, limit: Limit, now_ns: int) -> tuple[bytes, Attributes]:
    """Return payload and attributes of one message; raise what `checked` raises."""
    payload = message.payload
    if type(payload) is not bytes:
        payload = as_bytes(payload)
    expires_ns = expiry_ns(message.expires, now_ns)
    attributes = checked_attributes(
        message.key, message.properties, bool(message.deleted), expires_ns
    )
    limit.check(len(payload) + attributes.size)
    return payload, attributes


def deletion(key: bytes | None, properties: Mapping[str, bytes] | None, payload: bytes) -> Outgoing:
    """Return the message that deletes the row of a key. Raises InvalidArgument without a key."""
    if key is None and not payload:
        raise InvalidArgument(
            "key", "is None; give the key whose row is to be deleted, or a payload with its fields"
        )
    return Outgoing(payload, key, properties or {}, deleted=True)


def _with_keys_alone(messages: Sequence[bytes | Outgoing]) -> Ready | None:
    """Return the messages if each has a key and no other attribute; None: some have not.

    It does what `_with_attributes` does, in a few steps for all of them.
    """
    if set(map(type, messages)) != {Outgoing}:
        return None
    payloads, keys, properties, expires, deleted = (list(map(read, messages)) for read in _FIELDS)
    if set(map(type, payloads)) != {bytes} or set(map(type, keys)) != {bytes}:
        return None
    if any(properties) or any(deleted) or expires != [None] * len(expires):
        return None
    return ready_of(payloads, of_keys(keys))


def _with_attributes(messages: list[bytes | Outgoing], limit: Limit, now_ns: int) -> Ready:
    payloads: list[bytes] = []
    found: list[Attributes] = []
    for message in messages:
        outgoing = message if isinstance(message, Outgoing) else Outgoing(message)
        payload, attributes = checked_one(outgoing, limit, now_ns)
        payloads.append(payload)
        found.append(attributes)
    return ready_of(payloads, found if has_any(found) else [])


def check_commit(ready: Ready, marker: object) -> bytes:
    """Return the marker. Raises InvalidArgument if these messages are not one batch with it."""
    if not 0 < len(ready) <= BATCH_MESSAGES_MAX:
        raise InvalidArgument(
            "commit", f"{len(ready)} messages are not between 1 and {BATCH_MESSAGES_MAX}"
        )
    size = ready.size
    size_max = BATCH_BYTES_TARGET if len(ready) > 1 else MESSAGE_BYTES_USUAL
    if size > size_max:
        raise InvalidArgument("commit", f"{size:,} bytes are more than a batch has: {size_max:,}")
    given = as_bytes(marker, "marker")
    if not 0 < len(given) <= MARKER_BYTES_MAX:
        raise InvalidArgument(
            "marker", f"has {len(given)} bytes, not between 1 and {MARKER_BYTES_MAX}"
        )
    return given


def check_usual(ready: Ready) -> None:
    """Raise InvalidArgument for a message that may need a wait before it is accepted."""
    if ready.size > MESSAGE_BYTES_USUAL:
        raise InvalidArgument(
            "payload", f"has {ready.size:,} bytes; use send for more than {MESSAGE_BYTES_USUAL:,}"
        )


def always_waits() -> InvalidArgument:
    """Return the error of send_nowait with a publish store that syncs."""
    return InvalidArgument("send_nowait", "cannot wait for the publish store's sync; use send")
