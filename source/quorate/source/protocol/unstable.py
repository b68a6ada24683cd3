"""The messages of a source that are not known to be stable, for an application to send again.

Pure. Which messages are stable is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, count, repeat
from typing import NamedTuple

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.fragments import Batch, LargeBatch, header_of
from quorate.protocol.framing import read_contents
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.frames import Packed


class UnstableMessage(NamedTuple):
    """A message that was accepted and is not known to be stable.

    Stores may have it all the same: they may have acknowledged it to nobody.
    """

    sequence: int
    """The number that the call which sent the message returned."""
    payload: bytes
    key: bytes | None
    properties: Mapping[str, bytes]
    expires: datetime | None = None
    """The time at which it expires; None: never."""
    deleted: bool = False
    """Whether it deletes the row of its key in the state of the world."""


def all_unstable(
    batches: Iterable[Batch], packed: Packed | None, window: Window, stable_upto: int
) -> list[UnstableMessage]:
    """Return the messages above stable_upto, in order.

    - batches: those that were released to the wire.
    - packed: the one that is on its way to the publish store.
    - window: has the messages behind that.
    """
    with window.lock:
        found = in_batches(batches, stable_upto)
        if packed is not None:
            found += in_batches([packed.batch], stable_upto)
        return found + _numbered(window.gathered_from, window.payloads, window.attributes)


def accepted_upto(batches: Sequence[Batch], window: Window) -> int:
    """Return the highest number of a message that was accepted; -1: none.

    batches: those that a registration is to send again, which the window may not count.
    """
    newest = window.next_sequence - 1
    return max(newest, header_of(batches[-1]).last) if batches else newest


def in_batches(batches: Iterable[Batch], above: int) -> list[UnstableMessage]:
    """Return the messages of these batches above a number, in order."""
    found: list[UnstableMessage] = []
    for batch in batches:
        header = header_of(batch)
        first = max(header.first, above + 1)
        if first > header.last:
            continue
        if isinstance(batch, LargeBatch):
            contents = [batch.message()]
        else:
            contents = read_contents(batch, header, first, header.last)
        found += _numbered(first, *zip(*contents, strict=True))
    return found


def _numbered(
    first: int, payloads: Sequence[bytes], attributes: Sequence[Attributes]
) -> list[UnstableMessage]:
    """Return consecutive messages. The later ones may have no entry in `attributes`."""
    filled = chain(attributes, repeat(NO_ATTRIBUTES))
    return [
        UnstableMessage(
            number,
            payload,
            own.key,
            dict(own.properties),
            own.expires,
            own.deleted,
        )
        for number, payload, own in zip(count(first), payloads, filled, strict=False)
    ]
