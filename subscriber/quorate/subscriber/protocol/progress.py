"""How far an application has consumed a subscription, in any order. Pure.

The position moves to before the first message that was handed over and is not consumed.
Messages that do not pass a filter count as consumed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.identity import SourceName


class Open:
    """A batch that was handed over and is not consumed as a whole."""

    __slots__ = ("_on_consumed", "before", "behind", "consumed", "left", "numbers")

    def __init__(
        self,
        numbers: Sequence[int],
        before: Place,
        behind: Place,
        on_consumed: Callable[[], None] | None = None,
    ) -> None:
        """Begin with nothing consumed.

        - before: the source's place before the batch.
        - behind: its place once all is consumed.
        - on_consumed: is called for each message that is consumed.
        """
        self._on_consumed = on_consumed
        self.numbers = numbers
        self.before = before
        self.behind = behind
        self.consumed = bytearray(len(numbers))
        self.left = len(numbers)

    def note(self, row: int) -> None:
        """Note that a message is consumed, by its place in the batch."""
        if row < len(self.consumed) and not self.consumed[row]:
            self.consumed[row] = 1
            self.left -= 1
            if self._on_consumed is not None:
                self._on_consumed()

    def keep(self, rows: int, behind: Place) -> None:
        """Forget the messages behind these first ones: they are void. behind: the place then."""
        self.numbers = self.numbers[:rows]
        del self.consumed[rows:]
        self.left = self.consumed.count(0)
        self.behind = behind

    @property
    def place(self) -> Place:
        """The place before the first message that is not consumed."""
        row = self.consumed.find(0)
        if row < 0:
            return self.behind
        return Place(self.behind.epoch, self.numbers[row - 1]) if row else self.before


class Progress:
    """The messages of one subscription that were handed over, and which of them are consumed."""

    def __init__(self, on_consumed: Callable[[], None] | None = None) -> None:
        """Begin with nothing handed over.

        on_consumed: is called for each message that is consumed, on the thread of that call.
        """
        self._on_consumed = on_consumed
        self._open: dict[SourceName, deque[Open]] = {}

    def handed(
        self, source: SourceName, numbers: Sequence[int], before: Place, behind: Place
    ) -> Open:
        """Note that messages were handed over."""
        batch = Open(numbers, before, behind, self._on_consumed)
        self._open.setdefault(source, deque()).append(batch)
        return batch

    def withdrawn(self, source: SourceName, first: int) -> None:
        """Forget what is void from this number on."""
        batches = self._open.get(source, deque())
        while batches and batches[-1].behind.sequence >= first:
            batch = batches.pop()
            if (rows := bisect_left(batch.numbers, first)) > 0:
                batch.keep(rows, Place(batch.behind.epoch, first - 1))
                batches.append(batch)
                return

    def position(self, given: Position) -> Position:
        """Return the position before everything that is not consumed.

        given: the position behind everything that was given.
        """
        places = dict(given)
        for source, batches in list(self._open.items()):
            while batches and not batches[0].left:
                batches.popleft()
            if not batches:
                del self._open[source]
            elif (place := batches[0].place) != NO_PLACE:
                places[source] = place
            else:
                places.pop(source, None)
        return Position(places)
