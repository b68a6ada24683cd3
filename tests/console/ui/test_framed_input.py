"""Messages come out of the stream whole, however it is cut into pieces."""

import asyncio
import os
import struct
import threading
from pathlib import Path

import pytest

from quorate.console.ui.framed_input import (
    Format,
    Splitter,
    read_messages,
)
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.limits import MESSAGE_BYTES_USUAL

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
        Splitter(Format.LENGTH_PREFIXED).feed(struct.pack(">I", MESSAGE_BYTES_USUAL + 1))


@pytest.mark.parametrize("form", list(Format))
def test_a_large_message_comes_in_many_pieces(form: Format) -> None:
    large = b"x" * (5 * MESSAGE_BYTES_USUAL)
    stream = large + b"\n" if form is Format.LINES else struct.pack(">I", len(large)) + large
    splitter = Splitter(form, len(large))
    found = [
        message
        for at in range(0, len(stream), 100_000)
        for message in splitter.feed(stream[at : at + 100_000])
    ]
    assert found == [large]
    assert splitter.end() == []


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = Splitter(Format.LINES)
    assert splitter.feed(b"whole\n" + b"x" * MESSAGE_BYTES_USUAL) == [b"whole"]
    assert splitter.feed(b"x") == []
    with pytest.raises(
        MessageTooLarge, match=f"has more bytes than the limit of {MESSAGE_BYTES_USUAL:,}"
    ):
        splitter.feed(b"x")


def test_a_reader_who_gives_up_leaves_no_thread_complaining(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"line\n" * 1_000_000)

    async def take_one() -> None:
        with big.open("rb") as file:
            assert await anext(read_messages(file.fileno(), Format.LINES))
            # Until the thread waits for room in the queue.
            await asyncio.sleep(0.1)

    # The test runner makes an error out of an exception that ends a thread.
    asyncio.run(take_one())
    for thread in threading.enumerate():
        if thread.name == "quorate-input":
            thread.join(5)
            assert not thread.is_alive()


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
