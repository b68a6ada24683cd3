"""The question that a command asks before an act that cannot be undone.

Scripts answer it with `--yes`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from quorate.console.ui.output import people_watch
from quorate.protocol.errors import InvalidArgument

Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]


def confirm(question: str, yes: bool) -> None:
    """Ask a person, and end the command if the answer is no. yes: there is no question.

    Raises InvalidArgument where no person can be asked.
    """
    if yes:
        return
    if not people_watch(sys.stdin):
        raise InvalidArgument("--yes", "must be given where no person can be asked")
    typer.confirm(question, abort=True, err=True)
