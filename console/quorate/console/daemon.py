"""`quorated`: a store under its Unix name, as a service manager or a container starts it.

It is `quorate store run` with the file as its argument. Nothing of a store is done here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from quorate.console.commands.store import (
    Advertise,
    DataDirectory,
    Durability,
    GroupStores,
    KeyedTopics,
    Listen,
    MonitorListen,
    Name,
    NoPeers,
    OutputFormat,
    Peers,
    QueueNames,
    check_files_of,
    keyed_topics,
    named_queues,
    read_configuration,
    serve,
)
from quorate.console.main import errors_as_exit_codes, show_version
from quorate.console.ui.exits import OUTPUT_KEY, say
from quorate.console.ui.output import Output


class Daemon(typer.core.TyperCommand):
    """The command, whose errors become exit codes."""

    def invoke(self, ctx: Any) -> Any:
        with errors_as_exit_codes(ctx.meta):
            return super().invoke(ctx)


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.command(
    cls=Daemon,
    epilog="Exit codes: 0 stopped by a signal, 1 failed, 2 usage, 78 configuration.",
)
def daemon(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration file, TOML.")],
    validate: Annotated[
        bool, typer.Option("--validate", help="Check the configuration, and start nothing.")
    ] = False,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print the configuration with all its defaults, as TOML, and start nothing.",
        ),
    ] = False,
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
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Run a store until SIGINT or SIGTERM; a second signal stops it at once.

    Stores that differ only in their names and addresses may share one file: the options give each
    store its own.
    """
    del version  # its callback has shown it
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
    if validate or print_config:
        check_files_of(configuration)
    if validate:
        say(f"{config} is valid.")
    if print_config:
        from quorate.store.configuration import as_toml

        typer.echo(as_toml(configuration), nl=False)
    if not (validate or print_config):
        serve(configuration, output)


def main() -> None:
    """Run the command."""
    app(prog_name="quorated")


if __name__ == "__main__":
    main()
