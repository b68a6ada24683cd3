"""Reading a range of a source's stream from the stores, from one after the other if need be.

Every batch is checked. The numbers follow on each other without a hole and without a duplicate, or
the read ends with an error that names each store's answer. Nothing here knows rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.timeouts import TIMEOUTS, Timeouts
from quorate.protocol.answers import AnswerReading, Corrupt, JoinedAnswer, Piece, fetch_request
from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import (
    BrokenAnswer,
    MissingMessages,
    QuorateError,
    UnknownTopic,
    Unreachable,
    VersionMismatch,
    joined,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.transport.delays import delay
from quorate.transport.fetch import BlockingCall, BlockingFetchCall
from quorate.v1 import messages_pb2 as v1

TROUBLE_SECONDS = 30.0
"""How long a store that could not be reached, or hung, is the last one to be asked."""
Fetch = Callable[[str, v1.FetchRequest], BlockingCall]
"""Calls Fetch of the store at that address."""

_troubled: dict[str, float] = {}
"""When each store that was in trouble has its turn again, in monotonic seconds by address. A worker
process runs its tasks one after the other."""


@dataclass(slots=True)
class _Said:
    """The stores' answers about the first number that is missing, each by the store's address."""

    no: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Stores that know that they lack it, how far what they lack goes, and why."""
    cannot_say: dict[str, str] = field(default_factory=dict)
    """Stores that do not know, and why."""
    mismatched: dict[str, VersionMismatch] = field(default_factory=dict)
    """Stores that speak another version: they will never answer."""
    lost: tuple[int, str] | None = None
    """How far an operator accepted the loss, and the store that reported it."""

    def clear(self) -> None:
        self.no.clear()
        self.cannot_say.clear()
        self.mismatched.clear()
        self.lost = None


class _NotHere(Exception):
    """The store has no more to give; the next one is asked."""


def fetch(
    call: Fetch,
    addresses: Sequence[str],
    source: SourceName,
    lineage: Lineage,
    first: int,
    last: int,
    timeouts: Timeouts = TIMEOUTS,
) -> Generator[Piece, None, None]:
    """Yield the messages [first, last], each once and in order; they must be stable.

    addresses: of the stores, in the order in which they are asked. Raises MessagesGone if all
    stores say that they lack what comes next, or if an operator accepted its loss. Raises
    MissingMessages if no store serves it and not all can say. Raises VersionMismatch if all stores
    speak another version.
    """
    said = _Said()
    now = time.monotonic()
    addresses = sorted(addresses, key=lambda each: _troubled.get(each, now) > now)
    give_up_at, rounds, silent = 0.0, 0, 0
    while True:
        address = addresses[0]
        addresses = [*addresses[1:], address]
        before = first
        try:
            with answers_of(call, address, source, first, last, timeouts) as answers:
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
            # All other stores answered about another number.
            said = _only(said, address)
            silent = 1
            give_up_at, rounds = 0.0, 0
            continue
        silent += 1
        if silent < len(addresses):
            continue
        if len(said.mismatched) == len(addresses):
            raise said.mismatched[address]
        _check_gone(said, addresses, source, first, last)
        now = time.monotonic()
        give_up_at = give_up_at or now + timeouts.retry_seconds
        if now >= give_up_at:
            raise MissingMessages(str(source), first, last, _told(said.cannot_say))
        rounds, silent = rounds + 1, 0
        time.sleep(delay(REPEAT, rounds))
        said.clear()


def _only(said: _Said, address: str) -> _Said:
    return _Said(
        {at: no for at, no in said.no.items() if at == address},
        {at: why for at, why in said.cannot_say.items() if at == address},
        {at: why for at, why in said.mismatched.items() if at == address},
        said.lost,
    )


def answers_of(
    call: Fetch,
    address: str,
    source: SourceName,
    first: int,
    last: int,
    timeouts: Timeouts = TIMEOUTS,
) -> BlockingFetchCall:
    """Ask one store for a range. A store that hangs, or breaks off before its end, is an error."""
    wanted = Range(first, last)
    reading = AnswerReading(address, source, wanted)
    under_way = call(address, fetch_request(source, wanted))
    return BlockingFetchCall(reading, under_way, timeouts.silence_seconds)


def _pieces(
    answers: Iterable[JoinedAnswer],
    address: str,
    source: SourceName,
    lineage: Lineage,
    last: int,
    said: _Said,
) -> Iterator[Piece]:
    """Yield what a store gives without a break; note what it says where that ends before last."""
    for answer in answers:
        match answer:
            case Piece():
                _check_lineage(answer, address, source, lineage)
                yield answer
                if answer.last == last:
                    return
            case Corrupt():
                raise answer.error
            case v1.Missing():
                _note_missing(said, address, answer)
                raise _NotHere
            case v1.FetchEnd():
                said.no[address] = (last, f"it has messages up to {answer.high} only")
                raise _NotHere


def _check_lineage(piece: Piece, address: str, source: SourceName, lineage: Lineage) -> None:
    if not lineage.epoch_at(piece.first) == piece.header.epoch == lineage.epoch_at(piece.last):
        raise Unreachable(address, f"it follows an outdated lineage of {source}")


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
    """Return why a store did not answer, for a text that names its address already."""
    return why.detail if isinstance(why, Unreachable | BrokenAnswer) else str(why)


def _check_gone(
    said: _Said, addresses: Sequence[str], source: SourceName, first: int, last: int
) -> None:
    """Raise MessagesGone if no store has what comes next, and all said so."""
    if said.lost is not None:
        upto, evidence = said.lost
    elif all(address in said.no for address in addresses):
        upto = min(last for last, _ in said.no.values())
        evidence = _told({address: detail for address, (_, detail) in said.no.items()})
    else:
        return
    raise MessagesGone(str(source), first, min(upto, last), evidence)


def _told(details: dict[str, str]) -> str:
    return joined(f"{address}: {detail}" for address, detail in sorted(details.items()))
