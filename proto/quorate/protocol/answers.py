"""Answers to the call Fetch: how a server packs them, and how a client reads and checks them.

A gRPC message costs as much as a hundred small batches, whatever it carries, so answers share
responses. Stores and sources serve them; stores, sources, receivers and the pipeline read them.
This module is pure. It decides neither which answers are given nor what follows from an answer; the
calls themselves are in quorate.transport.fetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.protocol.errors import BrokenAnswer, CorruptBatch
from quorate.protocol.fragments import Assembly, LargeBatch
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    PROTOCOL_VERSION,
    RESPONSE_ANSWERS_MAX,
    RESPONSE_BYTES_TARGET,
)
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.wire import lineage_to_wire, source_to_wire
from quorate.v1 import messages_pb2 as v1

_AROUND = 64
"""Bytes, at least those of the tags, lengths and numbers of one answer."""
_AROUND_TERM = 32
_VERSION = "is its version this one's (`quorate status`)?"
_DETAIL_MAX = 1000
"""Characters: what an operator wrote may be long."""


class AnswerPacking:
    """Pack answers, in order, into as few responses as the bounds allow.

    A batch that is larger than the bounds has a response of its own. The packing never waits for
    more answers: a server sends `all` before it waits for anything.
    """

    __slots__ = ("_bytes", "_full", "_open")

    def __init__(self) -> None:
        self._full: list[v1.FetchResponse] = []
        self._open = v1.FetchResponse()
        self._bytes = 0

    def fetched(self, batch: bytes, part: Range) -> None:
        """Add a framed batch, of which a part was asked for."""
        # In place: a message that is given to another one is copied, twice.
        fetched = self._add(len(batch) + _AROUND).fetched
        fetched.batch = batch
        fetched.first, fetched.last = part.first, part.last

    def fragment(self, at: int, size: int, data: bytes, part: Range) -> None:
        """Add a fragment of a large batch, of which a part was asked for.

        at: the offset of the fragment; size: the bytes of the batch.
        """
        fetched = self._add(len(data) + _AROUND).fetched
        fetched.first, fetched.last = part.first, part.last
        fetched.fragment.at, fetched.fragment.size, fetched.fragment.data = at, size, data

    def missing(self, part: Range, why: v1.Lookup, detail: str) -> None:
        """Add a range that is not served, why, and a detail for people."""
        if len(detail) > _DETAIL_MAX:
            detail = detail[: _DETAIL_MAX - 1] + "…"
        missing = self._add(len(detail.encode()) + _AROUND).missing
        missing.first, missing.last = part.first, part.last
        missing.why = why
        missing.detail = detail

    def end(self, high: int, stable_upto: int, lineage: Lineage, retained_from: int = 0) -> None:
        """Add the last answer, which says where the server's knowledge ends."""
        end = self._add(_AROUND_TERM * len(lineage.terms) + _AROUND).end
        end.high, end.stable_upto, end.retained_from = high, stable_upto, retained_from
        end.lineage.extend(lineage_to_wire(lineage))

    def full(self) -> list[v1.FetchResponse]:
        """Remove and return the responses that are full."""
        self._make_room_for(_AROUND)
        full, self._full = self._full, []
        return full

    def all(self) -> list[v1.FetchResponse]:
        """Remove and return all responses, the last one perhaps not full."""
        self._close()
        return self.full()

    def _add(self, size: int) -> v1.FetchAnswer:
        self._make_room_for(size)
        self._bytes += size
        return self._open.answers.add()

    def _make_room_for(self, size: int) -> None:
        many = len(self._open.answers) >= RESPONSE_ANSWERS_MAX
        if many or self._bytes + size > RESPONSE_BYTES_TARGET:
            self._close()

    def _close(self) -> None:
        if self._open.answers:
            self._full.append(self._open)
            self._open = v1.FetchResponse()
            self._bytes = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch that a peer served, checked; [first, last] of it was asked for."""

    frame: bytes
    """The whole batch, which may have more than was asked for."""
    header: BatchHeader
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LargePiece:
    """A large batch that a peer served, checked and put together. All of it was asked for."""

    batch: LargeBatch

    @property
    def header(self) -> BatchHeader:
        return self.batch.header

    @property
    def first(self) -> int:
        """The number of its only message."""
        return self.batch.header.first

    @property
    def last(self) -> int:
        return self.batch.header.last

    def joined(self) -> Piece:
        """Return it as any other batch. The call takes long; it is not for event loops."""
        return Piece(self.batch.joined(), self.header, self.first, self.last)


@dataclass(frozen=True, slots=True)
class Corrupt:
    """An answer with something else in place of the messages [first, last].

    The peer has no good copy of them; others may.
    """

    first: int
    last: int
    error: CorruptBatch


@dataclass(frozen=True, slots=True)
class ServedFragment:
    """A fragment of a large batch that a peer served, not checked."""

    at: int
    """The offset of the fragment. At 0 a batch begins, and an earlier one broke off."""
    size: int
    """The bytes of the batch."""
    data: bytes
    sequence: int
    """The number of the message, as the peer says."""

    @property
    def is_last(self) -> bool:
        """Whether no further fragment of the batch comes."""
        return self.at + len(self.data) >= self.size


FragmentedAnswer = Piece | ServedFragment | Corrupt | v1.Missing | v1.FetchEnd
"""One answer to a fetch, as a client takes it that keeps fragments as they are."""

JoinedAnswer = Piece | Corrupt | v1.Missing | v1.FetchEnd
"""One answer to a fetch, as a client without an event loop takes it."""

Answer = JoinedAnswer | LargePiece
"""One answer to a fetch, as a client takes it. A range that is missing may go on past the range
that was asked for."""


def joined(answer: Answer) -> JoinedAnswer:
    """Return the answer, a large batch as any other. The call is not for event loops."""
    return answer.joined() if isinstance(answer, LargePiece) else answer


def fetch_request(source: SourceName, wanted: Range, *, delivers: bool = False) -> v1.FetchRequest:
    """Return the request for a range of a source's stream. delivers: poison is withheld."""
    return v1.FetchRequest(
        source=source_to_wire(source),
        first=wanted.first,
        last=wanted.last,
        protocol_version=PROTOCOL_VERSION,
        delivers=delivers,
    )


