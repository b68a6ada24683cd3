"""Reading a range of a source's stream from the stores, from one after the other if need be.

Every batch is checked, and the numbers follow on each other without a hole and without a duplicate;
or it ends with an error that says who said what. Nothing here knows rows.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import grpc

from quorate.protocol.answers import AnswerReading
from quorate.protocol.errors import (
    BrokenAnswer,
    CorruptBatch,
    MessagesGone,
    MissingMessages,
    QuorateError,
    UnknownTopic,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.transport.failures import error_from_blocking_call
from quorate.v1 import messages_pb2 as v1

SILENCE_SECONDS_MAX = 5.0
"""A store that owes an answer and has said nothing for so long is taken for hung."""
PATIENCE_SECONDS = 10.0
"""While no store can be asked, or none can say, it is tried again for so long."""
TROUBLE_SECONDS = 30.0
"""A store that could not be reached, or hung, is the last to be asked for so long."""
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 1.0
_AHEAD = 8
"""So many responses are taken from a store before they are asked for: small ones, or with one large
batch each."""


class Call(Protocol):
    """The responses to a call under way."""

    def __iter__(self) -> Iterator[v1.FetchResponse]: ...

    def cancel(self) -> object: ...


Fetch = Callable[[str, v1.FetchRequest], Call]
"""Calls Fetch of the store at that address."""

_troubled: dict[str, float] = {}
"""By address, until when; of this process, whose tasks come one after the other."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A checked batch; [first, last] of it was asked for."""

    frame: bytes
    header: BatchHeader
    first: int
    last: int


@dataclass(slots=True)
class _Said:
    """What the stores said of the first number that is missing."""

    no: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Who knows that it does not have it, nor what follows up to there."""
    cannot_say: dict[str, str] = field(default_factory=dict)
    mismatched: dict[str, VersionMismatch] = field(default_factory=dict)
    """Of those that can not say, who never will."""
    lost: tuple[int, str] | None = None
    """As far as an operator accepted the loss, and who told."""

    def clear(self) -> None:
        self.no.clear()
        self.cannot_say.clear()
        self.mismatched.clear()
        self.lost = None


class _NotHere(Exception):
    """The store does not go on; others are to be asked."""


def fetch(
    call: Fetch,
    addresses: Sequence[str],
    source: SourceName,
    lineage: Lineage,
    first: int,
    last: int,
) -> Generator[Piece, None, None]:
    """The messages [first, last], each once and in order; they must be stable.

    addresses: of the stores, in the order in which they are to be asked.
    Raises MessagesGone if all stores say that they do not have what comes next, or an operator
    accepted its loss; MissingMessages if nobody has it and not all can say; VersionMismatch if all
    speak another version.
    """
    said = _Said()
    now = time.monotonic()
    addresses = sorted(addresses, key=lambda each: _troubled.get(each, now) > now)
    give_up_at, pause, silent = 0.0, _PAUSE_SECONDS, 0
    while True:
        address = addresses[0]
        addresses = [*addresses[1:], address]
        before = first
        try:
            with Answers(call, address, source, first, last) as answers:
                for piece in _pieces(answers, address, source, lineage, last, said):
                    yield piece
                    first = piece.last + 1
        except _NotHere:
            pass
        except QuorateError as error:
            _note(said, address, error, last)
        if first > last:
            return
        if first > before:
            # What was said was of another number, except by the one that has just ended.
            said = _only(said, address)
            silent = 1
            give_up_at, pause = 0.0, _PAUSE_SECONDS
            continue
        silent += 1
        if silent < len(addresses):
            continue
        if len(said.mismatched) == len(addresses):
            raise said.mismatched[address]
        _check_gone(said, addresses, source, first, last)
        now = time.monotonic()
        give_up_at = give_up_at or now + PATIENCE_SECONDS
        if now >= give_up_at:
            raise MissingMessages(str(source), first, last, _told(said.cannot_say))
        time.sleep(pause)
        pause, silent = min(2 * pause, _PAUSE_SECONDS_MAX), 0
        said.clear()


def _only(said: _Said, address: str) -> _Said:
    return _Said(
        {at: no for at, no in said.no.items() if at == address},
        {at: why for at, why in said.cannot_say.items() if at == address},
        {at: why for at, why in said.mismatched.items() if at == address},
        said.lost,
    )


def _pieces(
    answers: Iterable[tuple[str, v1.FetchAnswer]],
    address: str,
    source: SourceName,
    lineage: Lineage,
    last: int,
    said: _Said,
) -> Iterator[Piece]:
    """What a store gives without a break; notes what it says where that ends before last."""
    for kind, answer in answers:
        if kind == "fetched":
            piece = _piece(answer.fetched, address, source, lineage, last)
            yield piece
            if piece.last == last:
                return
        elif kind == "missing":
            _note_missing(said, address, answer.missing)
            raise _NotHere
        else:
            said.no[address] = (last, f"it has messages up to {answer.end.high} only")
            raise _NotHere


def _piece(
    fetched: v1.Fetched, address: str, source: SourceName, lineage: Lineage, last: int
) -> Piece:
    """What a store's answer brings of what was asked for; raises what is wrong with it."""
    frame = fetched.batch
    where = f"from {address}"
    header = check_batch(frame, where)
    begin, end = fetched.first, min(fetched.last, last)
    if header.source != source or not header.first <= begin <= end <= header.last:
        raise CorruptBatch(where, f"it is {header.source} [{header.first}, {header.last}]")
    if not lineage.epoch_at(begin) == header.epoch == lineage.epoch_at(end):
        raise Unreachable(address, f"it follows an outdated lineage of {source}")
    return Piece(frame, header, begin, end)


