"""The bytes that a terminal sends for a key, and the terminal after the program."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import sys
import termios

import pytest

from quorate.console.ui.keys import DOWN, PAGE_DOWN, PAGE_UP, UP, keys_of, pressed


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", [UP, DOWN]),
        (b"\x1bOA\x1bOB", [UP, DOWN]),
        (b"\x1b[5~\x1b[6~ ", [PAGE_UP, PAGE_DOWN, PAGE_DOWN]),
        (b"x\x1b[Bq", ["x", DOWN, "q"]),
        (b"\x1b[24~q", []),
        (b"\xff", ["\xff"]),
        (b"", []),
    ],
)
def test_keys(read: bytes, keys: list[str]) -> None:
    assert list(keys_of(read)) == keys


@pytest.mark.timeout(20)
async def test_keys_come_one_by_one_and_no_read_waits_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    person, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    keys: asyncio.Queue[str] = asyncio.Queue()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pressed(keys.put_nowait):
            os.write(person, b"\x1b[Bq")
            assert [await keys.get(), await keys.get()] == [DOWN, "q"]
            os.write(person, b"x")
            assert select.select([terminal], [], [], 10)[0]
            termios.tcflush(terminal, termios.TCIFLUSH)  # as Ctrl-C does
            assert os.read(terminal, 1) == b""
        assert termios.tcgetattr(terminal) == before
    os.close(person)


def test_where_there_is_no_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pressed(pytest.fail):
            pass
