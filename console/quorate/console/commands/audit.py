"""`quorate audit`: compare the messages of all stores, and prove that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.options import (
    Master,
    OutputFormat,
    Stores,
    Topics,
    TopicsPattern,
)
from quorate.console.ui.output import (
    Output,
    people_watch,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import DONE
from quorate.protocol.figures import counted

if TYPE_CHECKING:
    from quorate.pipeline.audit.facts import Weight
    from quorate.pipeline.audit.verdict import AuditReport, SourceVerdict

_STYLES = {"NOTE": "green", "UNKNOWN": "yellow", "DIFFERENCE": "red", "LOSS": "bold red"}
"""The style of each weight."""
_FINDINGS_SHOWN = 50


def audit(
    context: typer.Context,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="Read and check every message at every store."),
    ] = False,
    archive: Annotated[
        str | None,
        typer.Option(
            "--archive",
            metavar="PATH",
            help="Also compare this archive: a directory, or s3://BUCKET/PREFIX.",
        ),
    ] = None,
    master: Master = None,
    stores: Stores = None,
    output: OutputFormat = None,
) -> None:
    """Compare all stores, and prove for each source that nothing is lost.

    Name every store: the audit proves nothing for a store that is left out. Digests are compared,
    and messages only where digests differ. Exit 0 if nothing is lost and all stores agree, 1 if
    messages are missing or different. Exit 10 if stores that are away or in limbo leave that open.
    With an archive, what stores have released must be in it, and the rest must agree.

    Needs the extra `archive`.
    """
    settings = resolve(context.meta, stores=stores, output=output)

    from quorate.pipeline.jobs.command import run_audit

    with _Progress(settings.output) as progress:
        report = run_audit(
            [store.address for store in settings.stores],
            topics=topic or (),
            topics_pattern=topics_pattern,
            thorough=thorough,
            archive=archive,
            master=master,
            told=progress.tell,
        )
    _show(report, settings.output)
    if report.outcome.exit_code != DONE:
        raise typer.Exit(report.outcome.exit_code)


class _Progress:
    """Progress on stderr: one changing line on a terminal, else a line a step."""

    def __init__(self, output: Output) -> None:
        self._spins = output is Output.TABLE and people_watch()
        self._status: Any = None

    def __enter__(self) -> _Progress:
        if self._spins:
            from rich.console import Console

            self._status = Console(stderr=True).status("asking the stores")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)
        else:
            say(text)


def _show(report: AuditReport, output: Output) -> None:
    said = report.as_object()
    match output:
        case Output.JSON:
            print_json(said)
        case Output.JSONL:
            print_jsonl({"kind": "store", **each} for each in said["stores"])
            print_jsonl({"kind": "source", **each} for each in said["sources"])
            rest = {key: value for key, value in said.items() if key not in ("stores", "sources")}
            print_jsonl([{"kind": "verdict", **rest}])
        case Output.TABLE:
            _show_tables(report)


def _show_tables(report: AuditReport) -> None:
    stores = [
        {"store": each.name, "address": each.address, "state": _state(each.silence, each.limbo)}
        for each in report.stores
    ]
    print_table("Stores", stores, empty="none")
    sources = [
        {
            "source": str(each.source),
            "verdict": _styled(each.outcome.text, each.outcome.weight),
            "messages": each.messages,
            "stable_upto": each.stable_upto,
            "whole_at": ", ".join(each.stores) or "-",
            **_archived(each),
        }
        for each in report.sources
    ]
    print_table("Sources", sources, empty="none is known")
    findings = [row for each in report.sources for row in _finding_rows(each)]
    if findings:
        print_table("Findings", findings[:_FINDINGS_SHOWN], empty="none")
    if len(findings) > _FINDINGS_SHOWN:
        say(f"{len(findings) - _FINDINGS_SHOWN:,} more findings are in the output of -o json.")
    receivers = [row for each in report.sources for row in _receiver_rows(each)]
    if receivers:
        print_table("Receivers", receivers, empty="none")
    for each in report.sources:
        say(f"{each.source}: {each.summary}.", style=_STYLES[each.outcome.weight.name])
    how = f"{counted(report.read, 'message')} read" if report.read else "no message had to be read"
    compared = counted(report.compared, "message")
    say(f"{compared} compared at each store, {how}, in {report.seconds:.1f} s.")
    if report.archive:
        say(f"{counted(report.archived, 'message')} of {report.archive} compared.")
    say(f"{report.summary}.", style=f"bold {_STYLES[report.outcome.weight.name]}")


def _archived(verdict: SourceVerdict) -> dict[str, Any]:
    copy = verdict.archived
    if copy is None:
        return {}
    return {"archived": copy.has.count(), "archived_upto": copy.last}


def _state(silence: str, limbo: str) -> Any:
    from rich.text import Text

    if silence:
        return Text(silence, style="red")
    return Text(f"in limbo: {limbo}", style="yellow") if limbo else Text("answered", style="green")


def _styled(text: str, weight: Weight) -> Any:
    from rich.text import Text

    return Text(text, style=_STYLES[weight.name])


def _finding_rows(verdict: SourceVerdict) -> Iterator[dict[str, Any]]:
    for each in verdict.findings:
        yield {
            "source": str(verdict.source),
            "finding": _styled(each.kind.text, each.kind.weight),
            "stores": ", ".join(each.stores) or "-",
            "first": each.first,
            "last": each.last,
            "detail": each.detail,
        }


def _receiver_rows(verdict: SourceVerdict) -> Iterator[dict[str, Any]]:
    for each in verdict.positions:
        yield {
            "source": str(verdict.source),
            "receiver": f"{each.session_id:#x}",
            "acknowledged_upto": each.upto,
            "behind": each.behind,
            "at": ", ".join(f"{store}: {upto}" for store, upto in each.by_store.items()),
            "remarks": ", ".join(each.remarks) or "-",
        }
