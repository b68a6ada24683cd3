"""Signals stop a command cleanly."""

import asyncio
import os
import signal

import pytest
import typer

from quorate.console.ui.running import run


async def interrupted(number: int) -> None:
    os.kill(os.getpid(), number)
    await asyncio.Event().wait()


def test_what_main_returns() -> None:
    async def main() -> int:
        return 7

    assert run(main) == 7


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_its_exit_code(number: int, code: int) -> None:
    with pytest.raises(typer.Exit) as ended:
        run(lambda: interrupted(number))
    assert ended.value.exit_code == code


def test_a_main_that_cleans_up_and_returns_is_done() -> None:
    async def main() -> str:
        try:
            await interrupted(signal.SIGINT)
        except asyncio.CancelledError:
            return "cleaned up"
        return "never"

    assert run(main) == "cleaned up"


def test_errors_pass_through() -> None:
    async def main() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(main)


def test_a_long_result_is_not_written_out() -> None:
    """`asyncio.run` writes out the result of its task when it puts the handler of SIGINT back."""

    class Long:
        def __repr__(self) -> str:
            raise AssertionError("it takes seconds to write that out")

    async def main() -> Long:
        return Long()

    assert isinstance(run(main), Long)
