"""`quorate journal`: what the journals of a group's stores have, who reads them, and what goes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.confirmation import Yes, confirm
from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    OutputFormat,
    Stores,
    Timeout,
    Topics,
    TopicsPattern,
    pattern_for,
)
from quorate.console.ui.output import Output, print_json, print_jsonl, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import UNHEALTHY
from quorate.protocol.times import age_of, later_ns, moment_of

if TYPE_CHECKING:
    from quorate.console.group.journal import By, Journals


journal = typer.Typer(
    help="Show what each store's journal has, what retention waits for, and the subscriptions.\n\n"
    "Exit 10 if a store does not answer, 69 if none does.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)


@journal.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    stores: Stores = None,
    by: Annotated[
        str, typer.Option("--by", metavar="PART", help="List by store, topic or source.")
    ] = "store",
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    limit: Annotated[
        int,
        typer.Option(
            min=0,
            help="Show so many rows and subscriptions at most: the largest topics and sources, and "
            "the subscriptions that are furthest behind. 0: all.",
        ),
    ] = 100,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait for each store.")
    ] = 5.0,
    output: OutputFormat = None,
) -> None:
    """Show what each store's journal has, unless a sub-command is called."""
    if context.invoked_subcommand is not None:
        return
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    pattern = pattern_for(topic or (), topics_pattern)

    from quorate.console.group.journal import By, ask_all, listed
    from quorate.console.group.status import too_few
    from quorate.protocol.choices import choice_of
    from quorate.protocol.errors import QuorateError

    part = choice_of("--by", By, by)
    answers = run(lambda: ask_all(settings.stores, settings.timeout, pattern, limit))
    if all(isinstance(answer, QuorateError) for answer in answers.values()):
        raise too_few("The journal", answers)
    found = listed(answers, part, limit)
    _show(found, part, settings.output)
    if found.problems:
        raise typer.Exit(UNHEALTHY)


@journal.command(short_help="Remove what is older than an age from all journals.")
def remove(
    context: typer.Context,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Remove what was sent before: 7d, 12h."),
    ],
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    unread_too: Annotated[
        bool,
        typer.Option(
            "--unread-too", help="Also remove what subscriptions that run have yet to read."
        ),
    ] = False,
    yes: Yes = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Remove messages that were sent longer ago than an age, the oldest first.

    Each store keeps what is not stable, what its retain_until asks for, and what subscriptions have
    yet to read. Messages that no archive has are gone for good.

    Exit 10 if a store fails, 69 if all do.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    pattern = pattern_for(topic or (), topics_pattern)
    before_ns = later_ns(time.time_ns(), -age_of("--older-than", older_than))

    from quorate.console.group import removal
    from quorate.console.group.status import too_few

    moment = moment_of(before_ns).isoformat(sep=" ", timespec="seconds")
    confirm(f"Remove everything sent before {moment} from {len(settings.stores)} stores?", yes)
    found = run(
        lambda: removal.remove(
            settings.stores, settings.timeout, pattern, before_ns, unread_too=unread_too
        )
    )
    match settings.output:
        case Output.JSON:
            print_json(found.rows)
        case Output.JSONL:
            print_jsonl(found.rows)
        case Output.TABLE:
            print_table("Removed", found.rows, empty="nothing is that old")
    for store, error in found.failures.items():
        say(f"{store.name}: {error}", style="bold red")
    if len(found.failures) == len(settings.stores):
        raise too_few("The removal", found.failures)
    if found.failures:
        raise typer.Exit(UNHEALTHY)


def _show(found: Journals, by: By, output: Output) -> None:
    left_out = {kind: count for kind, count in found.left_out.items() if count}
    about: dict[str, Any] = {"problems": found.problems, "left_out": left_out}
    match output:
        case Output.JSON:
            print_json(
                {"by": by, "journal": found.rows, "subscriptions": found.subscriptions, **about}
            )
        case Output.JSONL:
            print_jsonl({"kind": by, **row} for row in found.rows)
            print_jsonl({"kind": "subscription", **row} for row in found.subscriptions)
            print_jsonl([{"kind": "about", **about}])
        case Output.TABLE:
            print_table("Journal", found.rows, empty="none")
            print_table("Subscriptions", found.subscriptions, empty="none")
            for problem in found.problems:
                say(problem, style="bold red")
            if left_out:
                counts = ", ".join(f"{count:,} {kind}" for kind, count in left_out.items())
                say(f"Not shown: {counts}. See --limit and --topic.")
