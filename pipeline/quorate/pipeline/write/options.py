"""The options of `df.write.format("quorate")` and `writeStream`: checked, as types.

Pure. What is common to the options of reading and writing is in quorate.pipeline.options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.pipeline.options import Options
from quorate.pipeline.write.resuming import Write
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import check_topic
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import parse_group

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where rows go, and how."""

    layout: Layout
    """The stores, and when a row is stable."""
    topic: str
    """Of all rows; empty: the column `topic` says it."""
    write_id: str
    """Chosen by the user; empty: drawn for each batch write, the query's for a stream."""
    batch: int
    """The number of a batch write among those with its write ID."""
    timeout: float
    """Seconds for which too few stores are borne with before a task fails."""
    state_lifetime: float | None
    """Seconds after which stores delete a source that was written to and left; None: never."""


def write_options(given: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Raises InvalidArgument for what is missing, not understood, not known, or contradictory."""
    options = Options(given)
    made = WriteOptions(
        layout=_layout(options),
        topic=options.parsed("topic", check_topic, ""),
        write_id="" if streaming else options.parsed("writeId", str, ""),
        batch=0 if streaming else options.parsed("batchId", int, 0),
        timeout=options.parsed("timeout", _seconds, TIMEOUT_SECONDS),
        state_lifetime=options.parsed("stateLifetime", _seconds, None),
    )
    if streaming:
        for name in ("writeId", "batchId"):
            if name in options:
                raise InvalidArgument(
                    f"option {name}", "is for batch writes; a stream is known by its checkpoint"
                )
    elif made.write_id:
        Write(made.write_id, made.batch)
    elif "batchId" in options:
        raise InvalidArgument("option batchId", "is the number of a batch of writeId; give both")
    options.check_all_known()
    return made


def _layout(options: Options) -> Layout:
    stores = options.get("stores", "").strip()
    groups = [parse_group(text) for text in options.get("groups", "").split()]
    rule = options.get("intergroup", "").strip()
    if bool(stores) == bool(groups):
        raise InvalidArgument(
            "option stores",
            "is part of the option groups when that is given; give one"
            if stores
            else "is missing; name them as host:port,host:port,…",
        )
    if groups:
        return Layout.of(*groups, rule=rule or "any")
    if rule:
        raise InvalidArgument("option intergroup", "is of no use without the option groups")
    return Layout.plain(stores)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidArgument("seconds", f"{text!r} is no number above 0")
    return seconds
