"""A part of a long page that fits on the terminal, to be moved up and down."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment


class Window:
    """The lines of a page from an offset on, as many as there is room for."""

    def __init__(self, page: RenderableType, offset: int) -> None:
        self._page = page
        self._offset = offset

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._page, options.update(height=None), pad=False)
        first = offset_within(self._offset, len(lines), console.height)
        for number, line in enumerate(lines[first : first + console.height]):
            if number:
                yield Segment.line()
            yield from line


def offset_within(offset: int, lines: int, height: int) -> int:
    """Return the offset, or the nearest one that leaves no room below the page unused."""
    return max(0, min(offset, lines - height))
