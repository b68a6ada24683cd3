"""What is in a topic, read from the stores without Spark: every message that is stable, once."""

from __future__ import annotations

from collections.abc import Iterator

from tests.pipeline.group import Group

from quorate.pipeline.stores.client import Stores
from quorate.protocol.framing import read_payloads
from quorate.protocol.identity import SourceName


def by_source(group: Group, topic: str) -> dict[SourceName, list[bytes]]:
    """The payloads of each source of the topic, in order, from the first on."""
    return {
        name: list(_payloads(group, name))
        for name in Stores(group.addresses).sources().sources
        if name.topic == topic
    }


def payloads(group: Group, topic: str) -> list[bytes]:
    """All payloads of the topic, sorted."""
    return sorted(payload for each in by_source(group, topic).values() for payload in each)


def _payloads(group: Group, name: SourceName) -> Iterator[bytes]:
    stores = Stores(group.addresses)
    known = stores.sources().sources[name]
    if known.stable_upto < 0:
        return
    for piece in stores.fetch(name, known.lineage, 0, known.stable_upto):
        messages = read_payloads(piece.frame, piece.header)
        yield from messages[piece.first - piece.header.first : piece.last + 1 - piece.header.first]
