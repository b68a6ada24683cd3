"""`quorate journal`: what the journals of a group's stores have, and who reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    OutputFormat,
    Stores,
    Topics,
    TopicsPattern,
    pattern_for,
)
from quorate.console.ui.output import Output, print_json, print_jsonl, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import UNHEALTHY

if TYPE_CHECKING:
    from quorate.console.group.journal import By, Journals


def journal(
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
    """Show what each store's journal has, what retention waits for, and the subscriptions.

    Exit 10 if a store does not answer, 69 if none does.
    """
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
