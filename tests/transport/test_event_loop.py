"""The event loop of Quorate's own programs, with uvloop and without it."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from quorate.transport import event_loop
from quorate.transport.blocking import run_blocking


async def kind() -> str:
    """The package of the loop that runs now."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_programs_run_on_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop", reason="the extra fast is not installed")
    assert event_loop.run(kind()) == "uvloop"
    assert run_blocking(kind()) == "uvloop"


def test_programs_run_on_the_loop_of_asyncio_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(kind()) == "asyncio"


@pytest.mark.parametrize("installed", [True, False])
def test_a_signal_and_a_child_process(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    if installed:
        pytest.importorskip("uvloop", reason="the extra fast is not installed")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)

    async def main() -> tuple[bytes, int]:
        loop = asyncio.get_running_loop()
        came = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, came.set)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "import os; os.kill(os.getppid(), 15); print('sent')"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate()
        await came.wait()
        loop.remove_signal_handler(signal.SIGTERM)
        return output, await child.wait()

    assert event_loop.run(main()) == (b"sent\n", 0)
