"""`quorate demo`: a stream through failures, and the verdict on every message."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.output import print_table
from quorate.console.ui.running import run
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.exit_codes import FAILED

if TYPE_CHECKING:
    from quorate.console.demo.verdict import RunVerdict


def demo(
    input_path: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Publish the lines of this file instead of a year of flights.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep all files of the run in this directory, which is new or empty.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=1, help="Messages a second.  [16000; fewer for a short input]"),
    ] = None,
    verify_only: Annotated[
        Path | None,
        typer.Option("--verify", metavar="DIR", help="Only verify a kept run again."),
    ] = None,
) -> None:
    """Stream a year of flights through three stores to two receivers, and verify every message.

    In mid-stream the demo kills stores, a receiver and the source. The verdict comes from the
    input, the receivers' records and the stores' disks.
    """
    verdict = _verify_again(verify_only) if verify_only else _run(input_path, keep, rate)
    _show(verdict)
    if not verdict.good:
        raise typer.Exit(FAILED)


def _verify_again(directory: Path) -> RunVerdict:
    from quorate.console.demo.verify import verify

    try:
        return verify(directory, lambda part: say(f"verifying {part}"))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidArgument("--verify", f"{directory} is not a kept run: {error}") from error


def _run(input_path: Path | None, keep: Path | None, rate: float | None) -> RunVerdict:
    from quorate.console.demo.faults import Plan
    from quorate.console.demo.flights import check
    from quorate.console.demo.run import Demo

    check(input_path)
    if keep and keep.exists() and any(keep.iterdir()):
        raise InvalidArgument("--keep", f"{keep} is not empty")
    directory = keep or Path(tempfile.mkdtemp(prefix="quorate-demo-"))
    disposable = False
    try:
        verdict = run(lambda: Demo(directory, input_path, rate, Plan()).run())
        disposable = verdict.good
        return verdict
    except typer.Exit:
        # Interrupted: there is nothing to verify.
        disposable = True
        raise
    finally:
        if disposable and not keep:
            shutil.rmtree(directory)
        else:
            say(f"Everything is kept in {directory}.")


def _show(verdict: RunVerdict) -> None:
    print_table("Killed with kill -9", verdict.kills, "none")
    print_table("Receivers", [each.row() for each in verdict.receivers], "none")
    print_table("Stores", [each.row() for each in verdict.stores], "none")
    for problem in verdict.words():
        print(f"  {problem}")
    print(verdict.line())
