"""A message's key and properties: as values, and as the bytes that travel with its payload.

The bytes are the protobuf message quorate.v1.Attributes with its properties in the order of their
names, so that the same attributes are always the same bytes: contents are compared as bytes,
between stores and when something is sent again. They are written by hand, because protobuf writes
maps in an order of its own. Where they are in a batch is known to quorate.protocol.framing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from quorate.protocol.errors import CorruptBatch, InvalidArgument
from quorate.protocol.fields import FIRST, SECOND
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
        key = _as_bytes("key", key)
        encoded = FIRST.prefix(len(key)) + key
    if properties:
        if not isinstance(properties, Mapping):
            raise InvalidArgument(
                "properties", f"is {type(properties).__name__}, not a mapping of names to bytes"
            )
        named = sorted((_name(name), name) for name in properties)
        entries = [_entry(raw, name, properties[name]) for raw, name in named]
        encoded += SECOND.repeated(entries)
    return encoded


def decode_attributes(encoded: bytes) -> Attributes:
    """The attributes that have these bytes; raises CorruptBatch."""
    try:
        attributes = v1.Attributes.FromString(encoded)
    except DecodeError:
        raise CorruptBatch("in memory", "it has a message with unreadable attributes") from None
    key = attributes.key if attributes.HasField("key") else None
    return Attributes(key, dict(attributes.properties))


def _entry(raw: bytes, name: str, value: bytes) -> bytes:
    value = _as_bytes(f"property {name}", value)
    return b"".join((FIRST.prefix(len(raw)), raw, SECOND.prefix(len(value)), value))


def _name(name: object) -> bytes:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(
            "properties", f"{name!r} is not a name; give a text that is not empty"
        )
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("properties", f"the name {name!r} is not valid Unicode") from None


def _as_bytes(what: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(what, f"is {type(value).__name__}, not bytes; encode it first")
