"""`quorate status`: stores, sources and receivers of a group, and its problems."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.exits import say
from quorate.console.ui.garbage import collected_later
from quorate.console.ui.options import (
    OutputFormat,
    Stores,
    Topics,
    TopicsPattern,
    pattern_for,
)
from quorate.console.ui.output import (
    Output,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.exit_codes import UNHEALTHY

if TYPE_CHECKING:
    from quorate.console.group.rules.queue_reports import Answers as QueueAnswers
    from quorate.console.group.rules.source_status import Answers
    from quorate.console.group.status import GroupStatus
    from quorate.protocol.identity import SourceName

_FOR_PEOPLE = {
    "stores": (
        "store", "address", "state", "version", "uptime_seconds", "durability", "sources",
        "messages", "sync_milliseconds", "rejected", "lacking", "repair",
        "repair_bytes_per_second",
    ),
    "sources": (
        "topic", "session_id", "state", "proxy", "epoch", "first", "newest", "stable_upto", "lag",
        "lacking", "holes", "state_only",
    ),
    "groups": (
        "topic", "session_id", "group", "rule", "intergroup", "role", "satisfied", "stores",
        "holding", "backups", "stand_in_for",
    ),
    "receivers": ("topic", "source", "session_id", "acknowledged_upto", "lag"),
    "paced": (
        "topic", "source", "slowest_receiver", "acknowledged_upto", "behind", "messages_max",
        "bytes_max", "state",
    ),
    "replicas": ("store", "topic", "session_id", "newest", "lag"),
    "conflicts": ("topic", "session_id", "ranges", "stores"),
    "losses": ("store", "source", "lost", "reason", "time"),
}  # fmt: skip

_IN_KIB = {"repair_bytes_per_second": "repair_KiB/s"}

_ONLY_IF_ANY = ("paced", "replicas", "conflicts", "losses")

_KINDS = {
    "stores": "store",
    "sources": "source",
    "groups": "group",
    "receivers": "receiver",
    "paced": "paced",
    "replicas": "replica",
    "conflicts": "conflict",
    "losses": "loss",
}


def status(
    context: typer.Context,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait for a store that says nothing.")
    ] = 5.0,
    lag_max: Annotated[
        int, typer.Option(min=0, help="Stable messages that a healthy store may lack.")
    ] = 100_000,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    limit: Annotated[
        int,
        typer.Option(
            min=0,
            help="Show so many rows of each kind and problems at most, problems first. 0: all.",
        ),
    ] = 100,
    without: Annotated[
        str,
        typer.Option(
            metavar="STORE",
            help="Also call it a problem if a source would lose its quorum without this store.",
        ),
    ] = "",
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Ask again until there is no problem, for so long at most. Then show the last "
            "answers. 0: ask once.",
        ),
    ] = 0.0,
) -> None:
    """Show stores, sources and receivers. Exit 10 if there is a problem, 69 if no store answers."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    pattern = pattern_for(topic or (), topics_pattern)
    if without and without not in (names := [store.name for store in settings.stores]):
        raise InvalidArgument("--without", f"{without!r} is none of the stores: {', '.join(names)}")

    from quorate.console.group.queues import ask_unless
    from quorate.console.group.status import (
        ask_all,
        compare,
        look_twice,
        too_few,
        until_healthy,
    )
    from quorate.protocol.errors import QuorateError

    async def ask() -> tuple[Answers, QueueAnswers]:
        answers, queues = await asyncio.gather(
            ask_all(settings.stores, settings.timeout, pattern),
            ask_unless(pattern, settings.stores, settings.timeout),
        )
        if all(isinstance(answer, QuorateError) for answer in answers.values()):
            raise too_few("The status", answers)
        return answers, queues

    def judge(answers: Answers, queues: QueueAnswers, due: Mapping[SourceName, int]) -> GroupStatus:
        with collected_later():  # a group may have many sources
            return compare(answers, lag_max, limit, without, queues, due)

    async def look() -> GroupStatus:
        return await look_twice(ask, judge)

    group = run(lambda: until_healthy(look, wait))
    _show(group, settings.output)
    if not group.healthy:
        raise typer.Exit(UNHEALTHY)


def _show(group: GroupStatus, output: Output) -> None:
    parts = {
        "stores": group.stores,
        "sources": group.sources,
        "groups": group.groups,
        "receivers": group.receivers,
        "paced": group.paced,
        "replicas": group.replicas,
        "conflicts": group.conflicts,
        "losses": group.losses,
    }
    match output:
        case Output.JSON:
            print_json({**_health(group), **parts})
        case Output.JSONL:
            for kind, rows in parts.items():
                print_jsonl({"kind": _KINDS[kind], **row} for row in rows)
            print_jsonl([{"kind": "health", **_health(group)}])
        case Output.TABLE:
            for kind, rows in parts.items():
                if kind in _ONLY_IF_ANY and not rows:
                    continue
                shown = [_for_people(kind, row) for row in rows]
                print_table(kind.capitalize(), shown, empty="none")
            for problem in group.problems:
                say(problem, style="bold red")
            if any(group.left_out.values()):
                say(f"Not shown: {_left_out(group)}. See --limit and --topic.")
            if group.not_asked:
                others = ", ".join(
                    f"{store} ({address})" if address else store
                    for store, address in group.not_asked.items()
                )
                say(
                    f"Not asked, though they keep some of these sources: {others}. Name them in "
                    "--stores too, to see the state of the whole group."
                )
            if group.healthy:
                say(
                    "The stores that were asked are healthy." if group.not_asked else "Healthy.",
                    "green",
                )


def _left_out(group: GroupStatus) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in group.left_out.items() if count)


def _health(group: GroupStatus) -> dict[str, Any]:
    return {
        "healthy": group.healthy,
        "problems": group.problems,
        "left_out": {kind: count for kind, count in group.left_out.items() if count},
        "not_asked": group.not_asked,
    }


def _for_people(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key in _FOR_PEOPLE[kind]:
        value = row[key]
        if key in _IN_KIB:
            shown[_IN_KIB[key]] = None if value is None else value / 1024
        else:
            shown[key] = _plain(value)
    return shown


def _plain(value: Any) -> Any:
    """Return a value as text; of values by store only those that are set."""
    if isinstance(value, dict):
        return ", ".join(f"{store}: {each}" for store, each in value.items() if each) or "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return value
