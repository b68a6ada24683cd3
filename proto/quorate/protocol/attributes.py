"""The attributes of a message, all but its payload and time: as values, and as bytes in a file.

Publish stores keep the bytes. They are the protobuf message quorate.v1.Attributes with its
properties in the order of their names. So equal attributes are always equal bytes. They are written
by hand, because protobuf writes maps in an order of its own. How attributes travel in a batch is
known to quorate.protocol.columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from google.protobuf.message import DecodeError

from quorate.protocol.errors import CorruptBatch, InvalidArgument
from quorate.protocol.fields import FIRST, SECOND
from quorate.protocol.limits import ATTRIBUTE_BYTES_MORE, PROPERTY_NAME_BYTES_MAX
from quorate.protocol.times import TIME_NS_MAX, moment_of
from quorate.v1 import messages_pb2 as v1

EXPIRY_BYTES = 8
"""The bytes of the time at which a message expires."""
_DELETED = b"\x18\x01"  # field 3, varint
_EXPIRES_TAG = b"\x21"  # field 4, 64 bits
_key, _properties, _expires_ns = map(itemgetter, (0, 1, 3))


class Attributes(NamedTuple):
    """The facts of a message beside its payload and its time."""

    key: bytes | None = None
    """The thing that the message is about. None is no key, which differs from an empty key."""
    properties: Mapping[str, bytes] = {}
    deleted: bool = False
    """Whether the message deletes the row of its key in the state of the world."""
    expires_ns: int | None = None
    """The time at which the message expires, in nanoseconds since 1970 UTC; None: it does not."""

    @property
    def expires(self) -> datetime | None:
        """The time at which the message expires, in UTC; None: it does not."""
        return None if self.expires_ns is None else moment_of(self.expires_ns)

    @property
    def size(self) -> int:
        """The bytes that they count among those of the message: at least as many as they take."""
        size = 0 if self.key is None else len(self.key) + ATTRIBUTE_BYTES_MORE
        for name, value in self.properties.items():
            size += len(_named(name)) + len(value) + ATTRIBUTE_BYTES_MORE
        if self.expires_ns is not None:
            size += EXPIRY_BYTES + ATTRIBUTE_BYTES_MORE
        return size


NO_ATTRIBUTES = Attributes()
"""The attributes of a message that has a payload only."""
_attributes: Callable[[tuple[bytes, Mapping[str, bytes], bool, None]], Attributes] = partial(
    tuple.__new__, Attributes
)
"""Make attributes of their fields. It is sooner done than by the name of their type."""


def of_keys(keys: Sequence[bytes]) -> list[Attributes]:
    """Return the attributes of messages that have keys and nothing else."""
    nothing = NO_ATTRIBUTES
    return list(
        map(_attributes, zip(keys, repeat(nothing.properties), repeat(False), repeat(None)))
    )


def sizes_of(attributes: Sequence[Attributes]) -> list[int]:
    """Return the bytes that the attributes of each message count."""
    if any(map(_properties, attributes)) or set(map(_expires_ns, attributes)) - {None}:
        return [own.size for own in attributes]
    # Most have keys alone: `size` would say the same.
    return [0 if key is None else len(key) + ATTRIBUTE_BYTES_MORE for key in map(_key, attributes)]


def has_any(attributes: Iterable[Attributes]) -> bool:
    """Return whether any of them says anything. An empty key does."""
    return any(own != NO_ATTRIBUTES for own in attributes)


def checked_attributes(
    key: bytes | None = None,
    properties: Mapping[str, bytes] | None = None,
    deleted: bool = False,
    expires_ns: int | None = None,
) -> Attributes:
    """Return attributes as values. Raises InvalidArgument for a wrong type, name or time."""
    if expires_ns is not None and not -TIME_NS_MAX <= expires_ns <= TIME_NS_MAX:
        raise InvalidArgument("expires", f"{expires_ns} ns since 1970 is not before the year 2262")
    if key is not None and type(key) is not bytes:
        key = _as_bytes("key", key)
    if not properties:
        return Attributes(key, NO_ATTRIBUTES.properties, deleted, expires_ns)
    if type(properties) is not dict and not isinstance(properties, Mapping):
        raise InvalidArgument(
            "properties", f"is {type(properties).__name__}, not a mapping of names to bytes"
        )
    named: dict[str, bytes] = {}
    for name, value in properties.items():
        _named(name)
        named[name] = value if type(value) is bytes else _as_bytes(f"property {name}", value)
    return Attributes(key, named, deleted, expires_ns)


def encode_attributes(attributes: Attributes) -> bytes:
    """Return the bytes of attributes that were checked; empty: there are none."""
    key, properties, deleted, expires_ns = attributes
    encoded = b"" if key is None else FIRST.prefix(len(key)) + key
    for name in sorted(properties):  # by code point, which is the order of their bytes
        raw, value = _named(name), properties[name]
        entry = FIRST.prefix(len(raw)) + raw + SECOND.prefix(len(value)) + value
        encoded += SECOND.prefix(len(entry)) + entry
    if deleted:
        encoded += _DELETED
    if expires_ns is not None:
        encoded += _EXPIRES_TAG + expires_ns.to_bytes(EXPIRY_BYTES, "little", signed=True)
    return encoded


def decode_attributes(encoded: bytes) -> Attributes:
    """Return the attributes of these bytes. Raises CorruptBatch."""
    if not encoded:
        return NO_ATTRIBUTES
    try:
        attributes = v1.Attributes.FromString(encoded)
    except DecodeError:
        raise CorruptBatch("in memory", "it has a message with unreadable attributes") from None
    key = attributes.key if attributes.HasField("key") else None
    expires_ns = attributes.expires_ns if attributes.HasField("expires_ns") else None
    return Attributes(key, dict(attributes.properties), attributes.deleted, expires_ns)


@lru_cache(maxsize=1024)
def _named(name: object) -> bytes:
    """Return the bytes of the name of a property; an application has few names."""
    if not isinstance(name, str) or not name:
        raise InvalidArgument(
            "properties", f"{name!r} is not a name; give a text, not an empty one"
        )
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("properties", f"the name {name!r} is not valid Unicode") from None
    if len(raw) > PROPERTY_NAME_BYTES_MAX:
        raise InvalidArgument(
            "properties",
            f"the name {name[:40]}… has {len(raw)} bytes, more than {PROPERTY_NAME_BYTES_MAX}; "
            "put what is long into the value",
        )
    return raw


def _as_bytes(what: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(what, f"is {type(value).__name__}, not bytes; encode it first")
