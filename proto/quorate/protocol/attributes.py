"""A message's key and properties: as values, and as the bytes that travel with its payload.

The bytes are the protobuf message quorate.v1.Attributes with its properties in the order of their
names. So equal attributes are always equal bytes. Stores compare contents as bytes with each other,
and with messages that are sent again. The bytes are written by hand, because protobuf writes maps
in an order of its own. Their place in a batch is known to quorate.protocol.framing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.message import DecodeError

from quorate.protocol.errors import CorruptBatch, InvalidArgument
from quorate.protocol.fields import FIRST, SECOND
from quorate.protocol.limits import PROPERTY_NAME_BYTES_MAX
from quorate.v1 import messages_pb2 as v1

NO_ATTRIBUTES = b""
"""The bytes of a message that has neither key nor properties."""


class Attributes(NamedTuple):
    """The key and the properties of a message."""

    key: bytes | None
    """The thing that the message is about. None is no key, which differs from an empty key."""
    properties: Mapping[str, bytes]


def encode_attributes(
    key: bytes | None = None, properties: Mapping[str, bytes] | None = None
) -> bytes:
    """Return the bytes of a key and properties. Raises InvalidArgument for a wrong type or name."""
    encoded = b""
    if key is not None:
        if type(key) is not bytes:
            key = _as_bytes("key", key)
        encoded = FIRST.prefix(len(key)) + key
    if properties:
        if type(properties) is not dict and not isinstance(properties, Mapping):
            raise InvalidArgument(
                "properties", f"is {type(properties).__name__}, not a mapping of names to bytes"
            )
        try:
            names = sorted(properties)  # by code point, which is the order of their bytes
        except TypeError:
            names = list(properties)  # one of them is not text, which _named finds
        for name in names:
            entry = _named(name)
            value = properties[name]
            if type(value) is not bytes:
                value = _as_bytes(f"property {name}", value)
            entry += SECOND.prefix(len(value)) + value
            encoded += SECOND.prefix(len(entry)) + entry
    return encoded


def decode_attributes(encoded: bytes) -> Attributes:
    """Return the attributes of these bytes. Raises CorruptBatch."""
    if not encoded:
        return Attributes(None, {})
    try:
        attributes = v1.Attributes.FromString(encoded)
    except DecodeError:
        raise CorruptBatch("in memory", "it has a message with unreadable attributes") from None
    key = attributes.key if attributes.HasField("key") else None
    return Attributes(key, dict(attributes.properties))


@lru_cache(maxsize=1024)
def _named(name: object) -> bytes:
    """Return the bytes that an entry of this name begins with; an application has few names."""
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
    return FIRST.prefix(len(raw)) + raw


def _as_bytes(what: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(what, f"is {type(value).__name__}, not bytes; encode it first")
