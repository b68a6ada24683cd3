"""Fields of a payload in MessagePack, cut out of its bytes."""

from __future__ import annotations

from typing import Any

import msgpack

from quorate.protocol.filters.branches import WHOLE, Branch, behind, by_name
from quorate.protocol.payloads import DECODERS, PayloadFormat

_decode = DECODERS[PayloadFormat.MSGPACK]


def left_of_msgpack(payload: bytes, root: Branch, keeps: bool) -> bytes:
    """Return what is left of a map in MessagePack.

    keeps: whether the paths name what is kept, not what is left out. Raises one of UNDECODABLE.
    """
    if type(_decode(payload)) is not dict:
        raise ValueError
    return _Cutting(payload, keeps).map([root])


class _Cutting:
    """The cutting of one payload, which was decoded before: so it is whole.

    Each method reads one value, and returns what is left of it. Only the head of a map or an array
    is made anew, as it says how many parts follow.
    """

    def __init__(self, payload: bytes, keeps: bool) -> None:
        self._payload = payload
        self._keeps = keeps
        self._unpacker = msgpack.Unpacker(read_size=len(payload), max_buffer_size=len(payload))
        self._unpacker.feed(payload)
        self._packer = msgpack.Packer()

    def map(self, branches: list[Branch]) -> bytes:
        payload, unpacker = self._payload, self._unpacker
        left: list[bytes] = []
        for _ in range(unpacker.read_map_header()):
            begin = unpacker.tell()
            name = unpacker.unpack()
            end = unpacker.tell()
            value = self._value(behind(branches, name))
            if value is not None:
                left.append(payload[begin:end] + value)
        head: bytes = self._packer.pack_map_header(len(left))
        return head + b"".join(left)

    def _array(self, branches: list[Branch]) -> bytes:
        unpacker, named = self._unpacker, by_name(branches)
        left: list[bytes] = []
        for index in range(unpacker.read_array_header()):
            ahead = behind(branches, index)
            if self._is_map():
                ahead += named
            value = self._value(ahead)
            if value is not None:
                left.append(value)
        head: bytes = self._packer.pack_array_header(len(left))
        return head + b"".join(left)

    def _value(self, ahead: list[Any]) -> bytes | None:
        """`ahead`: branches that lead into the value, or WHOLE. None: nothing is left."""
        is_named = WHOLE in ahead
        if ahead and not is_named:
            if self._is_map():
                return self.map(ahead)
            if self._is_array():
                return self._array(ahead)
        begin = self._unpacker.tell()
        self._unpacker.skip()
        return self._payload[begin : self._unpacker.tell()] if is_named is self._keeps else None

    # The first byte of a value says its kind.

    def _is_map(self) -> bool:
        first = self._payload[self._unpacker.tell()]
        return 0x80 <= first <= 0x8F or first in (0xDE, 0xDF)

    def _is_array(self) -> bool:
        first = self._payload[self._unpacker.tell()]
        return 0x90 <= first <= 0x9F or first in (0xDC, 0xDD)
