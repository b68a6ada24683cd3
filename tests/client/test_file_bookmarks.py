"""The bookmark store in a file: real kills, and two processes of one name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import send

from quorate.client import connect

PROGRAM = Path(__file__).parent / "programs" / "with_a_file.py"
KILLS = 10
AT_ONCE = 100

pytestmark = pytest.mark.processes


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    made = RealStores(tmp_path)
    await made.start("a")
    yield made.named("a")
    await made.stop_all()


@contextmanager
def running(stores: str, file: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the program, and kill it at the end."""
    command = [sys.executable, str(PROGRAM), stores, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the lines that it prints."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line.strip()


async def test_it_goes_on_though_it_is_killed_each_time(stores: str, tmp_path: Path) -> None:
    async with connect(stores) as client:
        await send(client, 1, 0, 2 * KILLS * AT_ONCE)

    def consumed() -> list[int]:
        with running(stores, tmp_path / "risk.db") as process:
            lines = lines_of(process)
            found = [int(next(lines)) for _ in range(AT_ONCE)]
            process.kill()
            # It may have consumed more by now.
            return found + [int(line) for line in lines]

    reached = -1
    again = 0
    for _ in range(KILLS):
        found = await asyncio.to_thread(consumed)
        assert found == list(range(found[0], found[-1] + 1)), "in order, without a gap"
        assert found[0] <= reached + 1, "nothing is missed"
        again += reached + 1 - found[0]
        reached = max(reached, found[-1])
    assert reached > AT_ONCE, "it comes on"
    assert again < KILLS * AT_ONCE // 2, "it does not begin anew each time"


async def test_of_two_processes_of_one_name_the_older_one_is_told(
    stores: str, tmp_path: Path
) -> None:
    file = tmp_path / "risk.db"
    async with connect(stores) as client:
        await send(client, 1, 0, 9)
        with running(stores, file) as former:
            older = lines_of(former)
            assert await asyncio.to_thread(lambda: [next(older) for _ in range(10)])
            with running(stores, file) as latter:
                coming = asyncio.create_task(asyncio.to_thread(next, lines_of(latter)))
                ending = asyncio.create_task(asyncio.to_thread(list, older))
                number = 10
                while not (coming.done() and ending.done()):
                    await send(client, 1, number, number)
                    number += 1
                assert int(coming.result()) <= number
                assert ending.result()[-1] == "taken over"
