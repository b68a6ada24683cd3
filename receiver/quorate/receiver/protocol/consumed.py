"""How far a source's stream was consumed, and so may be acknowledged: pure counting, no I/O.

A store keeps one number for each receiver: everything up to it is done with. So only the end of
the contiguous part may ever be sent. The consuming side may be other threads than the one that
collects; what they share is a deque, whose append is atomic.
"""

from __future__ import annotations

from collections import deque


class Progress:
    """Consumption of one stretch of a stream, between two cuts of its lineage."""

    __slots__ = ("_ahead", "_gaps", "_limit", "_single", "_through", "_upto", "source_reg_id")

    source_reg_id: int
    """Of the source whose stream it is, at its stores; 0 if they assigned different ones."""

    def __init__(self, start: int, source_reg_id: int = 0) -> None:
        self.source_reg_id = source_reg_id
        self._upto = start - 1
        self._limit: int | None = None
        self._single: deque[int] = deque()
        self._through: deque[int] = deque()
        self._ahead: set[int] = set()
        self._gaps: dict[int, int] = {}

    def consumed(self, sequence: int) -> None:
        """This message is done with; in any order, from any thread."""
        self._single.append(sequence)

    def consumed_through(self, sequence: int) -> None:
        """This message and everything before it are done with; from any thread."""
        self._through.append(sequence)

    def skip(self, first: int, last: int) -> None:
        """[first, last] will never come."""
        self._gaps[first] = last

    def cut(self, last: int) -> None:
        """What is above this number was withdrawn: its consumption counts for nothing."""
        self._limit = last if self._limit is None else min(last, self._limit)

    def upto(self) -> int:
        """The highest number with all before it consumed; amortized constant time a message."""
        ahead = self._ahead
        if self._through:
            while self._through:
                self._upto = max(self._upto, self._through.popleft())
            ahead -= {sequence for sequence in ahead if sequence <= self._upto}
        while self._single:
            sequence = self._single.popleft()
            if sequence == self._upto + 1:
                self._upto = sequence
                self._advance()
            elif sequence > self._upto:
                ahead.add(sequence)
        self._advance()
        return self._upto if self._limit is None else min(self._upto, self._limit)

    @property
    def finished(self) -> bool:
        """Whether it was cut and all up to the cut is consumed."""
        return self._limit is not None and self._upto >= self._limit

    def _advance(self) -> None:
        while True:
            following = self._upto + 1
            if following in self._ahead:
                self._ahead.discard(following)
                self._upto = following
            elif following in self._gaps:
                self._upto = max(self._upto, self._gaps.pop(following))
            else:
                return


class Acknowledgements:
    """What may be acknowledged of one source's stream, over all changes of its lineage."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The first number that was to be delivered, of the present stream."""
        self.began_anew = 0
        """How often positions went back: what stores were told before says nothing any more."""
        self._stretches: deque[Progress] = deque([Progress(start)])
        self._sent = start - 1
        self._says_from = start

    @property
    def progress(self) -> Progress:
        """Where the consumption of what is delivered from now on is counted."""
        return self._stretches[-1]

    def say_start(self) -> None:
        """Acknowledge what is before the start, too."""
        self._says_from = self.start - 1

    def withdraw(self, first: int) -> None:
        """From this number on the stream begins anew with other messages."""
        for stretch in self._stretches:
            stretch.cut(first - 1)
        # Below what was acknowledged only if that stream was ended, and another has begun.
        self.began_anew += first <= self._sent
        self.start = min(self.start, first)
        self._sent = min(self._sent, first - 1)
        self._says_from = min(self._says_from, first)
        self._stretches.append(Progress(first, self.progress.source_reg_id))

    def consumed_upto(self) -> int:
        """The highest number with all before it consumed."""
        upto = self._stretches[0].upto()
        while len(self._stretches) > 1 and self._stretches[0].finished:
            self._stretches.popleft()
            upto = self._stretches[0].upto()
        return upto

    def position(self, stable_upto: int) -> int | None:
        """What stores may be told now; None while that is nothing. It never moves back in a stream.

        Only what is stable is acknowledged. An unstable message may yet be replaced by another of
        the same number; a position beyond it would make a restarted receiver miss that one.
        """
        self._sent = max(self._sent, min(self.consumed_upto(), stable_upto))
        # What is before the start need not be stable yet.
        told = self._sent >= self.start or self._sent <= stable_upto
        return self._sent if told and self._sent >= self._says_from else None
