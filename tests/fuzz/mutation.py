"""The changes that the fuzzer makes to valid inputs: to bytes, to text, and to fields of messages.

All of them come from one source of random numbers, so a seed repeats them. The meaning of an input
is not known here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import google_crc32c
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from quorate.protocol.framing import CHECKED_FROM, HEADER_BYTES

_WHOLE_NUMBERS = [0, 1, 2, 3, 127, 128, 255, 256, 1023, 1024, 4095, 4096, 65535, 65536]
_EDGES = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 2]
NUMBERS = [*_WHOLE_NUMBERS, *_EDGES, 2**64 - 1, *(-each for each in (1, 2, 2**31, 2**62, 2**63))]
"""Numbers around which ranges end."""
_FLOATS = [0.0, -0.0, 1e-9, -1.0, 1e9, 1e18, 1e308, float("inf"), float("-inf"), float("nan")]
_WORDS = [
    *("", " ", "\n", "\0", "\x7f", "é", "😀", "'", '"', "\\", "(", ")", "((((((((", "[", "]", "{"),
    *("}", "$", "$key", "$time", "a.b", "a[0]", "NOT ", "AND ", " OR ", "IN (1)", "LIKE '%_%'"),
    *("BETWEEN 1 AND 2", "=", "<>", "-", "--", "*", "/", "%", "0x", "1e999", "@", "@1:2", "/0x10"),
    *("9" * 30, "9" * 5000, ".*", "(a*)*", "[a-z]{1000}", "(?i)", "\\p{L}", "|", "a" * 300, "#"),
    *("=[", "= ", "true", "null", "NaN", "[[", "]]", "'''", '"""', ",", ";", ":", "127.0.0.1:1"),
]
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_BYTES_MAX = 64 * 1024
"""Bytes of the largest input that changes make longer."""
_COPIES_MAX = 1100
"""Entries that a list may get more: some more than requests may have."""


