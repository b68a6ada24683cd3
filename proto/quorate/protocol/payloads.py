"""The formats of payloads: the one place where a payload becomes a document. Pure.

A document has the values that JSON has. Filters, keys, conflation and queries look at documents.
Batches and the write path never do.

MessagePack has some values that JSON has not:

- Bytes stay bytes. They are equal to nothing and are no part of a key.
- A timestamp becomes seconds since 1970 UTC, as the time of a message is.
- An extension of any other type becomes None.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgpack

UNDECODABLE = (ValueError, RecursionError)
"""The errors with which a payload is refused that is not of its format."""

Decode = Callable[[bytes], Any]
"""Returns the document of a payload, or raises one of UNDECODABLE."""


class PayloadFormat(enum.Enum):
    """The format of the payloads of a topic."""

    JSON = "json"
    """JSON, as RFC 8259 has it. Numbers may be NaN or infinite, too."""
    MSGPACK = "msgpack"
    """MessagePack. The names in maps are texts or bytes; a payload with others is refused."""


def document_of(payload: bytes, form: PayloadFormat = PayloadFormat.JSON) -> Any:
    """Return the document of a payload; None: it is not of this format."""
    try:
        return DECODERS[form](payload)
    except UNDECODABLE:
        return None


def as_json(payload: bytes, form: PayloadFormat) -> bytes:
    """Return a payload as one line of JSON. Raises one of UNDECODABLE.

    Bytes become texts. A number of MessagePack that is not finite becomes null.
    """
    document = DECODERS[form](payload)
    return json.dumps(document if form is PayloadFormat.JSON else _as_json(document)).encode()


def text_of_bytes(value: bytes) -> str:
    """Return bytes as a text that people can read, with escapes for all that is no UTF-8."""
    return value.decode(errors="backslashreplace")


def _as_json(value: Any) -> Any:
    match value:
        case dict():
            return {_name(name): _as_json(each) for name, each in value.items()}
        case list():
            return list(map(_as_json, value))
        case bytes():
            return text_of_bytes(value)
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _name(name: str | bytes) -> str:
    return name if isinstance(name, str) else text_of_bytes(name)


def _of_msgpack(payload: bytes) -> Any:
    _check_is_whole(payload)
    # A name that a map has twice counts with its last value, as in JSON.
    return msgpack.unpackb(payload, timestamp=1, ext_hook=_no_value)


def _check_is_whole(payload: bytes) -> None:
    """Raise ValueError unless a payload is one value with all its parts, 1,024 levels deep at most.

    A container says first how many parts it has, and room is made for them before they are read.
    So a few bytes could ask for gigabytes, if nobody looked for the parts before.
    """
    size = max(len(payload), 1)
    unpacker = msgpack.Unpacker(read_size=size, max_buffer_size=size)
    unpacker.feed(payload)
    try:
        unpacker.skip()
    except msgpack.UnpackException as error:
        raise ValueError(str(error)) from None
    if unpacker.tell() != len(payload):
        raise ValueError("something follows the value")


def _no_value(_code: int, _data: bytes) -> None:
    """Return the value of an extension whose type is not known here."""


DECODERS: Mapping[PayloadFormat, Decode] = {
    PayloadFormat.JSON: json.loads,
    PayloadFormat.MSGPACK: _of_msgpack,
}
"""The function that makes documents of payloads, by their format."""
