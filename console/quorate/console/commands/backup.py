"""`quorate store backup` and `quorate store restore`: a whole group to a directory, and back."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.console.ui.exits import OUTPUT_KEY, say
from quorate.console.ui.options import OutputFormat, Stores
from quorate.console.ui.output import Output, people_watch, print_json, print_jsonl, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve, resolve_output
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.exit_codes import FAILED

if TYPE_CHECKING:
    from quorate.console.group.backup import Backup, Part
    from quorate.protocol.identity import StoreAddress
    from quorate.store.configuration import StoreConfiguration

_STEP = 1 << 30
"""Bytes after which the progress of a store is said again."""


def backup(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="A new directory; a mounted one, perhaps.")
    ],
    stopped: Annotated[
        list[Path] | None,
        typer.Option(
            "--stopped",
            metavar="DIR",
            help="The data directory of a stopped store, to copy in place of running ones; may be "
            "given several times.",
        ),
    ] = None,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds that a store may be silent.")
    ] = 60.0,
) -> None:
    """Copy the data directories of all stores to a directory, while the stores run.

    The stores go on meanwhile. The backup has every message that was stable when it began. Exit 1
    if it may lack one, because too few stores answered.
    """
    from quorate.console.group.backup import complete, copy_running, copy_stopped, new_directory

    telling = _Telling()
    failures: dict[str, QuorateError] = {}
    if stopped:
        form = resolve_output(context.meta, output)
        new_directory(directory)
        parts = [copy_stopped(directory, each, telling.told) for each in stopped]
    else:
        settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
        form = settings.output
        new_directory(directory)
        found = run(
            lambda: copy_running(directory, settings.stores, settings.timeout, telling.told)
        )
        parts = _parts(found)
        failures = {
            store.name: error for store, error in found.items() if isinstance(error, QuorateError)
        }
    made = complete(directory, parts)
    _show(made, failures, form, directory)
    if made.problems:
        raise typer.Exit(FAILED)


def _parts(found: dict[StoreAddress, Part | QuorateError]) -> list[Part]:
    """Return the parts. Raises the error of all stores if there is none."""
    parts = [part for part in found.values() if not isinstance(part, QuorateError)]
    if not parts:
        from quorate.console.group.status import too_few

        raise too_few("The backup", found)
    return parts


class _Telling:
    """Tells people how far each store is, now and then."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def told(self, store: str, done: int, total: int) -> None:
        """Tell the bytes that were copied of a store, and the bytes in all."""
        if done >= self._next.get(store, _STEP) and people_watch():
            self._next[store] = done + _STEP
            say(f"{store}: {done:,} of {total:,} bytes")


def _show(made: Backup, failures: dict[str, QuorateError], output: Output, path: Path) -> None:
    rows = list(made.row()["parts"])
    silent = {store: str(error) for store, error in failures.items()}
    match output:
        case Output.JSON:
            print_json({**made.row(), "failures": silent})
        case Output.JSONL:
            print_jsonl({"kind": "part", **row} for row in rows)
            print_jsonl(
                [
                    {
                        "kind": "backup",
                        "problems": made.problems,
                        "failures": silent,
                        "made": made.made,
                    }
                ]
            )
        case Output.TABLE:
            print_table("Backup", rows, empty="none")
            for store, why in silent.items():
                say(f"Store {store} is not in the backup: {why}", style="bold red")
            for problem in made.problems:
                say(problem, style="bold red")
            if not made.problems:
                say(f"{path} has every message that was stable when the backup began.", "green")


def restore(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The backup.")],
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="The store's configuration file."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The store's name. Overrides the file.")] = None,
    data_directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The directory of its data, blank. Overrides the file."),
    ] = None,
    whole_group: Annotated[
        bool,
        typer.Option(
            "--whole-group",
            help="All disks of the group are lost: the store vouches for what the backup has.",
        ),
    ] = False,
    output: OutputFormat = None,
) -> None:
    """Make the data directory of a store from its part of a backup. Start the store afterwards.

    Without --whole-group the store comes back in limbo, and its peers give it what it lacks.

    With --whole-group the group is founded anew with what the backup has. Use it for each store of
    the group, only if no disk is left. Messages behind the backup are then lost.
    """
    from quorate.console.commands.store import read_configuration
    from quorate.console.group.backup import read_manifest
    from quorate.store.put_back import put_back

    form = resolve_output(context.meta, output)
    context.meta[OUTPUT_KEY] = form
    configuration: StoreConfiguration = read_configuration(
        context, config, name=name, data_directory=data_directory
    )
    made, store = read_manifest(directory), configuration.name
    known = [part.store for part in made.parts]
    if store not in known:
        raise InvalidArgument(
            "name", f"the backup has no part of {store}; it has {', '.join(known)}"
        )
    if whole_group and made.problems:
        raise InvalidArgument("--whole-group", f"the backup is not enough: {made.problems[0]}")
    age = time.time() - datetime.fromisoformat(made.made).timestamp()
    incarnation = put_back(
        directory / store, configuration.data_directory, store, age if whole_group else None
    )
    if form in (Output.JSON, Output.JSONL):
        print_json({"store": store, "incarnation": incarnation, "made": made.made})
    else:
        what = "founds its group anew" if whole_group else "asks its peers for what it lacks"
        say(
            f"{configuration.data_directory} is as of {made.made}. Store {store} {what} once it is "
            "started."
        )
