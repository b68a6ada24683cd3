"""Messages from a byte stream: one a line, or each after its length.

Reading never waits for more than there is, so a line that a person types is sent at once.
"""

from __future__ import annotations

import asyncio
import enum
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError

from quorate.protocol.errors import UNKNOWN_SIZE, InvalidArgument, MessageTooLarge
from quorate.protocol.limits import MESSAGE_BYTES_USUAL

_READ_BYTES = 256 * 1024
_LENGTH_BYTES = 4


class Format(enum.StrEnum):
    """How messages follow each other in the stream."""

    LINES = "lines"
    LENGTH_PREFIXED = "length-prefixed"


class Splitter:
    """A splitter of a stream that comes in pieces of any size into complete messages."""

    def __init__(self, form: Format, size_max: int = MESSAGE_BYTES_USUAL) -> None:
        """size_max: the bytes of the largest message."""
        self._split = self._lines if form is Format.LINES else self._length_prefixed
        self._form = form
        self._size_max = size_max
        self._pieces: list[bytes] = []
        """The pieces that came of the next message. They are joined once: it may be large."""
        self._bytes = 0
        self._needed = 0
        """The bytes without which nothing is complete."""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the messages that this piece completes.

        Raises InvalidArgument for an impossible length, MessageTooLarge for a line without an end.
        """
        return list(self._split(piece))

    def end(self) -> list[bytes]:
        """Return the message that the stream ends with, if it has no line end.

        Raises InvalidArgument if a message is cut short.
        """
        rest = self._joined(b"")
        if rest and self._form is Format.LENGTH_PREFIXED:
            raise InvalidArgument("input", f"ends within a message, {len(rest)} bytes into it")
        return [rest] if rest else []

    def _lines(self, piece: bytes) -> Iterator[bytes]:
        if self._bytes > self._size_max:
            # Its end is not read.
            raise MessageTooLarge(UNKNOWN_SIZE, self._size_max, "--message-bytes-max")
        if b"\n" not in piece:
            self._keep(piece)
            return iter(())
        *whole, rest = self._joined(piece).split(b"\n")
        self._keep(rest)
        return iter(whole)

    def _length_prefixed(self, piece: bytes) -> Iterator[bytes]:
        if self._bytes + len(piece) < self._needed:
            self._keep(piece)
            return
        content = self._joined(piece)
        at, self._needed = 0, _LENGTH_BYTES
        while len(content) - at >= _LENGTH_BYTES:
            length = int.from_bytes(content[at : at + _LENGTH_BYTES], "big")
            if length > self._size_max:
                raise InvalidArgument(
                    "input",
                    f"announces a message of {length:,} bytes, more than {self._size_max:,}; "
                    "each message must follow its length as four bytes, big-endian",
                )
            end = at + _LENGTH_BYTES + length
            if end > len(content):
                self._needed = end - at
                break
            yield content[at + _LENGTH_BYTES : end]
            at = end
        self._keep(content[at:])

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._bytes += len(piece)

    def _joined(self, piece: bytes) -> bytes:
        """Return all that was kept, and this behind it. Nothing is kept any longer."""
        whole = b"".join((*self._pieces, piece))
        self._pieces, self._bytes = [], 0
        return whole


async def read_messages(
    descriptor: int, form: Format, size_max: int = MESSAGE_BYTES_USUAL
) -> AsyncIterator[list[bytes]]:
    """Yield the messages of an open file, in lists of as many as could be read at once.

    size_max: the bytes of the largest message.
    """
    splitter = Splitter(form, size_max)
    async for piece in _read(descriptor):
        if messages := splitter.feed(piece):
            yield messages
    if messages := splitter.end():
        yield messages


async def _read(descriptor: int) -> AsyncIterator[bytes]:
    """Yield pieces of the file. A thread reads, because stdin may block it for ever."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=4)

    def read() -> None:
        piece: bytes | OSError = b""
        while True:
            try:
                piece = os.read(descriptor, _READ_BYTES)
            except OSError as error:
                piece = error
            put = pieces.put(piece)
            try:
                asyncio.run_coroutine_threadsafe(put, loop).result()
            except (RuntimeError, CancelledError):
                put.close()
                return  # the loop has ended, and with it the reader
            if not piece or isinstance(piece, OSError):
                return

    # A daemon: a read that waits for a person's next line must not keep the command from ending.
    threading.Thread(target=read, name="quorate-input", daemon=True).start()
    while piece := await pieces.get():
        if isinstance(piece, OSError):
            raise InvalidArgument("input", f"cannot be read: {piece}") from piece
        yield piece
