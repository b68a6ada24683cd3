"""`quorate store`: run a store in the foreground, or check and describe its configuration."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from quorate.console.commands.aside import aside
from quorate.console.commands.readmit import readmit
from quorate.console.ui.exits import (
    OUTPUT_KEY,
    TLS_KEY,
    say,
)
from quorate.console.ui.output import (
    Output,
    print_json,
)

store = typer.Typer(
    help="Run a store, check its configuration, or readmit it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

OutputFormat = Annotated[
    Output, typer.Option("--output", "-o", help="Format of the command's report.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration file, TOML."),
]
Name = Annotated[str | None, typer.Option(help="The store's name. Overrides the file.")]
Listen = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The address where it serves. Overrides the file."),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="The address where others reach it. Overrides the file."
    ),
]
Peers = Annotated[
    list[str] | None,
    typer.Option(
        "--peer",
        metavar="HOST:PORT",
        help="Another store of its groups; give it once for each. Overrides the file.",
    ),
]
NoPeers = Annotated[
    bool, typer.Option("--no-peers", help="It is the only store of its group. Overrides the file.")
]
DataDirectory = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The directory of its data. Overrides the file.")
]
Durability = Annotated[
    str | None,
    typer.Option(
        metavar="fsync|os|memory|state-only",
        help="The durability of all topics. Overrides the file.",
    ),
]


def _configuration(context: typer.Context, path: Path | None, **overrides: Any) -> Any:
    from quorate.protocol.tls import table_of_environment
    from quorate.store.configuration import load

    given = {key: value for key, value in overrides.items() if value is not None}
    if tls := {**table_of_environment(os.environ), **context.meta.get(TLS_KEY, {})}:
        given["tls"] = tls
    return load(path, given)


@store.command(short_help="Run a store in the foreground.")
def run(
    context: typer.Context,
    config: ConfigFile = None,
    name: Name = None,
    listen: Listen = None,
    advertise: Advertise = None,
    data_directory: DataDirectory = None,
    peer: Peers = None,
    no_peers: NoPeers = False,
    durability: Durability = None,
    output: OutputFormat = Output.TABLE,
    stop_with_parent: Annotated[
        bool, typer.Option("--stop-with-parent", hidden=True, help="Stop when stdin ends.")
    ] = False,
) -> None:
    """Run a store until SIGINT or SIGTERM; a second signal stops it at once."""
    context.meta[OUTPUT_KEY] = output
    configuration = _configuration(
        context,
        config,
        name=name,
        listen=listen,
        advertise=advertise,
        data_directory=str(data_directory) if data_directory else None,
        peers=[] if no_peers else peer or None,
        durability=durability,
    )
    from quorate.store.node import run as run_node

    def ready(address: str) -> None:
        if output in (Output.JSON, Output.JSONL):
            print(json.dumps({"store": configuration.name, "address": address}), flush=True)
        else:
            say(f"Store {configuration.name} serves {address}. Ctrl-C stops it.")

    # As services and pipes expect: the log goes to stderr, times are UTC.
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_news)
    if stop_with_parent:
        threading.Thread(target=_stop_when_stdin_ends, daemon=True).start()
    run_node(configuration, on_ready=ready)


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for a client that left during its answer, which gRPC logs as an error."""
    return not record.getMessage().startswith("ExecuteBatchError raised in core")


def _stop_when_stdin_ends() -> None:
    # Not sys.stdin: a thread inside its buffer would keep the interpreter from ending.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@store.command(short_help="Make the data directory of a store.")
def init(
    context: typer.Context,
    config: ConfigFile = None,
    name: Name = None,
    data_directory: DataDirectory = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            help="Found a new group, in which there never was any data that the store could lack.",
        ),
    ] = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Make the data directory of a store, without starting it.

    Without --new its peers will fill the store, or found a group with it if they are all blank.

    With --new the store vouches at once that there were no messages before. Never use --new for a
    store that replaces another one: messages may be lost.
    """
    context.meta[OUTPUT_KEY] = output
    configuration = _configuration(
        context, config, name=name, data_directory=str(data_directory) if data_directory else None
    )
    from quorate.store.initialize import initialize

    incarnation = initialize(configuration, new)
    if output in (Output.JSON, Output.JSONL):
        print_json({"store": configuration.name, "incarnation": incarnation, "new": new})
    else:
        what = "founds a new group" if new else "asks its peers for what it lacks"
        say(f"{configuration.data_directory} is ready; store {configuration.name} {what}.")


@store.command(short_help="Check a configuration; exit 78 if it is not valid.")
def validate(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Option("--config", "-c", metavar="FILE", help="The configuration file to check."),
    ],
    output: OutputFormat = Output.TABLE,
) -> None:
    """Check a configuration. Every problem is shown with its path; exit 78 if there is one."""
    context.meta[OUTPUT_KEY] = output
    configuration = _configuration(context, config)
    if configuration.tls is not None:
        from quorate.transport.credentials import check_files

        check_files(configuration.tls.files)
    if output in (Output.JSON, Output.JSONL):
        print_json(configuration.model_dump(mode="json"))
    else:
        say(f"{config} is valid.")


store.command("readmit", short_help="End the limbo of a store whose peers cannot fill it.")(readmit)
store.command("aside", short_help="Show what a stopped store has set aside.")(aside)


@store.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    from quorate.store.configuration import schema as configuration_schema

    print_json(configuration_schema())
