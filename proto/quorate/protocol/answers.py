"""The answers to a fetch: how they share responses, at whoever serves it, stores and sources; and
what counts of them, at whoever asks.

A gRPC message costs as much as a hundred small batches, whatever is in it. Pure: which answers are
given, and when, is not decided here; nor is what follows from one.
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
"""More than tags, lengths and numbers of one answer have."""
_AROUND_TERM = 32
_VERSION = "is its version this one's (`quorate status`)?"
_DETAIL_MAX = 1000
"""Characters: what an operator wrote may be long."""


class AnswerPacking:
    """Answers in the order in which they are given, in as few responses as the bounds allow.

    A batch that is larger than the bounds has a response of its own. Nothing waits here for more
    to come: whoever is about to wait for something sends `all` first.
    """

    __slots__ = ("_bytes", "_full", "_open")

    def __init__(self) -> None:
        self._full: list[v1.FetchResponse] = []
        self._open = v1.FetchResponse()
        self._bytes = 0

    def fetched(self, batch: bytes, part: Range) -> None:
        """A framed batch, of which a part was asked for."""
        # In place: a message that is given to another one is copied, twice.
        fetched = self._add(len(batch) + _AROUND).fetched
        fetched.batch = batch
        fetched.first, fetched.last = part.first, part.last

    def missing(self, part: Range, why: v1.Lookup, detail: str) -> None:
        """What is not served, and why, for people, too."""
        if len(detail) > _DETAIL_MAX:
            detail = detail[: _DETAIL_MAX - 1] + "…"
        missing = self._add(len(detail.encode()) + _AROUND).missing
        missing.first, missing.last = part.first, part.last
        missing.why = why
        missing.detail = detail

    def end(self, high: int, stable_upto: int, lineage: Lineage, retained_from: int = 0) -> None:
        """The last answer: where the server's knowledge ends."""
        end = self._add(_AROUND_TERM * len(lineage.terms) + _AROUND).end
        end.high, end.stable_upto, end.retained_from = high, stable_upto, retained_from
        end.lineage.extend(lineage_to_wire(lineage))

    def full(self) -> list[v1.FetchResponse]:
        """The responses that nothing can be added to any more."""
        self._make_room_for(_AROUND)
        full, self._full = self._full, []
        return full

    def all(self) -> list[v1.FetchResponse]:
        """All that there is."""
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
    """The responses to one fetch, as they are read.

    Answers begin at the first number that was asked for, and each goes on where the one before it
    ended; the end comes once, after all others. Each response brings an answer. So whoever waits
    for the next one no longer than some time is not kept for ever, and a stream that just stops is
    never taken for "it has no more": whatever is against the rule is an error of who answers.
    """

    __slots__ = ("_address", "_last", "_next", "is_over")

    def __init__(self, address: str, wanted: Range) -> None:
        """address: of who answers; wanted: what is asked for."""
        self._address = address
        self._next = wanted.first
        self._last = wanted.last
        self.is_over = False
        """The end came: nothing more is to be waited for."""

    def answers(self, response: v1.FetchResponse) -> Iterator[tuple[str, v1.FetchAnswer]]:
        """What the next response brings, each with its kind: "fetched", "missing" or "end".

        Raises BrokenAnswer at the first answer that is against the rule; those before it count.
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
        """What it is that no more responses come, unless the end did."""
        return self._broken(f"the stream stops without its end; {_VERSION}")

    def _broken(self, detail: str) -> BrokenAnswer:
        return BrokenAnswer(self._address, detail)
