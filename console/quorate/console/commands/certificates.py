"""`quorate certificates`: an authority and certificates for trying secure connections."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from quorate.console.ui.exits import OUTPUT_KEY, say
from quorate.console.ui.output import Output, print_json
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.tls import environment_of


def certificates(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="The directory of the authority.")],
    end: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDENTITY[=HOST,…]",
            help="An end that gets a certificate, and the hosts where it serves; may be given "
            "several times.  [a, b, c, client: here]",
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Format of the command's report.")
    ] = Output.TABLE,
) -> None:
    """Make an authority and certificates, to try secure connections.

    An authority that the directory has already is used again, and files of an end are replaced. The
    key of the authority lies there unprotected: for production use an authority of your own.
    """
    from quorate.console.group.certificate_files import (
        CLIENT,
        LOCAL_HOSTS,
        CertificateFiles,
    )

    context.meta[OUTPUT_KEY] = output
    ends = dict(map(_parsed, end or ("a", "b", "c", CLIENT)))
    files = CertificateFiles(directory)
    made = {
        identity: files.issue(identity, hosts or LOCAL_HOSTS) for identity, hosts in ends.items()
    }
    if output in (Output.JSON, Output.JSONL):
        print_json({"ends": {identity: asdict(tls) for identity, tls in made.items()}})
        return
    for identity, tls in made.items():
        say(f"The variables of {identity}:")
        # On stdout, so that a script can take it.
        print(export_line(environment_of(tls)), flush=True)


def export_line(variables: dict[str, str]) -> str:
    """Return the line of a shell that sets variables; those that are empty are left out."""
    given = " ".join(f"{name}={value}" for name, value in variables.items() if value)
    return f"export {given}"


def _parsed(text: str) -> tuple[str, tuple[str, ...]]:
    identity, _, hosts = text.partition("=")
    if not identity or "/" in identity or identity.startswith("."):
        raise InvalidArgument("--end", f"{text!r} does not begin with the name of an end")
    return identity, tuple(hosts.split(",")) if hosts else ()
