"""The count of what was consumed of a source's stream, and so may be acknowledged.

No I/O. A store keeps one number for each receiver: everything up to it is consumed. So only the end
of the contiguous part may be sent. Other threads than the counting one may consume; they share a
deque with it, whose append is atomic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import Range, RangeSet


class News:
    """A bell for changes of a count. It rings once until somebody looks; any thread may ring it."""

    __slots__ = ("_has_rung", "_ring")

    def __init__(self, ring: Callable[[], None] = lambda: None) -> None:
        """ring: is called at the first change after each look, also by other threads."""
        self._ring = ring
        self._has_rung = False

    def note(self) -> None:
        """Note a change. The caller has made it before."""
        if not self._has_rung:
            self._has_rung = True
            self._ring()

    def looks(self) -> None:
        """Note that somebody looks at the count from now on."""
        self._has_rung = False


class Consumption:
    """The count of one stretch of a stream, between two cuts of its lineage."""

    __slots__ = (
        "_ahead", "_limit", "_news", "_single", "_through", "_through_upto", "_upto", "replaced",
        "source_reg_id",
    )  # fmt: skip

    source_reg_id: int
    """The RegID of the stream's source at its stores; 0: its stores assigned different ones."""
    replaced: RangeSet
    """The numbers that were delivered and withdrawn before this stretch began."""

    def __init__(
        self,
        start: int,
        source_reg_id: int = 0,
        replaced: RangeSet | None = None,
        news: News | None = None,
    ) -> None:
        self.source_reg_id = source_reg_id
        self.replaced = RangeSet() if replaced is None else replaced
        self._upto = start - 1
        self._limit: int | None = None
        self._single: deque[int] = deque()
        self._through: deque[int] = deque()
        self._through_upto = start - 1
        self._ahead = RangeSet()
        self._news = news or News()

    def consumed(self, sequence: int) -> None:
        """Count this message as consumed; in any order, from any thread."""
        self._single.append(sequence)
        self._news.note()

    def consumed_through(self, sequence: int) -> None:
        """Count this message and everything before it as consumed; from any thread."""
        if sequence > self._through_upto:
            self._through.append(sequence)
            self._through_upto = sequence
            self._news.note()

    def taken(self) -> None:
        """Note that messages of this stretch have been handed to the application."""
        self._news.note()

    def skip(self, first: int, last: int) -> None:
        """Count [first, last] as consumed: these messages will never come."""
        self._ahead.add(first, last)
        self._news.note()

    def cut(self, last: int) -> None:
        """End the stretch at this number: what is above was withdrawn and does not count."""
        self._limit = last if self._limit is None else min(last, self._limit)

    def upto(self) -> int:
        """Return the highest sequence number with all before it consumed.

        It takes constant time for a message that is consumed in order.
        """
        ahead = self._ahead
        while self._through:
            self._upto = max(self._upto, self._through.popleft())
        ahead.remove_upto(self._upto)
        while self._single:
            sequence = self._single.popleft()
            if sequence == self._upto + 1 and not ahead:
                self._upto = sequence
            elif sequence > self._upto:
                ahead.add(sequence, sequence)
        if ahead:
            self._upto = ahead.contiguous_upto(self._upto + 1)
            ahead.remove_upto(self._upto)
        return self._upto if self._limit is None else min(self._upto, self._limit)

    def lacks(self, sequence: int) -> bool:
        """Return whether this message is not consumed, and was not withdrawn."""
        withdrawn = self._limit is not None and sequence > self._limit
        return not withdrawn and sequence > self.upto() and sequence not in self._ahead

    @property
    def finished(self) -> bool:
        """Whether the stretch has ended and all of it is consumed."""
        return self._limit is not None and self._upto >= self._limit


class Acknowledgements:
    """The acknowledgements of one source's stream, over all changes of its lineage."""

    def __init__(self, start: int, ring: Callable[[], None] = lambda: None) -> None:
        """Begin with nothing consumed. ring: see `News`."""
        self.news = News(ring)
        self.start = start
        """The first sequence number to be delivered of the present stream."""
        self.began_anew = 0
        """The number of times that positions went back. Stores' earlier positions are void."""
        self._stretches: deque[Consumption] = deque([Consumption(start, news=self.news)])
        self._sent = start - 1
        self._says_from = start

    @property
    def progress(self) -> Consumption:
        """The count for messages that are delivered from now on."""
        return self._stretches[-1]

    def say_start(self) -> None:
        """Acknowledge also what is before the start."""
        self._says_from = self.start - 1
        self.news.note()

    def withdraw(self, first: int, delivered_upto: int = NOTHING) -> None:
        """Withdraw the messages from this number on: other messages take their numbers.

        delivered_upto: the last number that the application was given.
        """
        replaced = self.progress.replaced
        if (low := max(first, self.start)) <= delivered_upto:
            replaced = replaced.union([Range(low, delivered_upto)])
        for stretch in self._stretches:
            stretch.cut(first - 1)
        # A cut below what was acknowledged happens only if that stream was ended, and another has
        # begun.
        self.began_anew += first <= self._sent
        self.start = min(self.start, first)
        self._sent = min(self._sent, first - 1)
        self._says_from = min(self._says_from, first)
        reg_id = self.progress.source_reg_id
        self._stretches.append(Consumption(first, reg_id, replaced, self.news))
        self.news.note()

    def consumed_upto(self) -> int:
        """Return the highest sequence number with all before it consumed."""
        upto = self._stretches[0].upto()
        while len(self._stretches) > 1 and self._stretches[0].finished:
            self._stretches.popleft()
            upto = self._stretches[0].upto()
        return upto

    def position(self, stable_upto: int) -> int | None:
        """Return the position to tell stores now; None: none. It never moves back in a stream.

        Only stable messages are acknowledged. An unstable message may yet be replaced by another
        with its number. A position beyond it would make a restarted receiver miss that one.
        """
        self._sent = max(self._sent, min(self.consumed_upto(), stable_upto))
        # Messages before the start need not be stable yet.
        told = self._sent >= self.start or self._sent <= stable_upto
        return self._sent if told and self._sent >= self._says_from else None
