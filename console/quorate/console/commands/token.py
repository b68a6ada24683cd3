"""`quorate token`: the tokens of identities, in a file that a store reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quorate.console.ui.exits import say
from quorate.disk.files import replace_file
from quorate.protocol.errors import InvalidArgument

token = typer.Typer(
    help="Give an identity a token, or take it away.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

TokensFile = Annotated[
    Path, typer.Argument(help="The file that `tokens` in the [tls] of a store names.")
]
Identity = Annotated[str, typer.Argument(help="The identity, as access rules name it.")]


@token.command()
def add(file: TokensFile, identity: Identity) -> None:
    """Print a new token of an identity. The file gets only its hash; running stores read it.

    The identity keeps the tokens that it has, so that clients can change to the new one.
    """
    from quorate.transport.identities import hash_of, new_token

    if not identity or identity.startswith("#") or len(identity.split()) != 1:
        raise InvalidArgument("IDENTITY", f"{identity!r} is not one word")
    made = new_token()
    _write(file, [*_lines(file), f"{identity} {hash_of(made)}"])
    # On stdout, so that a script can take it.
    print(made, flush=True)
    say(f"{file} has the hash of the token. The token itself is shown only here.")


@token.command()
def remove(file: TokensFile, identity: Identity) -> None:
    """Take all tokens of an identity away. Running stores refuse its next calls."""
    lines = _lines(file)
    kept = [line for line in lines if line.split()[:1] != [identity]]
    if kept == lines:
        raise InvalidArgument("IDENTITY", f"{identity} has no token in {file}")
    _write(file, kept)
    say(f"{identity} has no token any more.")


def _lines(file: Path) -> list[str]:
    from quorate.transport.identities import read_tokens

    if not file.exists():
        return []
    read_tokens(str(file))
    return file.read_text().splitlines()


def _write(file: Path, lines: list[str]) -> None:
    """Replace the file as a whole, so that a store never reads half of it."""
    replace_file(file, "".join(f"{line}\n" for line in lines).encode(), mode=0o600)
