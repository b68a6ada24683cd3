"""Messages come out of the stream whole, however it is cut into pieces."""

import os
import struct

import pytest

from quorate.console.framed_input import Format, Splitter, read_messages
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import MESSAGE_BYTES_MAX

MESSAGES = [b"one", b"", b"three\r", b"\xff\x00", b"x" * 300]
PREFIXED = b"".join(struct.pack(">I", len(each)) + each for each in MESSAGES)
LINES = b"\n".join(MESSAGES)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("form", "stream"), [(Format.LINES, LINES), (Format.LENGTH_PREFIXED, PREFIXED)]
)
def test_any_pieces_give_the_same_messages(form: Format, stream: bytes, size: int) -> None:
    splitter = Splitter(form)
    found: list[bytes] = []
    for at in range(0, len(stream), size):
        found += splitter.feed(stream[at : at + size])
    assert found + splitter.end() == MESSAGES


def test_a_last_newline_ends_the_last_line_and_begins_none() -> None:
    splitter = Splitter(Format.LINES)
    assert splitter.feed(b"a\nb\n") == [b"a", b"b"]
    assert splitter.end() == []


def test_a_message_that_is_cut_short_is_an_error() -> None:
    splitter = Splitter(Format.LENGTH_PREFIXED)
    splitter.feed(PREFIXED[:-1])
    with pytest.raises(InvalidArgument, match="ends within a message"):
        splitter.end()


def test_an_absurd_length_is_an_error_at_once() -> None:
    with pytest.raises(InvalidArgument, match="big-endian"):
        Splitter(Format.LENGTH_PREFIXED).feed(struct.pack(">I", MESSAGE_BYTES_MAX + 1))


async def test_what_is_there_is_given_before_the_stream_ends() -> None:
    reading, writing = os.pipe()
    try:
        messages = read_messages(reading, Format.LINES)
        os.write(writing, b"first\nsec")
        assert await anext(messages) == [b"first"]
        os.write(writing, b"ond\n")
        assert await anext(messages) == [b"second"]
        os.write(writing, b"rest")
        os.close(writing)
        assert await anext(messages) == [b"rest"]
        with pytest.raises(StopAsyncIteration):
            await anext(messages)
    finally:
        os.close(reading)
