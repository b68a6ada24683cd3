"""The keys that a person presses while a view is on the terminal.

The terminal is as it was once the context is left. The meaning of a key is not known here.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UP, DOWN, PAGE_UP, PAGE_DOWN = "up", "down", "page up", "page down"

_SEQUENCES = {
    b"\x1b[A": UP,
    b"\x1bOA": UP,
    b"\x1b[B": DOWN,
    b"\x1bOB": DOWN,
    b"\x1b[5~": PAGE_UP,
    b"\x1b[6~": PAGE_DOWN,
    b" ": PAGE_DOWN,
}


def keys_of(read: bytes) -> Iterator[str]:
    """Yield the keys in what a terminal sent: names of special keys, and characters."""
    while read:
        for sequence, key in _SEQUENCES.items():
            if read.startswith(sequence):
                yield key
                read = read[len(sequence) :]
                break
        else:
            if read[:1] != b"\x1b":
                yield read[:1].decode("latin-1")
                read = read[1:]
            else:
                return  # a key that nothing here knows: the rest belongs to it


@contextmanager
def pressed(on_key: Callable[[str], None]) -> Iterator[None]:
    """Call on_key for each key while the context lasts; on the event loop. No terminal: never."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        for key in keys_of(os.read(terminal, 1024)):
            on_key(key)

    # Ctrl-C still sends a signal. It also drops the keys before it, so a read must never wait.
    tty.setcbreak(terminal)
    settings = termios.tcgetattr(terminal)
    settings[6][termios.VMIN] = 0
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
