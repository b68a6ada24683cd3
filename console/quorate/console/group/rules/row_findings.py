"""Findings about the rows of the state of the world: stores that have different ones, or old ones.

Pure. Rows are made of what is stable, by one rule. So stores at one position have the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from quorate.console.group.rules.findings import Bounds, Finding, Kind, Severity
from quorate.console.group.rules.source_status import SourceView
from quorate.protocol.bookmarks import Position
from quorate.v1.store_pb2 import StatusResponse


@dataclass(frozen=True, slots=True)
class RowDigest:
    """The digest of a topic's rows at one store."""

    position: Position
    """The position at which the rows hold."""
    digest: bytes
    count: int
    """How many rows it covers."""


def topics_with_rows(reached: Iterable[StatusResponse]) -> list[str]:
    """Return the topics of which some store makes rows."""
    return sorted(
        {
            source.information.source.topic
            for answer in reached
            for source in answer.sources
            if source.HasField("rows")
        }
    )


def rows_behind(view: SourceView, bounds: Bounds) -> Iterator[Finding]:
    """Yield a finding for each store whose rows of a source are far behind what is stable."""
    for store, source in sorted(view.at.items()):
        if not source.HasField("rows"):
            continue
        behind, seconds = max(0, source.stable_upto - source.rows.upto), source.rows.behind_seconds
        if behind > bounds.row_lag_max or seconds > bounds.row_lag_seconds:
            yield Finding(
                Severity.WARNING, Kind.ROWS_BEHIND, str(view.name),
                f"The rows of {view.name} at store {store} are {behind:,} messages and "
                f"{seconds:,.1f} s behind what is stable.",
                "Queries there have old answers, and those with at_least wait.",
                "Wait if the store has just started, or its topic got other keys. Otherwise give "
                "it more of the processor, and look at its log: it may wait for a peer.",
            )  # fmt: skip


def rows_differ(topic: str, digests: Mapping[str, RowDigest]) -> Iterator[Finding]:
    """Yield a finding for each position at which stores have different rows.

    digests: by store. Stores at different positions are not compared.
    """
    positions = {str(each.position) for each in digests.values()}
    for position in sorted(positions):
        by_digest: dict[bytes, list[str]] = {}
        for store, each in digests.items():
            if str(each.position) == position:
                by_digest.setdefault(each.digest, []).append(store)
        if len(by_digest) > 1:
            yield _differ(topic, sorted(by_digest.values(), key=len, reverse=True), digests)


def _differ(topic: str, parts: list[list[str]], digests: Mapping[str, RowDigest]) -> Finding:
    """Return the finding. parts: the stores that agree with each other, most of them first."""
    said = "; ".join(f"{digests[part[0]].count:,} at {', '.join(sorted(part))}" for part in parts)
    most, *others = parts
    odd = ", ".join(sorted(store for part in others for store in part))
    step = (
        f"Stop {odd}, move its data directory away and start it: it makes its rows anew."
        if len(most) > len(others[0])
        else "Compare single rows: `quorate state get` with one of the stores in --stores."
    )
    return Finding(
        Severity.CRITICAL, Kind.ROWS, topic,
        f"Stores have different rows of topic {topic} at one position: {said}.",
        "Queries get other answers from one store than from another. A disk has changed rows, or a "
        "store has made them wrongly.",
        step,
    )  # fmt: skip