class FragmentedReading:
    """Read the responses to one fetch, one after the other; hand on fragments as they come.

    Answers begin at the first number that was asked for. Each goes on where the one before it
    ended, and the end comes once, after all others. Each response brings an answer: a client that
    waits for the next response no longer than some time is not kept for ever. A stream that just
    stops does not count as "it has no more". An answer against these rules raises BrokenAnswer.

    A batch with a wrong checksum, of another source, or without the messages that its answer names
    becomes `Corrupt`. Callers check by themselves that the batch belongs to their lineage. Nothing
    of a fragment is checked.
    """

    __slots__ = ("_last", "_next", "_source", "address", "is_over")

    def __init__(self, address: str, source: SourceName, wanted: Range) -> None:
        """address: of the peer that answers; wanted: the range that it was asked for."""
        self.address = address
        self._source = source
        self._next = wanted.first
        self._last = wanted.last
        self.is_over = False
        """The end came: the client waits for nothing more."""

    def answers(self, response: v1.FetchResponse | None) -> Iterator[FragmentedAnswer]:
        """Yield what the next response brings; None: the call ended without another response.

        Raises BrokenAnswer at the first answer that is against the rules; those before it count.
        """
        if response is None:
            raise self._broken(f"the stream stops without its end; {_VERSION}")
        if self.is_over:
            raise self._broken("it goes on after its end")
        left = len(response.answers)
        if not left:
            raise self._broken(f"a response without an answer; {_VERSION}")
        for answer in response.answers:
            left -= 1
            kind = answer.WhichOneof("kind")
            if kind == "fetched":
                yield self._fetched(answer.fetched)
            elif kind == "missing":
                self._next = self._due(answer.missing) + 1
                yield answer.missing
            elif kind == "end":
                if left:
                    raise self._broken("it goes on after its end")
                self.is_over = True
                yield answer.end
            else:
                raise self._broken(f"an answer of no kind that is known here; {_VERSION}")

    def _due(self, part: v1.Fetched | v1.Missing) -> int:
        """Return the last number of an answer; raise BrokenAnswer if it does not come next."""
        first, last = part.first, part.last
        if not first == self._next <= last or first > self._last:
            raise self._broken(f"[{first}, {last}] comes after {self._next - 1}")
        return last

    def _fetched(self, fetched: v1.Fetched) -> Piece | ServedFragment | Corrupt:
        last = self._due(fetched)
        if not fetched.HasField("fragment"):
            self._next = last + 1
            return self._checked(fetched.batch, fetched.first, last)
        fragment = fetched.fragment
        served = ServedFragment(fragment.at, fragment.size, fragment.data, fetched.first)
        if served.is_last:
            self._next = last + 1
        return served

    def _checked(self, frame: bytes, first: int, last: int) -> Piece | Corrupt:
        """Check a batch of which [first, last] is served, perhaps more than was asked for."""
        where = f"from {self.address}"
        asked_last = min(last, self._last)
        try:
            header = check_batch(frame, where)
            if header.source != self._source:
                raise CorruptBatch(where, f"it belongs to {header.source}, not {self._source}")
            if not header.first <= first <= last <= header.last:
                detail = f"it has [{header.first}, {header.last}], not [{first}, {last}]"
                raise CorruptBatch(where, detail)
        except CorruptBatch as error:
            return Corrupt(first, asked_last, error)
        return Piece(frame, header, first, asked_last)

    def _broken(self, detail: str) -> BrokenAnswer:
        return BrokenAnswer(self.address, detail)


