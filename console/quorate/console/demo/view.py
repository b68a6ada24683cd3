"""The view of a run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from quorate.console.demo.board import Board

_PLAIN_SECONDS = 2.0
_EVENTS_SHOWN = 10
_STATE_STYLES = {"up": "green", "done": "green", "killed": "bold red"}


class DemoView:
    """The view that fits stdout. The demo calls `refresh` often."""

    def __init__(
        self, board: Board, console: Console | None = None, interval: float = _PLAIN_SECONDS
    ) -> None:
        """interval: seconds between two lines of progress, where stdout is no terminal."""
        self._board = board
        self._console = console or Console(highlight=False)
        self._interval = interval
        self._live: Live | None = None
        self._shown_events = 0
        self._shown_at = time.monotonic()
        self._shown_parts = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(render(self._board), console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.refresh()
        if self._live:
            self._live.stop()
        elif self._shown_parts:
            print(flush=True)
        sys.stdout.flush()

    def refresh(self) -> None:
        """Show the changes since the last call."""
        if self._live:
            self._live.update(render(self._board), refresh=True)
        else:
            self._print_plain(time.monotonic() - self._shown_at >= self._interval)

    def _print_plain(self, progress_too: bool) -> None:
        board = self._board
        fresh = board.noted - self._shown_events
        for seconds, text, _ in list(board.events)[len(board.events) - fresh :]:
            print(f"{seconds:6.1f} s  {text}", flush=True)
        self._shown_events = board.noted
        if board.verified:
            self._print_verified()
        elif progress_too:
            self._shown_at = time.monotonic()
            print(f"{board.seconds:6.1f} s  {_progress(board)}", flush=True)

    def _print_verified(self) -> None:
        """Lengthen the one line that names the parts that were verified."""
        board = self._board
        for part in board.verified[self._shown_parts :]:
            begin = ", " if self._shown_parts else f"{board.seconds:6.1f} s  verifying "
            print(f"{begin}{part}", end="", flush=True)
            self._shown_parts += 1


def _progress(board: Board) -> str:
    waiting = f"waiting for {board.waiting_for}" if board.waiting_for else ""
    if not board.total:
        return f"{board.phase}: {waiting}" if waiting else board.phase
    lags = ", ".join(f"{name} {board.lag(name):,} behind" for name in board.receivers)
    stable = sum(board.stable.values())
    pace = waiting or f"{board.rate:,.0f}/s"
    return f"{board.phase}: {stable:,} of {board.total:,} stable, {pace}; {lags}"


def render(board: Board) -> RenderableType:
    """Return the whole board for a terminal."""
    return Group(
        _headline(board), _topics(board), _receivers(board), _stores(board), _events(board)
    )


def _headline(board: Board) -> RenderableType:
    line = Table.grid(padding=(0, 2))
    line.add_row(
        Text(board.phase, style="bold"),
        ProgressBar(total=1.0, completed=board.share_stable, width=40),
        Text(f"{board.share_stable:4.0%}"),
        _doing(board),
        Text(f"{board.seconds:.0f} s"),
    )
    return line


def _doing(board: Board) -> Text:
    if board.verified:
        return Text(board.verified[-1])
    if board.waiting_for:
        return Text(f"waiting for {board.waiting_for}", style="yellow")
    return Text(f"{board.rate:,.0f} stable messages/s")


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right", min_width=12)
    return table


def _state(state: str) -> Text:
    return Text(state, style=_STATE_STYLES.get(state, "yellow"))


def _topics(board: Board) -> Table:
    table = _table(f"source (process {board.source_pid})", "state", "messages", "sent", "stable")
    for topic, total in board.totals.items():
        table.add_row(
            topic,
            _state(board.source_state),
            f"{total:,}",
            f"{board.sent.get(topic, 0):,}",
            f"{board.stable.get(topic, 0):,}",
        )
    return table


def _receivers(board: Board) -> Table:
    table = _table("receiver", "state", "process", "handed", "lag", "from the stores")
    for name, receiver in board.receivers.items():
        table.add_row(
            name,
            _state(receiver.state),
            str(receiver.pid),
            f"{sum(receiver.handed.values()):,}",
            f"{board.lag(name):,}",
            f"{receiver.retransmitted:,}",
        )
    return table


def _stores(board: Board) -> Table:
    table = _table("store", "state", "process", "address", "messages", "lag", "holes")
    for name, store in board.stores.items():
        table.add_row(
            name,
            _state(store.state),
            str(store.pid),
            store.address,
            f"{store.messages:,}",
            f"{store.lag:,}",
            f"{store.holes:,}",
        )
    return table


def _events(board: Board) -> Text:
    lines = Text()
    for seconds, text, style in list(board.events)[-_EVENTS_SHOWN:]:
        lines.append(f"{seconds:6.1f} s  ", style="dim")
        lines.append(text + "\n", style=style)
    return lines
