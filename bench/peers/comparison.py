"""The measurements as a table of ratios, as a document, and as a picture."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.peers.load import Load
from bench.peers.systems import SYSTEMS

DOCS = Path(__file__).parent.parent.parent / "docs"
TEMPLATE = Path(__file__).with_name("comparison.template")
OURS = "quorate"


@dataclass(frozen=True)
class Shape:
    """A load with the name that people read."""

    name: str
    load: Load


@dataclass(frozen=True)
class Figures:
    """The measurements of one run."""

    acknowledged: float
    """Messages a second, until the last was acknowledged."""
    delivered: float
    """Messages a second, until the last was received and checked."""
    cpu_us: float
    """Microseconds of CPU a message, of servers and both clients."""
    p50_ms: float | None
    """The median from when a message was due until it was received; None: not measured."""
    p99_ms: float | None

    def __str__(self) -> str:
        """Return the figures beside the rate of delivery."""
        told = f"acknowledged {self.acknowledged:,.0f}/s, CPU {self.cpu_us:,.1f} µs a message"
        if self.p50_ms is None or self.p99_ms is None:
            return told
        return f"{told}, p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.1f} ms"


Found = Mapping[Shape, Mapping[str, Sequence[Figures]]]

_COLUMNS: dict[str, tuple[Callable[[Figures], float | None], str]] = {
    "acknowledged/s": (lambda one: one.acknowledged, ",.0f"),
    "delivered/s": (lambda one: one.delivered, ",.0f"),
    "CPU µs a message": (lambda one: one.cpu_us, ",.1f"),
    "p50 ms": (lambda one: one.p50_ms, ".2f"),
    "p99 ms": (lambda one: one.p99_ms, ".1f"),
}


def table(found: Found) -> str:
    """Return the medians with their ranges, and delivery as a ratio to the first system."""
    return "\n".join(_table(shape, systems) for shape, systems in found.items())


def _table(shape: Shape, systems: Mapping[str, Sequence[Figures]]) -> str:
    columns = {
        title: how
        for title, how in _COLUMNS.items()
        if any(how[0](run) is not None for runs in systems.values() for run in runs)
    }
    lines = [
        f"\n### {shape.name}\n",
        f"| system | {' | '.join(columns)} | delivered, Quorate = 1 |",
        "|---" * (len(columns) + 2) + "|",
    ]
    ours = systems.get(OURS)
    for name, runs in systems.items():
        cells = [_cell([read(run) for run in runs], form) for read, form in columns.values()]
        ratio = _median(runs) / _median(ours) if ours else None
        told = "" if ratio is None else f"{ratio:.2f}"
        lines.append(f"| {SYSTEMS[name].name} | {' | '.join(cells)} | {told} |")
    return "\n".join(lines)


def _cell(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    median = format(statistics.median(known), form)
    if len(known) == 1:
        return median
    return f"{median} ({min(known):{form}} to {max(known):{form}})"


def _median(runs: Sequence[Figures]) -> float:
    return statistics.median(run.delivered for run in runs)


def write(found: Found) -> None:
    """Write docs/comparison.md, and its picture."""
    rounds = max(len(runs) for systems in found.values() for runs in systems.values())
    names = {name: None for systems in found.values() for name in systems}
    settings = "\n".join(f"| {SYSTEMS[name].name} | {SYSTEMS[name].settings} |" for name in names)
    cores = len(os.sched_getaffinity(0))
    (DOCS / "comparison.md").write_text(
        TEMPLATE.read_text().format(
            day=f"{datetime.now(UTC):%Y-%m-%d}",
            machine=f"{cores} cores, {platform.system()} {platform.release().split('-')[0]}",
            python=platform.python_version(),
            rounds="of one round" if rounds == 1 else f"medians of {rounds} rounds, with the range",
            settings=settings,
            tables=table(found).strip(),
        )
    )
    draw(found)


def draw(found: Found) -> None:
    """Draw the rates of delivery at full rate."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "comparison"
    from matplotlib import pyplot

    full = {shape: systems for shape, systems in found.items() if not shape.load.rate}
    figure, axes = pyplot.subplots(1, len(full), figsize=(5 * len(full), 3), squeeze=False)
    for axis, (shape, systems) in zip(axes[0], full.items(), strict=True):
        ordered = sorted(systems, key=lambda name: _median(systems[name]))
        bars = axis.barh(
            [SYSTEMS[name].name for name in ordered],
            [_median(systems[name]) for name in ordered],
            color=["#2f6fdb" if name.startswith(OURS) else "#9aa4b2" for name in ordered],
        )
        axis.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
        axis.margins(x=0.2)
        axis.set_title(f"{shape.name}: delivered/s", fontsize=10)
        axis.xaxis.set_visible(False)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(DOCS / "comparison.svg", metadata={"Date": None})
    pyplot.close(figure)
