"""`quorate store`: run a store in the foreground, or check and describe its configuration."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from quorate.console.commands.aside import aside
from quorate.console.commands.backup import backup, restore
from quorate.console.commands.change_stores import add, remove, replace
from quorate.console.commands.dump import dump
from quorate.console.commands.readmit import readmit
from quorate.console.ui.exits import (
    OUTPUT_KEY,
    TLS_KEY,
    say,
)
from quorate.console.ui.log_lines import log_to_stderr
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

MonitorListen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The address of its page, health and metrics over HTTP. Overrides the file.",
    ),
]


GroupStores = Annotated[
    str | None,
    typer.Option(
        "--stores",
        metavar="NAME=HOST:PORT,…",
        help="The stores of its group, for queues. Overrides the file.",
    ),
]
QueueNames = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        metavar="TOPIC",
        help="A queue over this topic, of the same name; may be given several times. Overrides the "
        "file, where a queue has further settings.",
    ),
]
KeyedTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--keys",
        metavar="TOPIC",
        help="A topic whose last message of each key is kept for `quorate state`; may be given "
        "several times. Overrides the [[topic]] entries of the file.",
    ),
]


def read_configuration(
    context: typer.Context,
    path: Path | None,
    *,
    peer: list[str] | None = None,
    no_peers: bool = False,
    monitor: str | None = None,
    **overrides: Any,
) -> Any:
    """Return the configuration in a file, which flags and variables override.

    overrides: the values of further flags, by the keys of the file. None: the flag is not given.
    """
    from quorate.protocol.tls import table_of_environment
    from quorate.store.configuration import load

    given = {key: value for key, value in overrides.items() if value is not None}
    if peer or no_peers:
        given["peers"] = [] if no_peers else peer
    if monitor is not None:
        given["monitor"] = {"listen": monitor}
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
    monitor: MonitorListen = None,
    stores: GroupStores = None,
    queue: QueueNames = None,
    keys: KeyedTopics = None,
    output: OutputFormat = Output.TABLE,
    stop_with_parent: Annotated[
        bool, typer.Option("--stop-with-parent", hidden=True, help="Stop when stdin ends.")
    ] = False,
) -> None:
    """Run a store until SIGINT or SIGTERM; a second signal stops it at once."""
    context.meta[OUTPUT_KEY] = output
    configuration = read_configuration(
        context,
        config,
        name=name,
        listen=listen,
        advertise=advertise,
        data_directory=data_directory,
        peer=peer,
        no_peers=no_peers,
        durability=durability,
        monitor=monitor,
        stores=stores,
        queue=named_queues(queue),
        topic=keyed_topics(keys),
    )
    if stop_with_parent:
        threading.Thread(target=_stop_when_stdin_ends, daemon=True).start()
    serve(configuration, output)


def serve(configuration: Any, output: Output) -> None:
    """Run the store in this process until a signal stops it."""
    from quorate.store.node import run as run_node

    def ready(address: str) -> None:
        if output in (Output.JSON, Output.JSONL):
            print(json.dumps({"store": configuration.name, "address": address}), flush=True)
        else:
            say(f"Store {configuration.name} serves {address}. Ctrl-C stops it.")

    log_to_stderr(configuration.log_format)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_news)
    run_node(configuration, on_ready=ready, beside=queues_of(configuration))


def named_queues(names: list[str] | None) -> list[dict[str, Any]] | None:
    """Return a queue over each of the topics, of the same name; None: no topic is given."""
    return [{"name": topic, "topics": [topic]} for topic in names or ()] or None


def keyed_topics(names: list[str] | None) -> list[dict[str, Any]] | None:
    """Return settings that make keys of the keys of messages; None: no topic is given."""
    from quorate.protocol.keying import KEY
    from quorate.protocol.patterns import pattern_of

    return [{"pattern": pattern_of([topic]), "keys": KEY} for topic in names or ()] or None


def queues_of(configuration: Any) -> Any:
    """Return the queues that the store has; None: it has none."""
    if not configuration.queue:
        return None
    from quorate.queue.beside import Queues

    return Queues(
        [each.settings for each in configuration.queue],
        configuration.stores,
        configuration.name,
        None if configuration.tls is None else configuration.tls.files,
    )


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
    configuration = read_configuration(context, config, name=name, data_directory=data_directory)
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
    configuration = read_configuration(context, config)
    check_files_of(configuration)
    queues_of(configuration)
    if output in (Output.JSON, Output.JSONL):
        print_json(configuration.model_dump(mode="json"))
    else:
        say(f"{config} is valid.")


def check_files_of(configuration: Any) -> None:
    """Raise ConfigurationInvalid if a file of TLS that the configuration names is unusable."""
    if configuration.tls is not None:
        from quorate.transport.credentials import check_files

        check_files(configuration.tls.files)


store.command("add", short_help="Add a store to a group, step by step.")(add)
store.command("remove", short_help="Remove a store from a group, step by step.")(remove)
store.command("replace", short_help="Replace a store that moved, or lost its disk.")(replace)
store.command("backup", short_help="Copy all stores to a directory, while they run.")(backup)
store.command("restore", short_help="Make a store's data directory from a backup.")(restore)
store.command("readmit", short_help="End the limbo of a store whose peers cannot fill it.")(readmit)
store.command("dump", short_help="Show what a stopped store has.")(dump)
store.command("aside", short_help="Show what a stopped store has set aside.")(aside)


@store.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    from quorate.store.configuration import schema as configuration_schema

    print_json(configuration_schema())
