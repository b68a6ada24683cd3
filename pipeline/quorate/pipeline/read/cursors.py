"""Progress under a name: kept in the stores as the position of a receiver, so that its lag shows.

A cursor is a receiver as far as the stores can tell; its session ID follows from its name. Whoever
uses a cursor takes it over from whoever used it before.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Mapping

import grpc

from quorate.pipeline.read.offsets import (
    Vector,
    from_json,
)
from quorate.pipeline.stores.client import (
    ANSWER_SECONDS_MAX,
    KnownSource,
    Stores,
    nobody,
    stub_of,
)
from quorate.protocol.errors import Fenced, NotRegistered, QuorateError
from quorate.protocol.identity import SourceName, parse_stores
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION, SESSION_ID_MAX
from quorate.protocol.wire import source_from_wire, source_to_wire
from quorate.transport.failures import error_from_blocking_call, failure_from_wire
from quorate.v1 import store_pb2 as store_v1

LIFE_SECONDS = 3.0
"""A cursor that does not move says so often that it is in use."""


def session_id_of(name: str) -> int:
    """The receiver's session ID of a cursor."""
    digest = hashlib.sha256(b"quorate cursor " + name.encode()).digest()
    return int.from_bytes(digest[:8], "big") % SESSION_ID_MAX + 1


def acknowledge(stores: str, cursor: str, offsets: Mapping[str, int]) -> None:
    """Move a cursor to where a query has come, as a query's progress has it.

    For jobs that end with a query: Spark does not tell a source of the last batch of all.
    stores: as the option. Raises InvalidArgument, Unreachable.
    """
    known = Stores([store.address for store in parse_stores(stores)])
    sources = known.sources().sources
    vector = from_json(offsets)
    moved = Cursor(known, cursor)
    moved.register(known for name, known in sources.items() if name in vector)
    moved.acknowledge(vector)


class Cursor:
    """One user's hold on a cursor. Small, and can be pickled."""

    def __init__(self, stores: Stores, name: str) -> None:
        self.name = name
        self.session_id = session_id_of(name)
        self._stores = stores
        self._instance = uuid.uuid4().bytes
        self._epochs: dict[SourceName, int] = {}
        self._source_epochs: dict[SourceName, int] = {}
        self._upto: dict[SourceName, int] = {}
        """What was acknowledged by this object."""
        self._told_at = 0.0

    def register(self, sources: Iterable[KnownSource]) -> dict[SourceName, int]:
        """Take hold of the cursor for these; where it is, for those that it was at before.

        A source that no store knows any more has no place for it, and none is needed.
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
                # Only what Spark is done with is acknowledged, at whichever store.
                found[known.name] = max(positions) + 1
        return found

    def holds(self, source: SourceName) -> bool:
        """Whether the cursor was taken hold of for this source."""
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
        """What stores answer, and the highest epoch that one of them holds against this."""
        request = store_v1.RegisterReceiverRequest(
            source=source_to_wire(known.name),
            session_id=self.session_id,
            epoch=epoch,
            protocol_version=PROTOCOL_VERSION,
            instance=self._instance,
            take_over=True,
        )
        calls = [
            (address, stub_of(address).RegisterReceiver.future(request, timeout=ANSWER_SECONDS_MAX))
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
        """Move the cursor: all before these numbers is done with.

        Sources that it was not taken hold of for are left out. Raises Fenced if another took the
        cursor over, Unreachable if no store answers.
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
        # That it lives is said of all of them; where it is only if it moved.
        for source in self._tell({**dict.fromkeys(self._epochs, NOTHING), **moved}):
            # A store lost what it had, or was away: it is told of the cursor with the next look.
            del self._epochs[source]
            self._upto.pop(source, None)
        self._told_at = now

    def _tell(self, positions: Mapping[SourceName, int]) -> set[SourceName]:
        """Returns those that a store does not know the cursor of."""
        request = store_v1.AcknowledgeRequest(
            session_id=self.session_id,
            acknowledgements=[
                store_v1.Acknowledgement(
                    source=source_to_wire(source),
                    epoch=self._epochs[source],
                    upto=upto,
                    source_epoch=self._source_epochs[source],
                )
                for source, upto in positions.items()
            ],
        )
        problems: dict[str, QuorateError] = {}
        for addresses in (self._stores.addresses, self._stores.all_others()):
            unknown = _told(addresses, request, problems)
            if not problems.keys() >= set(addresses):
                return unknown
        raise nobody(problems)


def _told(
    addresses: Iterable[str],
    request: store_v1.AcknowledgeRequest,
    problems: dict[str, QuorateError],
) -> set[SourceName]:
    """Tell these stores; returns what one of them does not know, and notes who has a problem."""
    calls = [
        (address, stub_of(address).Acknowledge.future(request, timeout=ANSWER_SECONDS_MAX))
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
