"""Requests that a client can make long: each list in them is bounded, and read in slices.

A longer one is refused before anything of it is read. The time that a stream waits for a request is
bounded, too. The meaning of a list is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import Message

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Closed, InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    ACKNOWLEDGEMENTS_MAX,
    ARCHIVED_PLACES_MAX,
    LINEAGE_TERMS_MAX,
    RANGES_MAX,
    SEQUENCE_MAX,
)
from quorate.protocol.lineage import NO_LINEAGE, ArchivedPlace, Lineage, Term
from quorate.protocol.wire import (
    begin_from_wire,
    begin_to_wire,
    lineage_from_wire,
    lineage_to_wire,
    source_from_wire,
)
from quorate.store.turns import Turn
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

Request = TypeVar("Request")
_DESCRIPTION_BYTES_MAX = 64 * 1024
"""Bytes of the largest description of a source or of its policies: some thousand stores."""
_TERMS_AT_ONCE = 512


def check_ranges(what: str, ranges: Sized) -> None:
    """Raise InvalidArgument if a request names more ranges than a store works through at once."""
    _check_count(what, len(ranges), RANGES_MAX)


def check_acknowledgements(acknowledgements: Sized) -> None:
    """Raise InvalidArgument if a request acknowledges for too many sources."""
    _check_count("acknowledgements", len(acknowledgements), ACKNOWLEDGEMENTS_MAX)


def check_terms(entries: Sized) -> None:
    """Raise InvalidArgument if a lineage is too long."""
    _check_count("lineage", len(entries), LINEAGE_TERMS_MAX)


def check_description(what: str, described: Message) -> None:
    """Raise InvalidArgument if a source describes itself, or its policies, at too great length."""
    if (size := described.ByteSize()) > _DESCRIPTION_BYTES_MAX:
        raise InvalidArgument(what, f"has {size:,} bytes; {_DESCRIPTION_BYTES_MAX:,} are the most")


async def archived_places(
    entries: Sequence[store_v1.ArchivedPlace], turn: Turn
) -> dict[SourceName, ArchivedPlace]:
    """Return how far an archive has each source that a request names. Raises InvalidArgument.

    turn: the turns of this call.
    """
    _check_count("archived", len(entries), ARCHIVED_PLACES_MAX)
    places: dict[SourceName, ArchivedPlace] = {}
    for at in range(0, len(entries), _TERMS_AT_ONCE):
        for each in entries[at : at + _TERMS_AT_ONCE]:
            places[source_from_wire(each.source)] = ArchivedPlace(each.upto, each.epoch)
        await turn.pause()
    return places


async def lineage_of(entries: Sequence[v1.LineageEntry], turn: Turn) -> Lineage:
    """Return the lineage that a request names. Raises InvalidArgument.

    turn: the turns of this call.
    """
    check_terms(entries)
    terms: list[Term] = []
    for at in range(0, len(entries), _TERMS_AT_ONCE):
        # The last term of the slice before is read again: the terms must ascend over it, too.
        part = lineage_from_wire(entries[max(at - 1, 0) : at + _TERMS_AT_ONCE]).terms
        terms += part[1:] if at else part
        await turn.pause()
    if terms and terms[-1].first > SEQUENCE_MAX:
        raise InvalidArgument("lineage", f"{terms[-1].first} is not a sequence number")
    return Lineage(tuple(terms))


async def lineage_entries(lineage: Lineage, turn: Turn) -> list[v1.LineageEntry]:
    """Return the entries of an answer. turn: the turns of this call."""
    entries: list[v1.LineageEntry] = []
    for at in range(0, len(lineage.terms), _TERMS_AT_ONCE):
        entries += lineage_to_wire(Lineage(lineage.terms[at : at + _TERMS_AT_ONCE]))
        await turn.pause()
    return entries


async def begin_of(wire: v1.BeginRecord, turn: Turn) -> BeginRecord:
    """Return the begin record that a request names. Raises InvalidArgument.

    turn: the turns of this call.
    """
    check_description("membership", wire.membership)
    return begin_from_wire(wire, await lineage_of(wire.lineage, turn))


async def begin_entry(begun: BeginRecord, turn: Turn) -> v1.BeginRecord:
    """Return the message of a begin record for an answer. turn: the turns of this call."""
    wire = begin_to_wire(replace(begun, lineage=NO_LINEAGE))
    wire.lineage.extend(await lineage_entries(begun.lineage, turn))
    return wire


async def in_time(request: Awaitable[Request], seconds: float, what: str) -> Request:
    """Return the next request of a stream. Raises Closed if the client says nothing for so long.

    what: the call.
    """
    try:
        async with asyncio.timeout(seconds):
            return await request
    except TimeoutError:
        silence = f"its client said nothing for {seconds:g} s"
        raise Closed(f"The stream of a call of {what} ({silence})") from None


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidArgument(what, f"has {count:,} entries; {most:,} are the most in one request")
