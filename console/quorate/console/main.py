"""The `quorate` command: its sub-commands by name, each loaded only when it is called.

Each sub-command is a module of its own. Nothing here imports gRPC, RocksDB or pydantic, so that
`quorate --help` and shell completion are instant.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
import typer.core
import typer.main

from quorate.console.ui.exits import (
    TLS_KEY,
    report,
    say,
)
from quorate.console.ui.help import GroupedCommand
from quorate.console.ui.settings import check_variables
from quorate.protocol.errors import QuorateError
from quorate.protocol.exit_codes import FAILED


@dataclass(frozen=True, slots=True)
class Lazy:
    """The place of a sub-command, and its line in the help."""

    module: str
    attribute: str
    summary: str
    kind: type[typer.core.TyperCommand] = typer.core.TyperCommand


COMMANDS = {
    "demo": Lazy(
        "quorate.console.demo.command",
        "demo",
        "Stream real data through failures, and verify the result.",
    ),
    "dev": Lazy("quorate.console.commands.dev", "dev", "Run a group of stores on this machine."),
    "send": Lazy(
        "quorate.console.commands.send",
        "send",
        "Send messages from a file or from stdin.",
        GroupedCommand,
    ),
    "receive": Lazy(
        "quorate.console.commands.receive",
        "receive",
        "Print the messages of a topic.",
        GroupedCommand,
    ),
    "replay": Lazy(
        "quorate.console.commands.replay",
        "replay",
        "Print what the stores recorded, from a point on.",
        GroupedCommand,
    ),
    "state": Lazy(
        "quorate.console.commands.state",
        "state",
        "Query, watch and delete the last message of each key of a topic.",
    ),
    "queue": Lazy(
        "quorate.console.commands.queue",
        "queue",
        "Show queues, and take their jobs.",
    ),
    "status": Lazy(
        "quorate.console.commands.status",
        "status",
        "Show stores, sources and receivers, and any problems.",
    ),
    "check": Lazy(
        "quorate.console.commands.check",
        "check",
        "Show everything that is wrong, and the next step.",
    ),
    "top": Lazy("quorate.console.commands.top", "top", "Watch a group live in the terminal."),
    "topics": Lazy("quorate.console.commands.listing", "topics", "List the topics of all stores."),
    "sources": Lazy(
        "quorate.console.commands.listing",
        "sources",
        "List the sources of all stores, with their applications.",
    ),
    "receivers": Lazy(
        "quorate.console.commands.listing", "receivers", "List the receivers of all sources."
    ),
    "subscribers": Lazy(
        "quorate.console.commands.listing",
        "subscribers",
        "List the subscriptions that run at the stores.",
    ),
    "journal": Lazy(
        "quorate.console.commands.journal",
        "journal",
        "Show what each store has recorded and who reads it; remove what is old.",
    ),
    "repair": Lazy(
        "quorate.console.commands.repair",
        "repair",
        "Fill what stores lack from their peers.",
    ),
    "conflict": Lazy(
        "quorate.console.commands.conflict",
        "conflict",
        "Settle a conflict between stores that differ.",
    ),
    "poison": Lazy(
        "quorate.console.commands.poison",
        "poison",
        "Mark messages that must not be delivered.",
    ),
    "loss": Lazy("quorate.console.commands.loss", "loss", "Accept that messages are lost."),
    "deregister": Lazy(
        "quorate.console.commands.deregister",
        "deregister",
        "End a source or a receiver on every store.",
    ),
    "archive": Lazy(
        "quorate.console.commands.archive",
        "archive",
        "Write stable messages from the stores to Parquet.",
    ),
    "restore": Lazy(
        "quorate.console.commands.archive", "restore", "Refill stores from an archive."
    ),
    "audit": Lazy(
        "quorate.console.commands.audit",
        "audit",
        "Compare all stores, and prove that nothing is lost.",
    ),
    "backtest": Lazy(
        "quorate.console.commands.backtest",
        "backtest",
        "Replay past messages to a topic or to a function.",
    ),
    "stats": Lazy(
        "quorate.console.commands.stats",
        "stats",
        "Show rates, sizes and gaps of the stored messages.",
    ),
    "store": Lazy(
        "quorate.console.commands.store",
        "store",
        "Run a store, check its configuration, or readmit it.",
    ),
    "generate": Lazy(
        "quorate.console.commands.generate",
        "generate",
        "Print alerts and a dashboard for the systems that watch the stores.",
    ),
    "certificates": Lazy(
        "quorate.console.commands.certificates",
        "certificates",
        "Make certificates to try secure connections.",
    ),
    "token": Lazy(
        "quorate.console.commands.token",
        "token",
        "Give an identity a token, or take it away.",
    ),
    "bench": Lazy(
        "quorate.console.bench", "bench", "Measure throughput and latency on this machine."
    ),
}


EXTRAS = {
    "cryptography": "certificates",
    "rocksdict": "store",
    "pydantic": "store",
    "tomli_w": "store",
    "psutil": "bench",
    "pyspark": "spark",
    "pyarrow": "archive",
    "pandas": "spark",
    "matplotlib": "plot",
}
"""The extra of the distribution that brings each module."""


def load(name: str) -> Any:
    """Import a sub-command: a typer application, or a function that becomes a command."""
    lazy = COMMANDS[name]
    found = getattr(importlib.import_module(lazy.module), lazy.attribute)
    application = found
    if not isinstance(found, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name, cls=lazy.kind)(found)
    command = typer.main.get_command(application)
    command.name = name
    return command


@contextmanager
def errors_as_exit_codes(meta: Mapping[str, Any]) -> Iterator[None]:
    """Check the environment, and end the command with the exit code of an error.

    Errors become exit codes here, and nowhere else.
    """
    try:
        check_variables(os.environ)
        yield
        sys.stdout.flush()
    except QuorateError as error:
        raise typer.Exit(report(error, meta)) from error
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(module)
        if extra is None:
            raise
        say(
            f"This command needs {module}, which is not installed. Run this in the "
            f"directory of Quorate: pip install '.[{extra}]'.",
            style="bold red",
            label="error",
        )
        raise typer.Exit(FAILED) from error
    except BrokenPipeError:
        raise  # the reader of the output has left: no error
    except OSError as error:
        say(f"{error}.", style="bold red", label="error")
        _give_up_output()
        raise typer.Exit(FAILED) from error


def _give_up_output() -> None:
    """Drop what cannot be printed. Python would try again at its end, and complain in its words."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Commands(typer.core.TyperGroup):
    """The group of all sub-commands, which loads one when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, load(name) if name and stand_in else None, rest

    def invoke(self, ctx: Any) -> Any:
        with errors_as_exit_codes(ctx.meta):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    help="Brokerless, quorum-persistent messaging.\n\n"
    "To begin, see `quorate demo`. Or run `quorate dev` in one terminal, and `quorate send` and "
    "`quorate receive` in others.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 10 unhealthy, 69 unreachable, "
    "75 outcome unknown, 77 denied, 78 configuration, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def show_version(wanted: bool) -> None:
    """Print the version and end the command, if that is wanted."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"quorate {version('quorate')}")
        raise typer.Exit


