"""A picture of statistics: rates over time with their gaps, and sizes, by topic.

It needs matplotlib (the extra `plot`), which is imported only when a picture is made. Nothing here
computes statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorate.pipeline.jobs.stats import StatsReport
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.figures import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

TOPICS_MAX = 6
"""Most topics that are drawn by themselves. All others are drawn as one."""

# Okabe and Ito's colours, which people with colour blindness can distinguish.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_OTHERS_COLOUR = "#999999"
_GAP_COLOUR = "#B22222"
_KINDS = (".png", ".svg", ".pdf")
_OTHERS = "all others"
_GAPS_NAMED = 3


def check_plot(path: str) -> None:
    """Raise InvalidArgument if no picture can be written to a path.

    Raises ModuleNotFoundError without matplotlib.
    """
    import matplotlib  # noqa: F401

    kind = Path(path).suffix.lower()
    if kind not in _KINDS:
        raise InvalidArgument("--plot", f"{path} does not end with one of {', '.join(_KINDS)}")
    directory = Path(path).absolute().parent
    if not directory.is_dir():
        raise InvalidArgument("--plot", f"there is no directory {directory}")


def plot(report: StatsReport, path: str) -> None:
    """Write a picture, of the kind that the ending of the path names."""
    draw(report).savefig(path, dpi=130)


def draw(report: StatsReport) -> Figure:
    """Return the picture of a report."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = _shown(report)
    rows = max(1, len(shown))
    figure = Figure(figsize=(11, 2.2 + 1.5 * rows + 2.4), layout="constrained")
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.5 * rows + 0.6, 2.6])
    over_time, by_size = parts
    messages = sum(topic["messages"] for topic in report.topics)
    size = sum(topic["bytes"] for topic in report.topics)
    figure.suptitle(
        f"{counted(messages, 'message')}, {_bytes(size)}: {counted(len(report.topics), 'topic')}, "
        f"{counted(len(report.sources), 'source')}, {counted(len(report.gaps), 'gap')}",
        fontsize=14,
        fontweight="bold",
    )
    _draw_rates(over_time, report, shown)
    _draw_sizes(by_size.subplots(), report, shown)
    return figure


def _shown(report: StatsReport) -> list[str]:
    """Return the topics with most messages, and then the name that stands for all others."""
    ranked = sorted(report.topics, key=lambda topic: (-topic["messages"], topic["topic"]))
    names = [topic["topic"] for topic in ranked[:TOPICS_MAX]]
    return names if len(ranked) <= TOPICS_MAX else [*names, _OTHERS]


def _of(topic: str, shown: Sequence[str]) -> str:
    return topic if topic in shown else _OTHERS


def _colour(place: int) -> str:
    return _COLOURS[place] if place < len(_COLOURS) else _OTHERS_COLOUR


def _draw_rates(figure: SubFigure, report: StatsReport, shown: Sequence[str]) -> None:
    """Draw a row for each topic, all over the same time. A silent topic has no line."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    width = timedelta(seconds=report.width_seconds)
    rows = figure.subplots(max(1, len(shown)), 1, sharex=True, squeeze=False)[:, 0]
    for place, (axes, name) in enumerate(zip(rows, shown, strict=False)):
        counts: dict[datetime, int] = {}
        for rate in report.rates:
            if _of(rate["topic"], shown) == name:
                start = _time(rate["start"])
                counts[start] = counts.get(start, 0) + rate["messages"]
        times, rates = _steps(counts, width)
        axes.fill_between(times, rates, step="post", color=_colour(place), alpha=0.35, linewidth=0)
        axes.step(times, rates, where="post", color=_colour(place), linewidth=1.2)
        _mark_gaps(axes, [gap for gap in report.gaps if gap["topic"] == name])
        axes.set_title(name, loc="left", fontsize=10, color=_colour(place), fontweight="bold")
        _tidy(axes)
        axes.margins(x=0.01)
        axes.set_ylim(bottom=0)
    locator = AutoDateLocator(minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    rows[-1].xaxis.set_major_locator(locator)
    rows[-1].xaxis.set_major_formatter(
        ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    )
    figure.supylabel(f"messages/s, over {_duration(report.width_seconds)} each", fontsize=9)
    figure.supxlabel("time, UTC; shaded: gaps", fontsize=9)


def _steps(counts: dict[datetime, int], width: timedelta) -> tuple[list[datetime], list[float]]:
    """Return the points of a line of steps that is zero where there is no message."""
    times: list[datetime] = []
    rates: list[float] = []
    end: datetime | None = None
    for start in sorted(counts):
        if end is not None and start > end:
            times.append(end)
            rates.append(0.0)
        times.append(start)
        rates.append(counts[start] / width.total_seconds())
        end = start + width
    if end is not None:
        times.append(end)
        rates.append(0.0)
    return times, rates


def _mark_gaps(axes: Axes, gaps: Sequence[dict[str, Any]]) -> None:
    since: Any
    until: Any
    for gap in gaps:
        since, until = _time(gap["since"]), _time(gap["until"])
        axes.axvspan(since, until, color=_GAP_COLOUR, alpha=0.18, linewidth=0)
    for gap in sorted(gaps, key=lambda gap: -float(gap["seconds"]))[:_GAPS_NAMED]:
        since, until = _time(gap["since"]), _time(gap["until"])
        axes.annotate(
            _span(gap["seconds"]),
            (since + (until - since) / 2, 0.9),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="top",
            fontsize=8,
            color=_GAP_COLOUR,
        )


def _tidy(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_sizes(axes: Axes, report: StatsReport, shown: Sequence[str]) -> None:
    edges = sorted({each["size"] for each in report.sizes})
    below = dict.fromkeys(edges, 0)
    for place, name in enumerate(shown):
        counts = dict.fromkeys(edges, 0)
        for each in report.sizes:
            if _of(each["topic"], shown) == name:
                counts[each["size"]] += each["messages"]
        axes.bar(
            range(len(edges)),
            [counts[edge] for edge in edges],
            bottom=[below[edge] for edge in edges],
            color=_colour(place),
            width=0.8,
            label=name,
        )
        below = {edge: below[edge] + counts[edge] for edge in edges}
    axes.set_xticks(range(len(edges)), [_at_most(edge) for edge in edges])
    axes.set_ylabel("messages", fontsize=9)
    axes.set_title("Sizes of payload and key", loc="left", fontsize=10, fontweight="bold")
    _tidy(axes)
    if len(shown) > 1:
        axes.legend(frameon=False, fontsize=9)


def _at_most(edge: int) -> str:
    return f"≤ {_bytes(edge)}" if edge else "empty"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    for unit, length, smaller, part in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= length:
            rest = round(seconds % length / part)
            return f"{seconds // length:.0f} {unit}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError(seconds)


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
