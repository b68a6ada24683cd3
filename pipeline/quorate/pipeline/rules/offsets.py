"""Offsets of a streaming read: a vector with the next sequence number of each source.

Spark keeps vectors as JSON and compares them as text, so they are always sorted. A source that a
vector does not name has not been read, and begins at 0. So a source that appears while a query runs
is read from its beginning. Two vectors alone determine the ranges between them. Nothing here asks
a store.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorate.pipeline.errors import OffsetsBehind
from quorate.pipeline.options import parse_source
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX

Vector = Mapping[SourceName, int]
"""The next sequence number of each source."""


def to_json(vector: Vector) -> dict[str, int]:
    """Return the vector as Spark keeps it: `{"topic/0x10": next}`, sorted."""
    return {str(source): vector[source] for source in sorted(vector)}


def from_json(entries: Mapping[str, int]) -> dict[SourceName, int]:
    """Return the vector that Spark kept. Raises InvalidArgument."""
    for name, number in entries.items():
        if type(number) is not int or not 0 <= number <= SEQUENCE_MAX:
            raise InvalidArgument("offset", f"{name} cannot be at {number!r}")
    return {parse_source(name): number for name, number in entries.items()}


def forward(start: Vector, end: Vector) -> dict[SourceName, tuple[int, int]]:
    """Return the half-open range of each source between two vectors, without empty ranges.

    Raises OffsetsBehind if a source would go back.
    """
    ranges = {}
    for source in sorted(end):
        begin, until = start.get(source, 0), end[source]
        if begin > until:
            raise OffsetsBehind(str(source), begin, until)
        if begin < until:
            ranges[source] = (begin, until)
    return ranges


def latest(start: Vector, stable_until: Vector) -> dict[SourceName, int]:
    """Return how far a query can read now.

    It never goes back, even if only a lagging store answers.
    """
    sources = {*start, *stable_until}
    return {source: max(start.get(source, 0), stable_until.get(source, 0)) for source in sources}


def limited(start: Vector, end: Vector, messages_max: int) -> dict[SourceName, int]:
    """Return the end of the next messages_max messages.

    Each source gets a share in proportion to the messages that it has left.
    """
    backlog = {source: until - begin for source, (begin, until) in forward(start, end).items()}
    total = sum(backlog.values())
    if total <= messages_max:
        return dict(end)
    shares = {source: count * messages_max // total for source, count in backlog.items()}
    # The sources with most messages left get one message each of what rounding left over.
    left = messages_max - sum(shares.values())
    for source in sorted(backlog, key=lambda each: (shares[each] - backlog[each], each))[:left]:
        shares[source] += 1
    return {source: start.get(source, 0) + shares.get(source, 0) for source in end}


def limited_by_bytes(
    start: Vector, end: Vector, message_bytes: Mapping[SourceName, float], bytes_max: int
) -> dict[SourceName, int]:
    """Return the end of about the next bytes_max bytes, and of one message at least.

    Each source gets a share in proportion to the messages that it has left.

    message_bytes: the rough size of a message of each source; a missing source counts as 0 bytes.
    """
    backlog = forward(start, end)
    size = sum(
        message_bytes.get(source, 0.0) * (until - first)
        for source, (first, until) in backlog.items()
    )
    if size <= bytes_max:
        return dict(end)
    messages = sum(until - first for first, until in backlog.values())
    return limited(start, end, max(1, int(messages * bytes_max / size)))
