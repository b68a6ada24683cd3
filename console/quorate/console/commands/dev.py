"""`quorate dev`: a group of stores on this machine, each in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from quorate.console.commands.certificates import export_line
from quorate.console.group.children import StoreChild, founded, others
from quorate.console.group.ports import free_addresses
from quorate.console.ui.exits import say
from quorate.console.ui.running import run
from quorate.protocol.errors import InvalidArgument, StoreNotReady
from quorate.protocol.exit_codes import FAILED
from quorate.protocol.tls import Tls, environment_of, tls_of_environment

_PAGE_PORTS = 80
"""The distance from the port of a store to that of its page."""
_NAMES = "abcdefghi"
"""The names of the stores. A store that has a name may move to another address."""


def dev(
    stores: Annotated[int, typer.Option(min=1, max=len(_NAMES), help="The number of stores.")] = 3,
    data_directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The directory of the stores, kept between runs.  [a temporary one]"
        ),
    ] = None,
    base_port: Annotated[
        int,
        typer.Option(min=0, max=65000, help="The port of the first store; 0 takes any free ports."),
    ] = 7301,
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Secure connections, with certificates that are made for it."),
    ] = False,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="A queue over this topic, of the same name; may be given several times.",
        ),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Keep the last message of each key of this topic, for `quorate state`; may be "
            "given several times.",
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Serve a live page of the group, also with metrics.")
    ] = False,
) -> None:
    """Run a group of stores on this machine until Ctrl-C, to try things out.

    The command prints the line that tells `quorate send`, `receive` and `status` where the stores
    are. With --data-directory the stores go on with what they had.
    """
    kept = data_directory is not None
    with ExitStack() as stack:
        if data_directory is None:
            # Files that a killed store leaves behind must not hide how it ended.
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
        os.environ.update(environment_of(None))
        named = dict(zip(_NAMES, addresses, strict=False))
        made = _certificates(data_directory / "tls", named) if tls else {}
        pages = dict(zip(named, _pages(base_port, stores) if page else (), strict=False))
        queues = [f"--queue={topic}" for topic in queue or ()]
        if queues:
            queues.append(f"--stores={_as_text(named)}")
        keyed = [f"--keys={topic}" for topic in keys or ()]
        group = [
            StoreChild(
                name,
                data_directory / name,
                address,
                others(addresses, address),
                *([f"--monitor={pages[name]}"] if page else ()),
                *queues,
                *keyed,
                tls=made.get(name),
            )
            for name, address in named.items()
        ]
        end = "Ctrl-C stops all stores; their data stays in " + str(data_directory)
        if not kept:
            end = "Ctrl-C stops all stores and removes their data (--data-directory keeps it)"
        try:
            signalled = run(lambda: _serve(group, pages.values(), end))
        except InvalidArgument as error:
            if error.argument != "listen" or not base_port:
                raise
            # The option has another name in this command.
            detail = f"{error.detail}, or use --base-port 0 for any free ports"
            raise InvalidArgument("--base-port", detail) from None
        except StoreNotReady as error:
            if kept:
                raise
            gone = "already removed; --data-directory DIR keeps it"
            raise StoreNotReady(error.store, error.detail, gone) from None
        if not signalled:
            raise typer.Exit(FAILED)


def _certificates(directory: Path, stores: Iterable[str]) -> dict[str, Tls]:
    # Imported here, because it needs an extra.
    from quorate.console.group.certificate_files import for_local_group

    return for_local_group(directory, stores)


def _pages(base_port: int, stores: int) -> list[str]:
    """Return the addresses of the pages of the stores."""
    if not base_port:
        return free_addresses(stores)
    return [f"127.0.0.1:{base_port + _PAGE_PORTS + number}" for number in range(stores)]


async def _serve(group: list[StoreChild], pages: Iterable[str], end: str) -> bool:
    """Serve until a signal comes or no store is left; return whether it was a signal."""
    try:
        await asyncio.gather(*(child.start() for child in group))
        try:
            await founded(group)
        except StoreNotReady as error:
            say(str(error), style="bold red")
        _announce(group, pages, end)
        await asyncio.gather(*(_notice_end(child) for child in group))
        return False
    except asyncio.CancelledError:
        say("Stopping. A second Ctrl-C stops at once.")
        return True
    finally:
        await _stop(group)


def _announce(group: list[StoreChild], pages: Iterable[str], end: str) -> None:
    for child in group:
        say(f"Store {child.name} serves {child.address} (process {child.pid}, log {child.log}).")
    secure = tls_of_environment(os.environ)
    scheme = "http" if secure is None else "https"
    for address in pages:
        say(f"A live page of the group is at {scheme}://{address}/")
    say("Run this line first in another terminal; quorate send, receive, status then find them:")
    named = _as_text({child.name: child.address for child in group})
    # On stdout, so that a script can take it.
    variables = {} if secure is None else environment_of(secure)
    print(export_line({"QUORATE_STORES": named, **variables}), flush=True)
    say(f"{end}.")


def _as_text(stores: Mapping[str, str]) -> str:
    """Return the stores as clients name them. stores: the address of each, by name."""
    return ",".join(f"{name}={address}" for name, address in stores.items())


async def _notice_end(child: StoreChild) -> None:
    code = await child.wait()
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    say(
        f"Store {child.name} has ended ({how}): {child.last_words().rstrip('.')}.", style="bold red"
    )
    say(f"This starts it again in another terminal, until Ctrl-C there: {child.command}")


async def _stop(group: list[StoreChild]) -> None:
    async def stop(child: StoreChild) -> None:
        code = await child.stop()
        # A store that is still starting does not handle the signal yet: it ends by it.
        good = code in (0, -signal.SIGTERM)
        say(f"Store {child.name} stopped" + ("." if good else f" with exit code {code}."))

    await asyncio.gather(*(stop(child) for child in group if child.running))
