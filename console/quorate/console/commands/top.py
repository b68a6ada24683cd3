"""`quorate top`: a live view of a group in the terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.keys import DOWN, PAGE_DOWN, PAGE_UP, UP, pressed
from quorate.console.ui.options import Stores, Topics, TopicsPattern, pattern_for
from quorate.console.ui.output import people_watch, unfolded_console
from quorate.console.ui.running import run
from quorate.console.ui.settings import GroupSettings, resolve
from quorate.protocol.errors import InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from quorate.console.group.rules.findings import Finding
    from quorate.console.group.rules.overview import Moment, Overview

_ROWS_MAX = 100
"""The rows of one kind. People look at the first ones."""
_FINDINGS_MAX = 5
_STYLES = {"ok": "green", "live": "green", "away": "yellow"}
_SEVERITIES = {"critical": "bold red", "warning": "yellow", "note": "cyan"}


def top(
    context: typer.Context,
    stores: Stores = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two looks at the stores.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print the view once, after one interval, and end.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait for each store.")
    ] = 5.0,
) -> None:
    """Show stores, sources, receivers, subscribers and queues with their rates and lags.

    What is wrong comes first. With topics selected, queues are left out. Arrows and Page Up and
    Down move the view; q or Ctrl-C ends it. Exit 69 if no store answers at the beginning.
    """
    settings = resolve(context.meta, stores=stores, timeout=timeout)
    pattern = pattern_for(topic or (), topics_pattern)
    if not once and not people_watch(sys.stdout):
        raise InvalidArgument("--once", "must be given where the output is no terminal")
    run(lambda: _once(settings, pattern, interval) if once else _live(settings, pattern, interval))


async def _look(settings: GroupSettings, pattern: str) -> Moment:
    from quorate.console.group.check import look
    from quorate.console.group.rules.overview import Moment

    return Moment(await look(settings.stores, settings.timeout, pattern), time.monotonic())


async def _first(settings: GroupSettings, pattern: str) -> Moment:
    """Look for the first time. Raises the error of `too_few` if no store answers."""
    from quorate.console.group.status import too_few

    first = await _look(settings, pattern)
    if not first.look.reached:
        raise too_few("The view", first.look.answers)
    return first


async def _once(settings: GroupSettings, pattern: str, interval: float) -> None:
    before = await _first(settings, pattern)
    await asyncio.sleep(interval)
    console = unfolded_console()
    console.print(_page(console, _overview(await _look(settings, pattern), before)))


@dataclass(slots=True)
class _View:
    """The view that is on the terminal now."""

    moment: Moment
    seen: Overview
    offset: int = 0
    """The first line of the page that is shown."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def look(self, moment: Moment) -> None:
        """Take a new look at the stores."""
        self.seen = _overview(moment, self.moment)
        self.moment = moment
        self.changed.set()

    def key(self, key: str, height: int) -> None:
        """Take a key. height: lines of the terminal."""
        steps = {UP: -1, DOWN: 1, PAGE_UP: -height, PAGE_DOWN: height}
        self.offset = max(0, self.offset + steps.get(key, 0))
        self.is_over = self.is_over or key in ("q", "Q")
        self.changed.set()


async def _live(settings: GroupSettings, pattern: str, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    first = await _first(settings, pattern)
    view = _View(first, _overview(first, None))

    async def poll() -> None:
        while True:
            await asyncio.sleep(interval)
            view.look(await _look(settings, pattern))

    polling = asyncio.create_task(poll())
    polling.add_done_callback(lambda _: view.changed.set())
    try:
        with (
            # Ctrl-C is the usual end of a view, and no failure.
            suppress(asyncio.CancelledError),
            Live(console=console, screen=True, auto_refresh=False) as screen,
            pressed(lambda key: view.key(key, console.height)),
        ):
            while not view.is_over and not polling.done():
                view.changed.clear()
                screen.update(_shown(console, view), refresh=True)
                await view.changed.wait()
    finally:
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling


def _overview(moment: Moment, before: Moment | None) -> Overview:
    from quorate.console.group.rules.findings import Bounds
    from quorate.console.group.rules.overview import overview

    return overview(moment, before, Bounds())


def _shown(console: Console, view: _View) -> RenderableType:
    from quorate.console.ui.window import Window, offset_within

    page = _page(console, view.seen, "q ends, arrows move")
    # A key beyond the end of the page must not count when the next one goes back.
    lines = len(console.render_lines(page, pad=False))
    view.offset = offset_within(view.offset, lines, console.height)
    return Window(page, view.offset)


def _page(console: Console, seen: Overview, keys: str = "") -> RenderableType:
    """Return the whole view. keys: what the keys do, for people; empty: there are none."""
    from rich.console import Group
    from rich.text import Text

    from quorate.console.group.rules.findings import is_healthy

    healthy = is_healthy(seen.findings)
    state = Text("healthy", "green") if healthy else Text("UNHEALTHY", "bold red")
    head = Text("quorate top  ", "bold").append_text(state)
    head.append(f"  {time.strftime('%H:%M:%S')}  {keys}".rstrip(), "dim")
    return Group(
        head,
        *_findings(seen.findings),
        _section(console, "Stores", seen.stores),
        _section(console, "Sources", seen.sources),
        _section(console, "Receivers", seen.receivers),
        _section(console, "Subscribers", seen.subscribers),
        _section(console, "Queues", seen.queues),
    )


def _findings(found: Sequence[Finding]) -> list[RenderableType]:
    from rich.text import Text

    lines: list[RenderableType] = [
        Text(f"{each.severity.value.upper()}  ", _SEVERITIES[each.severity]).append(
            each.what, style="not bold"
        )
        for each in found[:_FINDINGS_MAX]
    ]
    if left := len(found) - len(lines):
        lines.append(Text(f"… and {left:,} more: see `quorate check`."))
    return lines


def _section(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from quorate.console.ui.tables import fitting

    if not rows:
        return Text(f"{title}: none", "dim")
    table = fitting(console, title, [*map(_styled, rows[:_ROWS_MAX])])
    if (left := len(rows) - _ROWS_MAX) > 0:
        return Group(table, Text(f"… and {left:,} more {title.lower()}.", "dim"))
    return table


def _styled(row: dict[str, Any]) -> dict[str, Any]:
    from rich.text import Text

    if "state" not in row:
        return row
    state = str(row["state"])
    return {**row, "state": Text(state, _STYLES.get(state, "bold red"))}
