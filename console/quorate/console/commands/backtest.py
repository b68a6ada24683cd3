"""`quorate backtest`: past messages replayed, at their original pace or faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quorate.console.commands.stats import (
    Archive,
    Since,
    Until,
)
from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    Groups,
    Intergroup,
    Master,
    OutputFormat,
    Stores,
    Topics,
    TopicsPattern,
)
from quorate.console.ui.output import (
    Output,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from quorate.pipeline.jobs.backtest import BacktestReport


def backtest(
    context: typer.Context,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    since: Since = None,
    until: Until = None,
    archive: Archive = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TOPIC",
            help="Send to this topic; {topic} in it stands for the message's topic.",
        ),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option("--function", metavar="MODULE:NAME", help="Call this with each message."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Name the replay, and go on where a replay of this name ended; needs --until.",
        ),
    ] = None,
    speed: Annotated[
        str,
        typer.Option("--speed", metavar="N|max", help="How many times faster than the original."),
    ] = "1",
    master: Master = None,
    stores: Stores = None,
    group: Groups = None,
    intergroup: Intergroup = None,
    output: OutputFormat = None,
) -> None:
    """Replay stable messages of all topics in the order of their times, from stores and archive.

    With --to, each message is sent with its key and properties. The property original-time has its
    own time. Ctrl-C ends the replay cleanly; a replay with --name can go on later.

    Needs the extra `archive`, and with --master the extra `spark`.
    """
    settings = resolve(
        context.meta, stores=stores, groups=group or (), intergroup=intergroup, output=output
    )

    from quorate.pipeline.jobs.command import run_backtest

    report = run_backtest(
        settings.layout,
        to=to,
        function=function,
        name=name,
        speed=speed,
        topics=topic or (),
        topics_pattern=topics_pattern,
        since=since,
        until=until,
        archive=archive,
        master=master,
        told=say,
    )
    _show(report, settings.output)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)


def _show(report: BacktestReport, output: Output) -> None:
    said = report.as_object()
    match output:
        case Output.JSON:
            print_json(said)
        case Output.JSONL:
            print_jsonl([said])
        case Output.TABLE:
            apart = ("interrupted", "resumed_at", "sent_upto")
            print_table(
                "Replayed",
                [{name: value for name, value in said.items() if name not in apart}],
                empty="no messages",
            )
            if report.last:
                sent = [{"topic": topic, "upto": last} for topic, last in report.last.items()]
                print_table("Sent", sent, empty="nothing")
            if said["resumed_at"] is not None:
                say(f"The replay went on behind {said['resumed_at']}, where the last one ended.")
            if report.interrupted:
                say("The replay was interrupted.", style="bold yellow")
