"""The formats of payloads: the one place where a payload becomes a document. Pure.

A document has the values that JSON has. Filters, keys, conflation and queries look at documents.
Batches and the write path never do.

MessagePack has some values that JSON has not:

- Bytes stay bytes. They are equal to nothing and are no part of a key.
- A timestamp becomes seconds since 1970 UTC, as the time of a message is.
- An extension of any other type becomes None.

JSON means what Python's own parser makes of it. A quicker one reads most payloads. All that it
refuses, or might read otherwise, is left to Python's.
"""

from __future__ import annotations

import enum
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict

import msgpack
import msgspec

UNDECODABLE = (ValueError, RecursionError)
"""The errors with which a payload is refused that is not of its format."""

Decode = Callable[[bytes], Any]
"""Returns the document of a payload, or raises one of UNDECODABLE."""

_NOT_QUICK = (msgspec.MsgspecError, *UNDECODABLE)
"""The errors with which the quick parser refuses what Python's may read."""
_DIGITS = b"0123456789"


class PayloadFormat(enum.Enum):
    """The format of the payloads of a topic."""

    JSON = "json"
    """JSON, as RFC 8259 has it. Numbers may be NaN or infinite, too."""
    MSGPACK = "msgpack"
    """MessagePack. The names in maps are texts or bytes; a payload with others is refused."""


class Reader:
    """Makes documents of payloads of one format."""

    __slots__ = ("_quick", "_whole")

    def __init__(self, form: PayloadFormat, members: frozenset[str] | None) -> None:
        """members: the names of those that an object must keep; None: it keeps all."""
        self._whole = DECODERS[form]
        self._quick: Decode | None = None
        """Reads the members alone, of an object; None: it reads all."""
        # The quick parser takes members without a name for those whose names are not ASCII.
        if members and form is PayloadFormat.JSON and all(map(str.isascii, members)):
            self._quick = _reading_members(members)

    def one(self, payload: bytes) -> Any:
        """Return the document of a payload. Raises one of UNDECODABLE."""
        if self._quick is not None and _may_skip(payload):
            try:
                return self._quick(payload)
            except _NOT_QUICK:
                pass
        return self._whole(payload)

    def all(self, payloads: Sequence[bytes]) -> tuple[list[Any], int]:
        """Return the document of each payload, and how many payloads are not of the format.

        The document of such a payload is None.
        """
        try:
            if self._quick is None:
                return list(map(self._whole, payloads)), 0
            if _may_skip_all(payloads):
                return list(map(self._quick, payloads)), 0
        except _NOT_QUICK:
            pass  # some of them are read in another way
        documents: list[Any] = []
        undecoded = 0
        for payload in payloads:
            try:
                documents.append(self.one(payload))
            except UNDECODABLE:
                documents.append(None)
                undecoded += 1
        return documents, undecoded


@lru_cache(maxsize=256)
def reader_of(form: PayloadFormat, members: frozenset[str] | None = None) -> Reader:
    """Return what reads payloads of a format. Its parser is made once.

    members: the names of those that anyone asks for; None: all. An object may have more.
    """
    return Reader(form, members)


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


def _of_json(payload: bytes) -> Any:
    try:
        return _quick_json(payload)
    except _NOT_QUICK:
        return json.loads(payload)


_quick_json = msgspec.json.Decoder().decode


def _reading_members(members: frozenset[str]) -> Decode:
    """Return what reads these members of an object, and passes over the others."""
    kept = TypedDict("kept", dict.fromkeys(members, Any), total=False)  # type: ignore[misc]
    decode: Decode = msgspec.json.Decoder(kept).decode
    return decode


def _may_skip_all(payloads: Sequence[bytes]) -> bool:
    """Return whether `_may_skip` is true of all payloads."""
    digits_max = sys.get_int_max_str_digits()
    is_short = not digits_max or max(map(len, payloads), default=0) <= digits_max
    if is_short and all(map(bytes.isascii, payloads)):
        return True
    return all(map(_may_skip, payloads))


def _may_skip(payload: bytes) -> bool:
    """Return whether the quick parser may pass over members of a payload.

    It does not look whether a text there is UTF-8, or whether a number has too many digits.
    Python's parser refuses the payload then.
    """
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError:
            return False
    digits_max = sys.get_int_max_str_digits()
    if not digits_max or len(payload) <= digits_max:
        return True
    return len(payload) - len(payload.translate(None, _DIGITS)) <= digits_max


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
    PayloadFormat.JSON: _of_json,
    PayloadFormat.MSGPACK: _of_msgpack,
}
"""The function that makes documents of payloads, by their format."""
