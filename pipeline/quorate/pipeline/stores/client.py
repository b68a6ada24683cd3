"""A client of the stores for code without asyncio: which sources they know, and their messages.

Nothing here knows Spark. An object of this module is small and can be pickled. A channel is made
when it is first used, and lives as long as the process.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Self

import grpc

from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import SourceRange
from quorate.pipeline.stores.fetch import fetch, reason
from quorate.pipeline.timeouts import TIMEOUTS, Timeouts
from quorate.protocol.answers import Piece
from quorate.protocol.errors import (
    InvalidArgument,
    QuorateError,
    Unreachable,
    VersionMismatch,
    joined,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    ARCHIVED_PLACES_MAX,
    ARCHIVED_SOURCES_MAX,
    PROTOCOL_VERSION,
)
from quorate.protocol.lineage import ArchivedPlace, Lineage
from quorate.protocol.ranges import RangeSet
from quorate.protocol.recovery import released_below
from quorate.protocol.tls import Tls, tls_of_environment
from quorate.protocol.wire import (
    begin_from_wire,
    begun_epoch,
    held_from_wire,
    lineage_from_wire,
    markers_from_wire,
    source_from_wire,
    source_to_wire,
)
from quorate.transport.channels import open_blocking_channel
from quorate.transport.credentials import paths_of
from quorate.transport.failures import error_from_blocking_call
from quorate.transport.fetch import BlockingCall
from quorate.transport.watched_files import Stamp, stamp_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

if TYPE_CHECKING:
    import pyarrow as pa

_channels: dict[tuple[int, str, Tls | None, Stamp], grpc.Channel] = {}
"""Channels by process, address, and TLS files. No channel survives a fork, or new files."""


def channel_to(address: str) -> grpc.Channel:
    """Return this process's channel to a store; secure if the environment of the process says so.

    A task runs in a process that Spark starts, to which the driver hands nothing but its work.
    """
    tls = tls_of_environment(os.environ)
    key = (os.getpid(), address, tls, stamp_of(paths_of(tls)))
    channel = _channels.get(key)
    if channel is None:
        channel = _channels[key] = open_blocking_channel(address, tls)
    return channel


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The sources that the answering stores know."""

    sources: dict[SourceName, KnownSource]
    answered: tuple[str, ...]
    """Addresses of the stores that answered."""
    silent: dict[str, QuorateError]
    """By address, the error of each store that did not answer."""
    limbo: tuple[str, ...]
    """Addresses of the stores that answered and are in limbo."""