def _note_missing(said: _Said, address: str, missing: v1.Missing) -> None:
    detail = missing.detail or v1.Lookup.Name(missing.why)
    if missing.why == v1.LOOKUP_LOST:
        said.lost = (missing.last, f"{address}: {detail}")
    elif missing.why in (v1.LOOKUP_ABSENT, v1.LOOKUP_RELEASED):
        said.no[address] = (missing.last, detail)
    else:
        said.cannot_say[address] = detail


def _note(said: _Said, address: str, error: QuorateError, last: int) -> None:
    if isinstance(error, UnknownTopic):
        said.no[address] = (last, "it does not know the source")
    else:
        said.cannot_say[address] = reason(error)
    if isinstance(error, VersionMismatch):
        said.mismatched[address] = error
    if isinstance(error, Unreachable | BrokenAnswer):
        _troubled[address] = time.monotonic() + TROUBLE_SECONDS


def reason(why: QuorateError) -> str:
    """Why a store did not answer, for where its address is said already."""
    return why.detail if isinstance(why, Unreachable | BrokenAnswer) else str(why)


def _check_gone(
    said: _Said, addresses: Sequence[str], source: SourceName, first: int, last: int
) -> None:
    """Raise MessagesGone if it is known by now that nobody has what comes next."""
    if said.lost is not None:
        upto, evidence = said.lost
    elif all(address in said.no for address in addresses):
        upto = min(last for last, _ in said.no.values())
        evidence = _told({address: detail for address, (_, detail) in said.no.items()})
    else:
        return
    raise MessagesGone(str(source), first, min(upto, last), evidence)


def _told(details: dict[str, str]) -> str:
    return "; ".join(f"{address}: {detail}" for address, detail in sorted(details.items()))


class Answers:
    """The answers of one store to one fetch, each with its kind, taken ahead by a thread; a store
    that hangs, or breaks off before its end, is an error."""

    def __init__(
        self, call: Fetch, address: str, source: SourceName, first: int, last: int
    ) -> None:
        request = v1.FetchRequest(
            source=source_to_wire(source),
            first=first,
            last=last,
            protocol_version=PROTOCOL_VERSION,
        )
        self._address = address
        self._reading = AnswerReading(address, Range(first, last))
        self._call = call(address, request)
        self._queue: queue.Queue[v1.FetchResponse | QuorateError | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._take, name="quorate-fetch", daemon=True)
        self._over = False

    def __enter__(self) -> Answers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call.cancel()
        while not self._over:
            # The thread may be waiting for room.
            self._over = isinstance(self._queue.get(), QuorateError | None)
        self._thread.join()

    def __iter__(self) -> Iterator[tuple[str, v1.FetchAnswer]]:
        while not self._reading.is_over:
            yield from self._reading.answers(self._next())

    def _next(self) -> v1.FetchResponse:
        """Raises what ended the call."""
        try:
            response = self._queue.get(timeout=SILENCE_SECONDS_MAX)
        except queue.Empty:
            raise Unreachable(
                self._address, f"it has said nothing for {SILENCE_SECONDS_MAX:g} s"
            ) from None
        if isinstance(response, v1.FetchResponse):
            return response
        self._over = True
        raise response or self._reading.cut_short()

    def _take(self) -> None:
        try:
            for response in self._call:
                self._queue.put(response)
            self._queue.put(None)
        except grpc.RpcError as error:
            self._queue.put(error_from_blocking_call(self._address, error))
        except BaseException as error:
            self._queue.put(Unreachable(self._address, repr(error)))
