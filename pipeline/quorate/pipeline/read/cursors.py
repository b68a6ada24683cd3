"""Cursors: the progress of a query, kept by the stores under a name.

To the stores a cursor is a receiver, so they show its lag. Its session ID is computed from its
name. A query that uses a cursor takes it over from the query that used it before. Nothing here
decides what a query reads.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Mapping

import grpc

from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.offsets import (
    Vector,
    from_json,
)
from quorate.pipeline.stores.client import Stores, nobody, stub_of
from quorate.protocol.errors import Fenced, NotRegistered, QuorateError
from quorate.protocol.identity import SourceName, parse_addresses
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION, SESSION_ID_MAX
from quorate.protocol.wire import source_from_wire, source_to_wire
from quorate.transport.failures import error_from_blocking_call, failure_from_wire
from quorate.v1 import store_pb2 as store_v1

LIFE_SECONDS = 3.0
"""Seconds between the signs of life of a cursor that does not move."""


def session_id_of(name: str) -> int:
    """Return the session ID of the receiver that a cursor is to the stores."""
    digest = hashlib.sha256(b"quorate cursor " + name.encode()).digest()
    return int.from_bytes(digest[:8], "big") % SESSION_ID_MAX + 1


def acknowledge(stores: str, cursor: str, offsets: Mapping[str, int]) -> None:
    """Move a cursor to the offsets in a query's progress.

    A job calls this when its query has ended, because Spark does not commit the last batch.
    stores: the addresses, as in the option. Raises InvalidArgument, Unreachable.
    """
    known = Stores(parse_addresses(stores))
    sources = known.sources().sources
    vector = from_json(offsets)
    moved = Cursor(known, cursor)
    moved.register(known for name, known in sources.items() if name in vector)
    moved.acknowledge(vector)


class Cursor:
    """A cursor, as one query uses it. The object is small and can be pickled."""

    def __init__(self, stores: Stores, name: str) -> None:
        self.name = name
        self.session_id = session_id_of(name)
        self._stores = stores
        self._instance = uuid.uuid4().bytes
        self._epochs: dict[SourceName, int] = {}
        self._source_epochs: dict[SourceName, int] = {}
        self._upto: dict[SourceName, int] = {}
        """By source, the highest number that this object acknowledged."""
        self._told_at = 0.0

    def register(self, sources: Iterable[KnownSource]) -> dict[SourceName, int]:
        """Take the cursor over for these sources.

        Returns the next number to read of each source at which the cursor has been before.
        A source that no store knows any longer is left out: the cursor needs no position there.
        Raises Unreachable if no store of a source answers.
        """
        found: dict[SourceName, int] = {}
        for known in sources:
            self._source_epochs[known.name] = known.lineage.epoch
            if known.name in self._epochs or not known.stores:
                continue
            answers = self._registered(known)
            positions = [answer.acknowledged_upto for answer in answers if answer.known]
            if positions:
                # A query acknowledges only what Spark has finished, so the highest position is
                # right.
                found[known.name] = max(positions) + 1
        return found

    def holds(self, source: SourceName) -> bool:
        """Return whether this object has taken the cursor over for the source."""
        return source in self._epochs

    def _registered(self, known: KnownSource) -> list[store_v1.RegisterReceiverResponse]:
        epoch = 1
        while True:
            answers, higher = self._ask(known, epoch)
            if higher < epoch:
                self._epochs[known.name] = epoch
                return answers
            epoch = higher + 1

    def _ask(
        self, known: KnownSource, epoch: int
    ) -> tuple[list[store_v1.RegisterReceiverResponse], int]:
        """Return the stores' answers, and the highest epoch that a refusing store has promised."""
        request = store_v1.RegisterReceiverRequest(
            source=source_to_wire(known.name),
            session_id=self.session_id,
            epoch=epoch,
            protocol_version=PROTOCOL_VERSION,
            instance=self._instance,
            take_over=True,
        )
        seconds = self._stores.timeouts.answer_seconds
        calls = [
            (address, stub_of(address).RegisterReceiver.future(request, timeout=seconds))
            for address in known.stores
        ]
        answers, higher = [], 0
        problems: dict[str, QuorateError] = {}
        for address, call in calls:
            try:
                answers.append(call.result())
            except grpc.RpcError as failed:
                error = error_from_blocking_call(address, failed)
                if isinstance(error, Fenced):
                    higher = max(higher, error.promised)
                problems[address] = error
        if not answers and not higher:
            raise nobody(problems)
        return answers, higher

    def acknowledge(self, vector: Vector) -> None:
        """Move the cursor: the query has finished all messages before these numbers.

        A source is left out if the cursor was not taken over for it. Raises Fenced if another
        query took the cursor over, Unreachable if no store answers.
        """
        moved = {
            source: until - 1
            for source, until in vector.items()
            if source in self._epochs and self._upto.get(source, NOTHING - 1) < until - 1
        }
        now = time.monotonic()
        if not moved and now - self._told_at < LIFE_SECONDS:
            return
        self._upto.update(moved)
        # Every source gets a sign of life, and a position only if the cursor moved there.
        for source in self._tell({**dict.fromkeys(self._epochs, NOTHING), **moved}):
            # A store was away, or lost its data. The next look registers the cursor there again.
            del self._epochs[source]
            self._upto.pop(source, None)
        self._told_at = now

    def _tell(self, positions: Mapping[SourceName, int]) -> set[SourceName]:
        """Send the positions. Return the sources at which a store does not know the cursor."""
        request = store_v1.AcknowledgeRequest(
            session_id=self.session_id,
            acknowledgements=[
                store_v1.Acknowledgement(
                    source=source_to_wire(source),
                    epoch=self._epochs[source],
                    upto=upto,
                    source_epoch=self._source_epochs[source],
                    instance=self._instance,
                )
                for source, upto in positions.items()
            ],
        )
        problems: dict[str, QuorateError] = {}
        for addresses in (self._stores.addresses, self._stores.all_others()):
            unknown = _told(addresses, request, self._stores.timeouts.answer_seconds, problems)
            if not problems.keys() >= set(addresses):
                return unknown
        raise nobody(problems)


def _told(
    addresses: Iterable[str],
    request: store_v1.AcknowledgeRequest,
    seconds: float,
    problems: dict[str, QuorateError],
) -> set[SourceName]:
    """Send the request to these stores, and put the error of each that fails into problems.

    seconds: that a store may take to answer.
    Returns the sources at which one of the stores does not know the cursor.
    """
    calls = [
        (address, stub_of(address).Acknowledge.future(request, timeout=seconds))
        for address in addresses
    ]
    unknown: set[SourceName] = set()
    for address, call in calls:
        try:
            unknown |= _not_registered(address, call.result().refused)
        except grpc.RpcError as error:
            problems[address] = error_from_blocking_call(address, error)
    return unknown


def _not_registered(
    address: str, refused: Iterable[store_v1.RefusedAcknowledgement]
) -> set[SourceName]:
    unknown = set()
    for each in refused:
        error = failure_from_wire(each.failure, address)
        if isinstance(error, Fenced):
            raise error
        if isinstance(error, NotRegistered):
            unknown.add(source_from_wire(each.source))
    return unknown