class Stores:
    """The stores of a group, by their addresses.

    A user names some of them. These tell of others, which are asked when the named ones do not
    answer, or do not hold a message.
    """

    def __init__(
        self, addresses: Sequence[str], topic_pattern: str = "", timeouts: Timeouts = TIMEOUTS
    ) -> None:
        """addresses: host:port of each store. Raises InvalidArgument if there is none.

        - topic_pattern: a regular expression; only sources whose whole topic it matches are asked
          for. Empty: all.
        - timeouts: how long the stores are waited for.
        """
        if not addresses:
            raise InvalidArgument("stores", "none given; name them as a=host:port,b=host:port,…")
        self.addresses = tuple(addresses)
        self.topic_pattern = topic_pattern
        self.timeouts = timeouts
        self.others: dict[SourceName, tuple[str, ...]] = {}
        """By source, the stores that no user named and that an answering store told of."""

    def knowing(self, others: Mapping[SourceName, tuple[str, ...]]) -> Self:
        """Add the other stores that an object in another process learned of; return self."""
        self.others.update(others)
        return self

    def all_others(self) -> tuple[str, ...]:
        """Return the addresses of all stores that no user named, for every source."""
        return tuple(sorted({each for others in self.others.values() for each in others}))

    def sources(self) -> Catalogue:
        """Return the sources that the answering stores know.

        Raises Unreachable if no store answers, VersionMismatch if none speaks this version.
        """
        return self.sources_within(self.timeouts.answer_seconds)

    def sources_with_news(self, archived: Mapping[SourceName, ArchivedPlace]) -> Catalogue:
        """Return the sources of which something is new to an archive, and those it does not have.

        archived: how far the archive has its sources. A source without news is left out. It is
        stable up to there and no further, and each store that knows it was told so.
        Raises as `sources`.
        """
        said: _Said = {}
        for page in _pages(archived):
            answers = self._news(page)
            if answers is None:
                # Stores that no user named may know more, and all answers say who these are.
                return self.sources()
            for address, some in answers.items():
                said.setdefault(address, []).extend(some)
        self._learn(said)
        return _catalogue(said, {})

    def _news(self, page: _Page) -> _Said | None:
        """Return the answers of the named stores about a page; None if one of them is silent."""
        while True:
            said, silent = self._inventories(self.addresses, self.timeouts.answer_seconds, page)
            if silent:
                return None
            differing = _differing(said, page.archived)
            if not differing:
                return said
            # The store that left one of them out is to tell of it, too, if it knows it.
            page = replace(
                page,
                archived={
                    name: each for name, each in page.archived.items() if name not in differing
                },
            )

    def sources_within(self, grace: float) -> Catalogue:
        """Return the sources as `sources` does, but wait less for slow stores.

        grace: seconds to wait for each next answer once one store has answered.
        """
        said, silent = self._inventories(self.addresses, grace)
        self._learn(said)
        if silent:
            more, silent_too = self._inventories(self.all_others(), grace)
            self._learn(more)
            said, silent = {**said, **more}, {**silent, **silent_too}
        return _catalogue(said, silent)

    def _inventories(
        self,
        addresses: Sequence[str],
        grace: float,
        page: _Page | None = None,
    ) -> tuple[_Said, dict[str, QuorateError]]:
        """Return the answers of these stores, and the errors of the others, by address.

        page: the sources to ask for; None: all.
        """
        page = page or _Page({}, None, None)
        request = store_v1.InventoryRequest(
            protocol_version=PROTOCOL_VERSION,
            topic_pattern=self.topic_pattern,
            archived=(
                store_v1.ArchivedPlace(
                    source=source_to_wire(name), upto=each.upto, epoch=each.epoch
                )
                for name, each in page.archived.items()
            ),
            begin=None if page.begin is None else source_to_wire(page.begin),
            before=None if page.before is None else source_to_wire(page.before),
        )
        return _answers(addresses, request, self.timeouts.answer_seconds, grace)

    def _learn(self, said: _Said) -> None:
        for source in (each for answers in said.values() for each in _sources(answers)):
            named = (*source.information.stores, *source.begun.membership.stores)
            others = {each.address for each in named}.difference(self.addresses, [""])
            if others:
                name = source_from_wire(source.source)
                self.others[name] = tuple(sorted(others.union(self.others.get(name, ()))))

    def first_since(self, source: SourceName, time_ns: int) -> int:
        """Return the first number of a source that was sent at a time or later.

        time_ns: ns since 1970 by the clock of the source.
        Raises as `sources` if no store that knows the source answers.
        """
        request = store_v1.LocateRequest(
            source=source_to_wire(source), time_ns=time_ns, protocol_version=PROTOCOL_VERSION
        )
        found, silent = _located(self.addresses, request, self.timeouts.answer_seconds)
        if silent:
            others = self.others.get(source, ())
            more, silent_too = _located(others, request, self.timeouts.answer_seconds)
            found, silent = [*found, *more], {**silent, **silent_too}
        if not found:
            raise nobody(silent)
        # A store that lacks messages answers too low a number, so the highest answer is right.
        return max(found)

    def message_bytes(self, source: SourceName, lineage: Lineage, first: int) -> float:
        """Return the mean bytes of a message in the batch that has this number.

        The number must be stable. Raises as fetch.
        """
        order = self._order(source, 0)
        fetched = fetch(call_fetch, order, source, lineage, first, first, self.timeouts)
        with closing(fetched) as pieces:
            piece = next(pieces)
        header = piece.header
        return (len(piece.frame) - header.body_at) / (header.last - header.first + 1)

    def fetch(
        self, source: SourceName, lineage: Lineage, first: int, last: int, turn: int = 0
    ) -> Generator[Piece, None, None]:
        """Yield the messages [first, last], each once and in order; they must be stable.

        - lineage: the lineage of the source in its KnownSource.
        - turn: a number that decides which store the reader asks first.

        Raises as quorate.pipeline.stores.fetch.fetch.
        """
        order = self._order(source, turn)
        return fetch(call_fetch, order, source, lineage, first, last, self.timeouts)

    def _order(self, source: SourceName, turn: int) -> list[str]:
        turn %= len(self.addresses)
        others = self.others.get(source, ())
        return [*self.addresses[turn:], *self.addresses[:turn], *others]

    def tell_archived(self, archived: Mapping[SourceName, int]) -> dict[str, QuorateError]:
        """Tell every store up to which number an archive holds each source.

        A store may then release these messages. Returns, by address, why a store was not told all.
        A store refuses a number of which it does not yet know that so much is stable. It is not
        among the returned ones, because it is told the next time.
        """
        failed: dict[str, QuorateError] = {}
        for address in (*self.addresses, *self.all_others()):
            told = [
                store_v1.ArchivedSource(source=source_to_wire(source), upto=upto)
                for source, upto in archived.items()
                if address in self._order(source, 0)
            ]
            for each in range(0, len(told), ARCHIVED_SOURCES_MAX):
                request = store_v1.ArchivedRequest(
                    sources=told[each : each + ARCHIVED_SOURCES_MAX],
                    protocol_version=PROTOCOL_VERSION,
                )
                try:
                    stub_of(address).Archived(request, timeout=self.timeouts.answer_seconds)
                except grpc.RpcError as error:
                    failed[address] = error_from_blocking_call(address, error)
                    break
        return failed

    def parted(self, known: KnownSource, wanted: SourceRange) -> Iterator[SourceRange]:
        """Split a range into parts that are read from the stores and parts that are archived.

        `fetch` reads the former, `archived_rows` the latter. Without an archive, all of the range
        is read from the stores.
        """
        del known
        return iter((wanted,))

    def archived_rows(self, wanted: SourceRange, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an archived part; without an archive there is none."""
        raise AssertionError(f"no archive was given for {wanted} with {columns.names}")


_Said = dict[str, list[store_v1.InventoryResponse]]
"""By address, the answers of each store."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The sources between two of them, by name, and how far an archive has those that it has.

    A source of which nothing is new to the archive is left out of an answer.
    """

    archived: Mapping[SourceName, ArchivedPlace]
    begin: SourceName | None
    """The first source; None: there is no bound."""
    before: SourceName | None
    """The source before which the page ends; None: there is no bound."""


def _pages(archived: Mapping[SourceName, ArchivedPlace]) -> Iterator[_Page]:
    """Yield pages that have every source once, each with as many places as a request may name."""
    names = sorted(archived)
    starts = range(0, len(names), ARCHIVED_PLACES_MAX)
    begins = [None, *(names[at] for at in starts[1:]), None]
    for at, begin, before in zip(starts or (0,), begins, begins[1:], strict=False):
        some = names[at : at + ARCHIVED_PLACES_MAX]
        yield _Page({name: archived[name] for name in some}, begin, before)


def _sources(answers: Iterable[store_v1.InventoryResponse]) -> Iterator[store_v1.SourceInventory]:
    return chain.from_iterable(answer.sources for answer in answers)


def _answers(
    addresses: Sequence[str], request: store_v1.InventoryRequest, seconds: float, grace: float
) -> tuple[_Said, dict[str, QuorateError]]:
    """Return the answers of these stores, and the errors of the others, by address.

    - seconds: that a store may take for its answer.
    - grace: seconds to wait for each next answer once one store has answered.
    """
    heard: queue.Queue[tuple[str, list[store_v1.InventoryResponse] | QuorateError]] = queue.Queue()
    calls = {address: stub_of(address).Inventory(request, timeout=seconds) for address in addresses}
    for address, call in calls.items():
        threading.Thread(target=_hear, args=(address, call, heard), daemon=True).start()
    said: _Said = {}
    silent: dict[str, QuorateError] = {}
    while len(said) + len(silent) < len(calls):
        try:
            address, answer = heard.get(timeout=grace if said else None)
        except queue.Empty:
            break
        if isinstance(answer, QuorateError):
            silent[address] = answer
        else:
            said[address] = answer
    for address in calls.keys() - said.keys() - silent.keys():
        calls[address].cancel()
        silent[address] = Unreachable(address, "it did not answer in time")
    return said, silent


def _differing(said: _Said, archived: Mapping[SourceName, ArchivedPlace]) -> set[SourceName]:
    """Return the sources of an archive that some stores named, and others did not."""
    named = [
        archived.keys() & {source_from_wire(each.source) for each in _sources(answers)}
        for answers in said.values()
    ]
    by_all = named[0].intersection(*named)
    return by_all.union(*named).difference(by_all)


def _catalogue(said: _Said, silent: dict[str, QuorateError]) -> Catalogue:
    """Return what these stores say together. Raises as Stores.sources."""
    if not said:
        raise nobody(silent)
    limbo = tuple(
        address
        for address, answers in said.items()
        if any(answer.HasField("store") and answer.store.limbo for answer in answers)
    )
    return Catalogue(_merged(said), tuple(said), silent, limbo)


def _hear(
    address: str,
    call: Iterable[store_v1.InventoryResponse],
    heard: queue.Queue[tuple[str, list[store_v1.InventoryResponse] | QuorateError]],
) -> None:
    try:
        heard.put((address, list(call)))
    except grpc.RpcError as error:
        heard.put((address, error_from_blocking_call(address, error)))


def _located(
    addresses: Sequence[str], request: store_v1.LocateRequest, seconds: float
) -> tuple[list[int], dict[str, QuorateError]]:
    """Return the numbers that stores answered, and the errors of the others by address."""
    calls = {
        address: stub_of(address).Locate.future(request, timeout=seconds) for address in addresses
    }
    found: list[int] = []
    silent: dict[str, QuorateError] = {}
    for address, call in calls.items():
        try:
            found.append(call.result().sequence)
        except grpc.RpcError as error:
            silent[address] = error_from_blocking_call(address, error)
    return found, silent


def nobody(silent: Mapping[str, QuorateError]) -> Unreachable | VersionMismatch:
    """Return the error for the case that every store failed; silent: its error, by address."""
    for why in silent.values():
        # Such a store runs, so asking it again would not help.
        if isinstance(why, VersionMismatch):
            return why
    reasons = dict.fromkeys(map(reason, silent.values()))
    return Unreachable(", ".join(silent), joined(reasons))


def stub_of(address: str) -> StoreStub:
    """Return the stub that calls a store."""
    return StoreStub(channel_to(address))


def call_fetch(address: str, request: v1.FetchRequest) -> BlockingCall:
    """Call Fetch of the store at that address."""
    call: BlockingCall = stub_of(address).Fetch(request)
    return call


def _merged(said: _Said) -> dict[SourceName, KnownSource]:
    by_name: dict[SourceName, list[tuple[str, store_v1.SourceInventory]]] = {}
    for address, answers in said.items():
        for known in _sources(answers):
            if begin_from_wire(known.begun).goes_on:
                by_name.setdefault(source_from_wire(known.source), []).append((address, known))
    return {name: _merge(name, by_name[name]) for name in sorted(by_name)}


def _merge(name: SourceName, known: Iterable[tuple[str, store_v1.SourceInventory]]) -> KnownSource:
    known = list(known)
    # Only for stable numbers is it certain which epoch is in force. A newer epoch may have begun
    # at a store that was cut off, without ever making anything stable.
    told = max(
        (each for _, each in known), key=lambda each: (each.stable_upto, begun_epoch(each.begun))
    )
    lineage, stable_upto = lineage_from_wire(told.begun.lineage), told.stable_upto
    held, lost = RangeSet(), RangeSet()
    for _, each in known:
        held = held.union(lineage.belonging(held_from_wire(each.held)))
        lost = lost.union(lineage.belonging(held_from_wire(each.accepted_losses)))
    high = held.high
    if high > stable_upto:
        held.remove(stable_upto + 1, high)
    newest = max((each.information for _, each in known), key=lambda one: (one.epoch, one.version))
    return KnownSource(
        name,
        lineage,
        stable_upto,
        held,
        high,
        newest,
        any(each.live for _, each in known),
        tuple(address for address, _ in known),
        told.begun.membership,
        max(each.promised_epoch for _, each in known),
        told.reg_id,
        lineage.parted(lost.minus(held)),
        max(_released_below(lineage, each) for _, each in known),
        markers_from_wire(told.markers),
        max(map(_message_bytes, (each for _, each in known))),
        min(each.archived_upto for _, each in known),
    )


def _message_bytes(known: store_v1.SourceInventory) -> float:
    messages = held_from_wire(known.held)
    count = sum(each.last - each.first + 1 for each in messages)
    return known.journal_bytes / count if count else 0.0


def _released_below(lineage: Lineage, known: store_v1.SourceInventory) -> int:
    theirs = lineage_from_wire(known.begun.lineage)
    return released_below(lineage, theirs, known.retained_from, known.stable_upto)