class Mutator:
    """Changes to inputs, from a seed."""

    def __init__(self, seed: int | str) -> None:
        """Begin with a seed: the same one makes the same changes."""
        self.random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Return whether something of this probability happens."""
        return self.random.random() < probability

    def data(self, data: bytes, others: Sequence[bytes] = ()) -> bytes:
        """Return the bytes with one to four changes. others: inputs to take parts of."""
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self._change(changed, others)
        return bytes(changed[:_BYTES_MAX]) if len(changed) > len(data) else bytes(changed)

    def text(self, text: str, others: Sequence[str] = ()) -> str:
        """Return the text with one to four changes. others: texts to take parts of."""
        for _ in range(self.random.choice((1, 1, 2, 4))):
            begin = self.random.randint(0, len(text))
            end = min(len(text), begin + self.random.choice((0, 0, 1, 3, 10)))
            text = text[:begin] + self._piece(text, others) + text[end:]
        return text[:_BYTES_MAX]

    def message(self, message: Message) -> Message:
        """Return a copy of a message with one to three changed fields, at any depth."""
        changed = type(message)()
        changed.CopyFrom(message)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._change_field(changed)
        return changed

    def batch(self, frame: bytes) -> bytes:
        """Return a changed batch. Half of them have the right checksum, so that more is read."""
        changed = bytearray(self.data(frame))
        if self.chance(0.3) and len(changed) >= HEADER_BYTES:
            at = self.random.randrange(CHECKED_FROM, HEADER_BYTES - 4)
            changed[at : at + 4] = self._number(4)
        if self.chance(0.7) and len(changed) > CHECKED_FROM:
            changed[:4] = frame[:4]
            checksum = google_crc32c.value(bytes(changed[CHECKED_FROM:]))
            changed[4:CHECKED_FROM] = checksum.to_bytes(4, "little")
        return bytes(changed)

    # -- bytes and text -----------------------------------------------------------------------

    def _change(self, data: bytearray, others: Sequence[bytes]) -> None:
        at = self.random.randint(0, len(data))
        match self.random.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << self.random.randrange(8)
            case 1 if at < len(data):
                data[at] = self.random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                data[at:at] = self.random.randbytes(self.random.choice((1, 2, 8)))
            case 3:
                del data[at : at + self.random.choice((1, 4, 100))]
            case 4:
                number = self._number(self.random.choice((1, 2, 4, 8)))
                data[at : at + len(number)] = number
            case 5 if others:
                other = self.random.choice(others)
                data[at:] = other[self.random.randint(0, len(other)) :]
            case _:
                part = data[at : at + self.random.choice((1, 8, 64))]
                data[at:at] = part * self.random.choice((1, 1, 2, 100))

    def _number(self, size: int) -> bytes:
        number = self.random.choice(NUMBERS) % (1 << 8 * size)
        return number.to_bytes(size, self.random.choice(("little", "big")))

    def _piece(self, text: str, others: Sequence[str]) -> str:
        match self.random.randrange(5):
            case 0:
                return ""
            case 1:
                return chr(self.random.choice((0, 9, 10, 34, 39, 92, 127, 0xE9, 0x2028, 0x1F600)))
            case 2:
                source = self.random.choice(others) if others else text
                begin = self.random.randint(0, len(source))
                return source[begin : begin + self.random.choice((1, 5, 30))]
            case 3:
                return self.random.choice(_WORDS) * self.random.choice((1, 1, 1, 2, 50))
            case _:
                return str(self.random.choice(NUMBERS))

    # -- messages -----------------------------------------------------------------------------

    def _change_field(self, message: Message) -> None:
        field = self._field(message)
        if field is None:
            return
        value = getattr(message, field.name)
        if hasattr(value, "items"):
            self._change_map(value)
        elif hasattr(value, "extend"):
            self._change_list(value, field)
        elif field.message_type is None:
            setattr(message, field.name, self._scalar(field, value))
        elif self.chance(0.1):
            message.ClearField(field.name)
        else:
            value.SetInParent()
            self._change_field(value)

    def _field(self, message: Message) -> Any:
        """Return the descriptor of a field, mostly of one that is set; None: there is none."""
        present = [field for field, _ in message.ListFields()]
        every = message.DESCRIPTOR.fields
        fields = present if present and self.chance(0.8) else every
        return self.random.choice(fields) if fields else None

    def _change_list(self, values: Any, field: FieldDescriptor) -> None:
        match self.random.randrange(5):
            case 0:
                del values[:]
            case 1 if len(values):
                del values[self.random.randrange(len(values))]
            case 2 if len(values):
                copies = self.random.choice((1, 2, _COPIES_MAX))
                values.extend([self.random.choice(values)] * copies)
            case _ if field.message_type is not None:
                self._change_field(self.random.choice(values) if len(values) else values.add())
            case _:
                at = self.random.randint(0, len(values))
                old = values[at] if at < len(values) else field.default_value
                values.append(self._scalar(field, type_of(field)() if old == [] else old))

    def _change_map(self, values: Any) -> None:
        name = self.random.choice([*values, self.text("name")])
        if self.chance(0.2):
            values.pop(name, None)
        elif isinstance(next(iter(values.values()), ""), str):
            values[name] = self.text(str(values.get(name, "")))

    def _scalar(self, field: FieldDescriptor, value: Any) -> Any:
        kind = field.cpp_type
        if kind in _INTEGERS:
            low, high = _INTEGERS[kind]
            near = int(value) + self.random.choice((-1, 1, -2, 2, 1000))
            return min(max(self.random.choice((*NUMBERS, near, near)), low), high)
        if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self.random.choice(_FLOATS)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return not value
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return self.random.choice((0, 1, 2, 3, 4, 5, 99, -1))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.batch(value) if value.startswith(b"QRB2") else self.data(value)
        return self.text(value)


def type_of(field: FieldDescriptor) -> type:
    """Return the type of a field without sub-fields."""
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes
    return str if field.type == FieldDescriptor.TYPE_STRING else int
