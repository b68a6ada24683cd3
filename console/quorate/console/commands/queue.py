"""`quorate queue`: the queues of a group, and their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import Count, OutputFormat, Stores, Timeout
from quorate.console.ui.output import Output, print_json, print_jsonl, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import GroupSettings, resolve
from quorate.protocol.exit_codes import UNHEALTHY

if TYPE_CHECKING:
    from quorate.client import Job
    from quorate.console.group.rules.queue_reports import Queues

queue = typer.Typer(
    help="Show queues, and take their jobs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Queue = Annotated[str, typer.Argument(help="The name of the queue.")]
EachTimeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for each store.")]


@queue.command("list", short_help="Show all queues.")
def list_queues(
    context: typer.Context,
    stores: Stores = None,
    timeout: EachTimeout = 5.0,
    output: OutputFormat = None,
) -> None:
    """Show the queues: where each is dispatched, and what its messages wait for.

    Counts of what happened begin with the dispatcher. Exit 10 if a store does not answer, or if no
    store dispatches a queue; 69 if no store answers.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    found = _asked(settings, "")
    if settings.output is Output.JSON:
        print_json({"queues": found.rows, "problems": found.problems})
    elif settings.output is Output.JSONL:
        print_jsonl(found.rows)
    else:
        print_table("Queues", found.rows, empty="no store has a queue")
    _end(found, settings)


@queue.command(short_help="Show a queue and its consumers.")
def show(
    context: typer.Context,
    name: Queue,
    stores: Stores = None,
    timeout: EachTimeout = 5.0,
    output: OutputFormat = None,
) -> None:
    """Show a queue and its consumers.

    Exit 1 if no store has the queue, 10 if a store does not answer or none dispatches it.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    found = _asked(settings, name)
    if settings.output is Output.TABLE:
        print_table("Queue", found.rows, empty="no store has it")
        print_table("Consumers", found.consumers, empty="it has no consumer now")
    else:
        [row] = found.rows or [{}]
        whole = {**row, "consumers": found.consumers, "problems": found.problems}
        print_json(whole) if settings.output is Output.JSON else print_jsonl([whole])
    _end(found, settings)


@queue.command(short_help="Take jobs, print them, and say that they are done.")
def take(
    context: typer.Context,
    name: Queue,
    count: Count = None,
    max_backlog: Annotated[
        int, typer.Option(min=1, help="The most jobs that the command has at a time.")
    ] = 1,
    stores: Stores = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Take jobs, print each, and say that it is done, until Ctrl-C or for --count jobs."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    from quorate.client import connect
    from quorate.console.commands.receive import Writer

    async def taken() -> None:
        writer: Writer[Job] = Writer(settings.output, _as_object)
        jobs = 0
        try:
            async with (
                connect(settings.stores, timeout=settings.timeout) as client,
                client.queue(name, max_backlog=max_backlog, name="quorate queue take") as consumer,
            ):
                async for job in consumer:
                    writer.write([job])
                    await job.done()
                    jobs += 1
                    if jobs == count:
                        break
        finally:
            writer.end()

    run(taken)


def _as_object(job: Job) -> dict[str, Any]:
    """Return all fields of a job, for programs."""
    from quorate.console.commands.receive import content, origin

    message = job.message
    row = origin(message.source, message.sequence, message.epoch, message.timestamp_ns)
    row["bookmark"] = str(message.bookmark)
    row["tries"] = job.tries
    return row | content(message.attributes, message.payload)


def _asked(settings: GroupSettings, name: str) -> Queues:
    """Return what the stores report. Raises an error if none answers, or none has the queue."""
    from quorate.console.group.queues import ask_all
    from quorate.console.group.rules.queue_reports import is_unknown, listed
    from quorate.console.group.status import too_few
    from quorate.protocol.errors import QuorateError

    answers = run(lambda: ask_all(settings.stores, name, settings.timeout))
    if (unknown := is_unknown(answers)) is not None:
        raise unknown
    if all(isinstance(answer, QuorateError) for answer in answers.values()):
        raise too_few("The list of queues", answers)
    return listed(answers)


def _end(found: Queues, settings: GroupSettings) -> None:
    """Say what is wrong, and exit."""
    if settings.output is not Output.JSON:
        for problem in found.problems:
            say(problem, style="bold red")
    if found.problems:
        raise typer.Exit(UNHEALTHY)
