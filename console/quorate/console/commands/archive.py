"""`quorate archive` and `quorate restore`: messages from stores to Parquet files, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from quorate.console.ui.settings import (
    resolve,
)
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.exit_codes import FAILED
from quorate.protocol.figures import counted, numbers_in

if TYPE_CHECKING:
    from quorate.pipeline.archive.archiving import ArchiveReport
    from quorate.pipeline.jobs.restore import RestoreReport

Path = Annotated[
    str,
    typer.Argument(metavar="PATH", help="The archive: a directory, or s3://BUCKET/PREFIX."),
]


def archive(
    context: typer.Context,
    path: Path,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Archive only what was sent before: 7d, 12h."
        ),
    ] = None,
    compact: Annotated[
        bool,
        typer.Option("--compact", help="Also merge small files of the archive, after archiving."),
    ] = False,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum", help="Also remove files that nobody can need any longer, at the end."
        ),
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep", metavar="AGE", help="Files that --vacuum leaves: younger ones. Default: 7d."
        ),
    ] = None,
    master: Master = None,
    stores: Stores = None,
    output: OutputFormat = None,
) -> None:
    """Archive the new stable messages in a Delta table, partitioned by topic and day.

    Archived messages never change. Exit 1 if a source could not be archived up to its last stable
    message.

    Needs the extra `archive`.
    """
    if keep is not None and not vacuum:
        raise InvalidArgument("--keep", "says what --vacuum leaves; give both")
    settings = resolve(context.meta, stores=stores, output=output)

    from quorate.pipeline.jobs.command import (
        run_archive,
        run_compact,
        run_vacuum,
    )

    report = run_archive(
        [store.address for store in settings.stores],
        path,
        topics=topic or (),
        topics_pattern=topics_pattern,
        older_than=older_than,
        master=master,
        told=say,
    )
    _show_archived(report, settings.output)
    if compact:
        done = run_compact(path, told=say)
        say(f"{done.before} files were merged into {done.after}, version {done.version}.")
        for long in done.left_out:
            say(f"{long}: its name is too long for a directory; not merged", label="note")
    if vacuum:
        removed = run_vacuum(path, keep=keep, told=say).removed
        say(f"{len(removed):,} files were removed that nobody can need.")
    if report.failures:
        raise typer.Exit(FAILED)


def _show_archived(report: ArchiveReport, output: Output) -> None:
    said = report.as_object()
    match output:
        case Output.JSON:
            print_json(said)
        case Output.JSONL:
            print_jsonl([said])
        case Output.TABLE:
            print_table("Archived", said["sources"], empty="no new messages")
            say(
                f"{counted(report.messages, 'message')} in {report.seconds:.1f} s; "
                f"{report.archive} has version {report.version}."
            )
    for note in report.notes:
        say(note, label="note")
    for source, error in report.failures.items():
        say(f"{source}: {error}", style="bold red", label="error")


def restore(
    context: typer.Context,
    path: Path,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    master: Master = None,
    stores: Stores = None,
    group: Groups = None,
    intergroup: Intergroup = None,
    output: OutputFormat = None,
) -> None:
    """Refill stores from an archive: wiped stores that were founded anew, or a new group.

    Stop the sources and found the group first. Exit 0 only if every store has every message. The
    command can be repeated at any time: it compares existing messages, and writes missing ones.

    Needs the extra `archive`.
    """
    settings = resolve(
        context.meta, stores=stores, groups=group or (), intergroup=intergroup, output=output
    )

    from quorate.pipeline.jobs.command import run_restore

    report = run_restore(
        settings.layout,
        path,
        topics=topic or (),
        topics_pattern=topics_pattern,
        master=master,
        told=say,
    )
    _show_restored(report, settings.output)
    if not report.done:
        raise typer.Exit(FAILED)


def _show_restored(report: RestoreReport, output: Output) -> None:
    match output:
        case Output.JSON:
            print_json(report.as_object())
        case Output.JSONL:
            print_jsonl([report.as_object()])
        case Output.TABLE:
            print_table("Restored", _rows(report), empty="the archive is empty")
    for source, stores in report.sources.items():
        for store in stores.values():
            if store.failure is not None:
                say(f"{source}: {store.failure}", style="bold red", label="error")
    for warning in report.warnings:
        say(warning, style="bold yellow", label="warning")


def _rows(report: RestoreReport) -> list[dict[str, Any]]:
    return [
        {
            "source": str(source),
            "store": store.store,
            "upto": report.lasts[source],
            "written": store.written,
            "held_already": store.held_already,
            "lacking": numbers_in(store.lacking),
            "done": store.done,
        }
        for source, stores in report.sources.items()
        for store in stores.values()
    ]
