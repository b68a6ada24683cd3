"""A message's key and properties: as values, and as the bytes that travel with its payload.

The bytes are the protobuf message quorate.v1.Attributes with its properties in the order of their
names, so that the same attributes are always the same bytes: contents are compared as bytes,
between stores and when something is sent again. They are written by hand, because protobuf writes
maps in an order of its own. Where they are in a batch is known to quorate.protocol.framing.
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
    """What a message carries besides its payload."""

    key: bytes | None
    """What the message is about; None: it has no key, which is not the same as an empty one."""
    properties: Mapping[str, bytes]


def encode_attributes(
    key: bytes | None = None, properties: Mapping[str, bytes] | None = None
) -> bytes:
    """Their bytes; raises InvalidArgument if they are not what they should be."""
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
            names = list(properties)  # one of them is no text, which is found now
        for name in names:
            entry = _named(name)
            value = properties[name]
            if type(value) is not bytes:
                value = _as_bytes(f"property {name}", value)
            entry += SECOND.prefix(len(value)) + value
            encoded += SECOND.prefix(len(entry)) + entry
    return encoded


def decode_attributes(encoded: bytes) -> Attributes:
    """The attributes that have these bytes; raises CorruptBatch."""
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
    """What an entry begins with; an application has few names."""
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
