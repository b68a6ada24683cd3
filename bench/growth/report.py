"""The costs as tables, and as a picture for each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.growth.cost import Cost
from bench.growth.dimensions import Dimension

DOCS = Path(__file__).parent.parent.parent / "docs"

_HEAD = (
    "messages/s",
    "clients, µs",
    "stores, µs",
    "clients idle, % of a core",
    "stores idle, % of a core",
    "p50 / p99, ms",
)


def table(dimension: Dimension, costs: Sequence[Cost]) -> str:
    """Return the costs as a table in Markdown."""
    lines = [f"| {dimension.title} | {' | '.join(_HEAD)} |", "|---" * (len(_HEAD) + 1) + "|"]
    for each in costs:
        cells = (
            f"{each.size:,g}",
            f"{each.rate:,.0f}",
            f"{each.clients_us:,.0f}",
            f"{each.stores_us:,.0f}",
            f"{100 * each.clients_idle:.1f}",
            f"{100 * each.stores_idle:.1f}",
            f"{each.p50_ms:.1f} / {each.p99_ms:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(dimension: Dimension, costs: Sequence[Cost], directory: Path = DOCS) -> Path:
    """Draw the costs against the sizes, and return the file."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    sizes = [each.size for each in costs]
    figure, (cpu, latency) = pyplot.subplots(1, 2, figsize=(9, 3))
    cpu.plot(sizes, [each.clients_us for each in costs], "o-", label="clients", color="#9aa4b2")
    cpu.plot(sizes, [each.stores_us for each in costs], "o-", label="stores", color="#2f6fdb")
    cpu.set_title("CPU µs a message", fontsize=10)
    cpu.legend(frameon=False, fontsize=8)
    latency.plot(sizes, [each.p50_ms for each in costs], "o-", color="#2f6fdb")
    latency.set_title("ms until stable, p50", fontsize=10)
    for axis in (cpu, latency):
        axis.set_xscale("symlog", linthresh=min((each for each in sizes if each), default=1))
        axis.set_ylim(bottom=0)
        axis.set_xlabel(dimension.title, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path = directory / f"growth-{dimension.name}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path
