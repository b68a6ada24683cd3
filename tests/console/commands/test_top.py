"""`quorate top` as a user has it: on a terminal, in a pipe, and its end by key and by signal."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.console.commands.test_repair import Group, group
from tests.console.terminal import ENTERED, LEFT, Terminal

from quorate.console.ui.keys import DOWN, PAGE_DOWN, PAGE_UP, UP

__all__ = ["group"]

pytestmark = pytest.mark.processes

COLOUR = re.compile(rb"\x1b\[(?:\d+;)*3[1-6]m")
MOVES = {UP: b"\x1b[A", DOWN: b"\x1b[B", PAGE_UP: b"\x1b[5~", PAGE_DOWN: b"\x1b[6~"}


async def test_one_frame_in_a_pipe(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49)
    result = await group.quorate("top", "--once", "--interval", "0.1")
    assert result.code == 0, result.err
    assert "quorate top  healthy" in result.out
    for title in ("Stores", "Sources"):
        assert re.search(rf"^{title} +$", result.out, re.M)
    assert re.search(r"^  s1 +ok +0\.0 ", result.out, re.M)
    assert re.search(r"^  orders +0x10 +away +0\.0 ", result.out, re.M)
    assert "Subscribers: none" in result.out
    assert "\x1b" not in result.out
    result = await group.quorate("top", "--once", "--stores", f"{group.stores},s3=127.0.0.1:9")
    assert "UNHEALTHY" in result.out
    assert "CRITICAL  Store s3 at 127.0.0.1:9 gives no status" in result.out


async def test_where_there_is_no_terminal_and_where_no_store_answers(group: Group) -> None:
    result = await group.quorate("top")
    assert result.code == 2
    assert "--once" in result.err
    assert (await group.quorate("top", "--once", "--stores", "s3=127.0.0.1:9")).code == 69


def watch(stores: str, ending: bytes, **environment: str) -> bytes:
    """Watch on a small terminal, move to the end of the view, and end it; what was shown."""
    arguments = ("top", "--interval", "0.2", "--stores", stores)
    with Terminal(*arguments, lines=8, columns=40, **environment) as terminal:
        terminal.wait_for(ENTERED)
        seen = terminal.wait_for(b"messages/s")
        for key in (DOWN, DOWN, PAGE_UP, PAGE_DOWN, PAGE_DOWN):
            terminal.press(MOVES[key])
        seen += terminal.wait_for(b"Subscribers: none")
        terminal.press(ending)
        assert terminal.wait() == 0
        assert LEFT in terminal.shown
        assert terminal.settings == terminal.before
        return seen


async def test_a_person_moves_about_and_ends_it_by_a_key(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49)
    assert COLOUR.search(await asyncio.to_thread(watch, group.stores, b"q"))


async def test_it_does_without_colour_and_ends_by_ctrl_c(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49)
    assert not COLOUR.search(await asyncio.to_thread(watch, group.stores, b"\x03", NO_COLOR="1"))