class AnswerReading:
    """Read the responses to one fetch as `FragmentedReading` does; put large batches together.

    A large batch is in memory as a whole, once all of its fragments have come.
    """

    __slots__ = ("_assembly", "_fragmented", "_source", "_where", "address")

    def __init__(self, address: str, source: SourceName, wanted: Range) -> None:
        """address: of the peer that answers; wanted: the range that it was asked for."""
        self.address = address
        self._fragmented = FragmentedReading(address, source, wanted)
        self._where = f"from {address}"
        self._source = source
        self._assembly: Assembly | None = None

    @property
    def is_over(self) -> bool:
        """The end came: the client waits for nothing more."""
        return self._fragmented.is_over

    @property
    def assembling(self) -> int:
        """The bytes of the large batch that is coming in; 0: none is."""
        return self._assembly.size if self._assembly is not None else 0

    def answers(self, response: v1.FetchResponse | None) -> Iterator[Answer]:
        """Yield what the next response brings, as `FragmentedReading.answers`."""
        for answer in self._fragmented.answers(response):
            if not isinstance(answer, ServedFragment):
                self._assembly = None
                yield answer
                continue
            if not answer.at:
                self._assembly = Assembly(self._where)
            if self._assembly is not None:
                yield from self._assembled(self._assembly, answer)

    def _assembled(
        self, assembly: Assembly, fragment: ServedFragment
    ) -> Iterator[LargePiece | Corrupt]:
        """Yield the batch that is whole with this fragment, or what is wrong with it.

        After an error the other fragments of the batch are left out.
        """
        sequence = fragment.sequence
        try:
            assembly.take(fragment.at, fragment.size, fragment.data)
            check_served(assembly.header, self._source, sequence, self._where)
        except CorruptBatch as error:
            self._assembly = None
            yield Corrupt(sequence, sequence, error)
            return
        if assembly.is_whole:
            self._assembly = None
            yield LargePiece(assembly.batch())


def check_served(header: BatchHeader, source: SourceName, sequence: int, where: str) -> None:
    """Raise CorruptBatch unless a served large batch has this message of this source."""
    if (header.source, header.first) != (source, sequence):
        detail = f"it has {header.first} of {header.source}, not {sequence} of {source}"
        raise CorruptBatch(where, detail)
