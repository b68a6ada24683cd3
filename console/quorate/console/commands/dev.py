"""`quorate dev`: a group of stores on this machine, each in a process of its own."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from quorate.console.group.children import (
    StoreChild,
    founded,
    free_addresses,
    others,
)
from quorate.console.ui.exits import say
from quorate.console.ui.running import run
from quorate.protocol.errors import InvalidArgument, StoreNotReady
from quorate.protocol.exit_codes import FAILED


def dev(
    stores: Annotated[int, typer.Option(min=1, max=9, help="How many stores.")] = 3,
    data_directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Kept between runs; else a temporary one is removed."),
    ] = None,
    base_port: Annotated[
        int, typer.Option(min=0, max=65000, help="Of the first store; 0 takes any free ports.")
    ] = 7301,
) -> None:
    """Run a local group of stores until Ctrl-C."""
    kept = data_directory is not None
    with ExitStack() as stack:
        if data_directory is None:
            # What a store that is killed at once leaves behind must not hide how it ended.
            data_directory = Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="quorate-dev-", ignore_cleanup_errors=True)
                )
            )
        data_directory.mkdir(parents=True, exist_ok=True)
        addresses = (
            [f"127.0.0.1:{base_port + number}" for number in range(stores)]
            if base_port
            else free_addresses(stores)
        )
        group = [
            StoreChild(
                f"store-{number}",
                data_directory / f"store-{number}",
                address,
                others(addresses, address),
            )
            for number, address in enumerate(addresses, 1)
        ]
        end = "Ctrl-C stops all; what they hold stays in " + str(data_directory)
        if not kept:
            end = "Ctrl-C stops all and removes what they hold (--data-directory keeps it)"
        try:
            signalled = run(lambda: _serve(group, end))
        except InvalidArgument as error:
            if error.argument != "listen" or not base_port:
                raise
            # What a store calls it is no option here.
            detail = f"{error.detail}, or let --base-port 0 take any that are free"
            raise InvalidArgument("--base-port", detail) from None
        except StoreNotReady as error:
            if kept:
                raise
            gone = "removed by now; --data-directory DIR keeps it"
            raise StoreNotReady(error.store, error.detail, gone) from None
        if not signalled:
            raise typer.Exit(FAILED)


async def _serve(group: list[StoreChild], end: str) -> bool:
    """Until a signal, or until no store is left; whether it was a signal."""
    try:
        await asyncio.gather(*(child.start() for child in group))
        try:
            await founded(group)
        except StoreNotReady as error:
            say(str(error), style="bold red")
        _announce(group, end)
        await asyncio.gather(*(_notice_end(child) for child in group))
        return False
    except asyncio.CancelledError:
        say("Stopping. Ctrl-C once more stops at once.")
        return True
    finally:
        await _stop(group)


def _announce(group: list[StoreChild], end: str) -> None:
    for child in group:
        say(f"{child.name} serves {child.address} (process {child.pid}, log {child.log})")
    say("In another terminal, this line first; then quorate send, receive, status find them:")
    # On stdout, so that a script can take it.
    print(f"export QUORATE_STORES={','.join(child.address for child in group)}", flush=True)
    say(f"{end}.")


async def _notice_end(child: StoreChild) -> None:
    code = await child.wait()
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    say(f"{child.name} has ended ({how}): {child.last_words().rstrip('.')}.", style="bold red")
    say(f"This has it back, in another terminal and until Ctrl-C there: {child.command}")


async def _stop(group: list[StoreChild]) -> None:
    async def stop(child: StoreChild) -> None:
        code = await child.stop()
        # One that is only starting does not handle the signal yet: it ends by it.
        good = code in (0, -signal.SIGTERM)
        say(f"{child.name} stopped" + ("" if good else f" with exit code {code}"))

    await asyncio.gather(*(stop(child) for child in group if child.running))
