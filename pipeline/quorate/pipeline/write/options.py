"""The options of `df.write.format("quorate")` and `writeStream`, as checked values.

quorate.pipeline.options has what the options of reading share with these. Nothing here asks a
store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.pipeline.options import Options, named_stores, parse_boolean, parse_seconds
from quorate.pipeline.rules.resuming import WriteBatch
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import check_topic
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import parse_group

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a write."""

    layout: Layout
    """The stores, and the policy by which a row is stable."""
    topic: str
    """The topic of all rows; empty: the column `topic` has it."""
    write_id: str
    """The user's write ID; empty: a batch write draws one, and a stream takes its query's ID."""
    batch: int
    """The number of a batch write among all with its write ID."""
    timeout: float
    """Seconds that a task waits for enough stores before it fails."""
    state_lifetime: float | None
    """Seconds without activity after which a source of the write ends; None: never."""
    fail_on_rows_differ: bool
    """Refuse rows that come back different; if not, they are written besides those that are there:
    each row is then there at least once."""


def write_options(given: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Return the checked options of a write.

    Raises InvalidArgument if an option is missing, unreadable or unknown, or contradicts another.
    """
    options = Options(given)
    made = WriteOptions(
        layout=_layout(options),
        topic=options.parsed("topic", check_topic, ""),
        write_id="" if streaming else options.parsed("writeId", str, ""),
        batch=0 if streaming else options.parsed("batchId", int, 0),
        timeout=options.parsed("timeout", parse_seconds, TIMEOUT_SECONDS),
        state_lifetime=options.parsed("stateLifetime", parse_seconds, None),
        fail_on_rows_differ=options.parsed("failOnRowsDiffer", parse_boolean, True),
    )
    if streaming:
        for name in ("writeId", "batchId"):
            if name in options:
                raise InvalidArgument(
                    f"option {name}",
                    "is for batch writes; a stream is identified by its checkpoint",
                )
    elif made.write_id:
        WriteBatch(made.write_id, made.batch)
    elif "batchId" in options:
        raise InvalidArgument("option batchId", "is the number of a batch of writeId; give both")
    options.check_all_known()
    return made


def _layout(options: Options) -> Layout:
    groups = [parse_group(text) for text in options.get("groups", "").split()]
    stores = options.get("stores", "").strip() if groups else named_stores(options)
    rule = options.get("intergroup", "").strip()
    if bool(stores) == bool(groups):
        raise InvalidArgument(
            "option stores",
            "is part of the option groups when that is given; give one"
            if stores
            else "is missing; name them as a=host:port,b=host:port,…",
        )
    if groups:
        return Layout.of(*groups, rule=rule or "any")
    if rule:
        raise InvalidArgument(
            "option intergroup", "has no effect without the option groups; give both"
        )
    return Layout.plain(stores)
