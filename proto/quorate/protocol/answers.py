"""The answers to a fetch: the server packs them into responses, the client checks their order.

A gRPC message costs as much as a hundred small batches, whatever is in it, so answers share
responses. Pure: the server decides elsewhere which answers it gives, and the client elsewhere what
follows from one. Stores and sources serve fetches by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.protocol.errors import BrokenAnswer
from quorate.protocol.limits import RESPONSE_ANSWERS_MAX, RESPONSE_BYTES_TARGET
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.wire import lineage_to_wire
from quorate.v1 import messages_pb2 as v1

_AROUND = 64
"""Bytes: an upper bound for the tags, lengths and numbers of one answer."""
_AROUND_TERM = 32
_VERSION = "is its version this one's (`quorate status`)?"
_DETAIL_MAX = 1000
"""Characters. The text of an operator may be longer."""


class AnswerPacking:
    """Answers in the order in which they are given, in as few responses as the bounds allow.

    A batch that is larger than the bounds has a response of its own. An answer may stay here in a
    response that is not full. So a server sends `all` before it waits for anything.
    """

    __slots__ = ("_bytes", "_full", "_open")

    def __init__(self) -> None:
        self._full: list[v1.FetchResponse] = []
        self._open = v1.FetchResponse()
        self._bytes = 0

    def fetched(self, batch: bytes, part: Range) -> None:
        """Add a framed batch of which this part was asked for."""
        # In place: a message that is given to another one is copied, twice.
        fetched = self._add(len(batch) + _AROUND).fetched
        fetched.batch = batch
        fetched.first, fetched.last = part.first, part.last

    def missing(self, part: Range, why: v1.Lookup, detail: str) -> None:
        """Add a part that is not served, with the reason for programs and for people."""
        if len(detail) > _DETAIL_MAX:
            detail = detail[: _DETAIL_MAX - 1] + "…"
        missing = self._add(len(detail.encode()) + _AROUND).missing
        missing.first, missing.last = part.first, part.last
        missing.why = why
        missing.detail = detail

    def end(self, high: int, stable_upto: int, lineage: Lineage, retained_from: int = 0) -> None:
        """Add the last answer: where the server's knowledge ends."""
        end = self._add(_AROUND_TERM * len(lineage.terms) + _AROUND).end
        end.high, end.stable_upto, end.retained_from = high, stable_upto, retained_from
        end.lineage.extend(lineage_to_wire(lineage))

    def full(self) -> list[v1.FetchResponse]:
        """Return the responses that are full, each once."""
        self._make_room_for(_AROUND)
        full, self._full = self._full, []
        return full

    def all(self) -> list[v1.FetchResponse]:
        """Return all responses that are left, also one that is not full."""
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


class AnswerReading:
    """The responses to one fetch, checked as they are read.

    The rule: answers begin at the first number that was asked for. Each answer goes on where the
    one before it ended. The end comes once, as the last answer. Each response has an answer.
    A breach of the rule is an error of the server. So a stream that just stops is never taken for
    "it has no more". A client with a timeout for each response never waits for ever.
    """

    __slots__ = ("_address", "_last", "_next", "is_over")

    def __init__(self, address: str, wanted: Range) -> None:
        """address: the server's. wanted: the numbers that are asked for."""
        self._address = address
        self._next = wanted.first
        self._last = wanted.last
        self.is_over = False
        """True: the end came, and no more answers follow."""

    def answers(self, response: v1.FetchResponse) -> Iterator[tuple[str, v1.FetchAnswer]]:
        """Yield the answers of the next response with their kind: "fetched", "missing" or "end".

        Raises BrokenAnswer at the first answer that breaks the rule. The answers before it count.
        """
        if self.is_over:
            raise self._broken("it goes on after its end")
        left = len(response.answers)
        if not left:
            raise self._broken(f"a response without an answer; {_VERSION}")
        for answer in response.answers:
            left -= 1
            kind = answer.WhichOneof("kind")
            if kind == "fetched":
                part: v1.Fetched | v1.Missing = answer.fetched
            elif kind == "missing":
                part = answer.missing
            elif kind == "end":
                if left:
                    raise self._broken("it goes on after its end")
                self.is_over = True
                yield kind, answer
                return
            else:
                raise self._broken(f"an answer of no kind that is known here; {_VERSION}")
            first, last = part.first, part.last
            if not first == self._next <= last or first > self._last:
                raise self._broken(f"[{first}, {last}] comes after {self._next - 1}")
            self._next = last + 1
            yield kind, answer

    def cut_short(self) -> BrokenAnswer:
        """Return the error for a stream that stopped without its end."""
        return self._broken(f"the stream stops without its end; {_VERSION}")

    def _broken(self, detail: str) -> BrokenAnswer:
        return BrokenAnswer(self._address, detail)