def _tls_option(key: str, text: str, metavar: str = "FILE") -> Any:
    return typer.Option(
        None,
        f"--tls-{key}",
        metavar=metavar,
        rich_help_panel="Secure connections",
        help=f"{text}  [QUORATE_TLS_{key.upper()}, or the configuration file]",
    )


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=show_version, is_eager=True, help="Show the version."
    ),
    tls_ca: str | None = _tls_option("ca", "The authorities that make certificates."),
    tls_certificate: str | None = _tls_option("certificate", "The certificate of this end."),
    tls_key: str | None = _tls_option("key", "The private key of the certificate."),
    tls_token: str | None = _tls_option("token", "The file of the token of this end."),
    tls_receivers: str | None = _tls_option(
        "receivers", "The identities that the sources of this end serve.", "NAME,…"
    ),
) -> None:
    del version  # its callback has shown it
    flags = {
        "ca": tls_ca,
        "certificate": tls_certificate,
        "key": tls_key,
        "token": tls_token,
        "receivers": tls_receivers,
    }
    if table := {key: value for key, value in flags.items() if value is not None}:
        context.meta[TLS_KEY] = table


def _stand_in() -> None:
    raise AssertionError("the command itself is loaded before it is invoked")


for _name, _lazy in COMMANDS.items():
    app.command(_name, help=_lazy.summary)(_stand_in)


def main() -> None:
    """Run the command."""
    app(prog_name="quorate")


if __name__ == "__main__":
    main()
