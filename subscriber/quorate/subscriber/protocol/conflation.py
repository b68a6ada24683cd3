"""Conflation: of the messages of one key within a window, only the newest is handed over. Pure.

One window counts for the whole subscription. It begins with the first message that waits. The
caller says what time it is, and takes all that is due before it gives more. The key of a message is
made in quorate.subscriber.protocol.conflation_key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.protocol.identity import SourceName
from quorate.subscriber.protocol.progress import Open

KEYS_MAX = 10_000
"""Keys that wait at most."""
BYTES_MAX = 64 * 2**20
"""Bytes that wait at most, and one message more."""
MESSAGES_MAX = 1_000_000
"""Messages of one window at most, with those that others took the place of."""

M = TypeVar("M")


class _Batch:
    """A batch, whose messages are taken one after the other."""

    def __init__(
        self,
        source: SourceName,
        epoch: int,
        numbers: Sequence[int],
        before: Position,
        behind: Position,
        consumed: Open | None,
    ) -> None:
        self.source = source
        self.epoch = epoch
        self.numbers = numbers
        self.before = before
        self.behind = behind
        self.consumed = consumed

    def bookmark(self, row: int) -> Bookmark:
        return Bookmark(self.source, self.epoch, self.numbers[row])

    def position(self, rows: int) -> Position:
        """Return the position behind so many of its messages."""
        if rows == len(self.numbers):
            return self.behind
        if rows == 0:
            return self.before
        return self.before.moved(self.source, Place(self.epoch, self.numbers[rows - 1]))


class _Window:
    """The messages that were taken while a window lasted, as far as positions stay before them."""

    def __init__(self, batch: _Batch, row: int) -> None:
        """Begin with this message of a batch."""
        self._batch = batch
        self._row = row
        self._first: dict[SourceName, tuple[Open, int]] = {}
        """The first message of each source. Its place stays before it until all are consumed."""
        self.left = 0
        """The messages that are handed over, or will be, and are not consumed."""

    @property
    def position(self) -> Position:
        """The position before it."""
        return self._batch.position(self._row)

    def take(self, batch: _Batch, row: int) -> None:
        """Count a message as taken."""
        if batch.consumed is None:
            return
        if batch.source in self._first:
            batch.consumed.note(row)
        else:
            self._first[batch.source] = batch.consumed, row

    def consumed(self) -> None:
        """Count one more as consumed of those that are handed over."""
        self.left -= 1
        if not self.left:
            for batch, row in self._first.values():
                batch.note(row)


class Conflated(Generic[M]):
    """The messages of one key that are handed over as one."""

    __slots__ = ("_window", "bookmark", "count", "is_consumed", "newest", "size")

    def __init__(self, window: _Window, bookmark: Bookmark, newest: M) -> None:
        """Begin with one message."""
        self._window = window
        self.bookmark = bookmark
        """The bookmark of the first message."""
        self.newest = newest
        self.count = 0
        self.size = 0
        self.is_consumed = False

    def consumed(self) -> None:
        """Count all its messages as consumed, once all that its window handed over are."""
        if not self.is_consumed:
            self.is_consumed = True
            self._window.consumed()


class Conflation(Generic[M]):
    """The messages of one subscription that wait, or are due."""

    def __init__(
        self,
        interval: float,
        keys_max: int = KEYS_MAX,
        bytes_max: int = BYTES_MAX,
        messages_max: int = MESSAGES_MAX,
    ) -> None:
        """Begin with nothing that waits. interval: seconds of a window."""
        self._interval = interval
        self._keys_max = keys_max
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._waiting: dict[Hashable, Conflated[M]] = {}
        """The messages that wait, by key, in the order of the newest ones."""
        self._due: deque[Conflated[M]] = deque()
        self._window: _Window | None = None
        """The window of all that waits or is due; None: nothing does."""
        self._bytes = self._messages = 0
        self._position = Position()
        self._batch: _Batch | None = None
        self._rows = 0
        """The messages of the batch that were taken."""
        self.ends_at: float | None = None
        """When the window ends, on the caller's clock; None: nothing waits."""

    @property
    def position(self) -> Position:
        """The position behind everything that was handed over, and before what waits.

        It stays before a window until all of it is handed over. Messages of several sources may
        have one key. So going on inside of a window could give an old value, and not the newest.
        """
        if self._window is not None:
            return self._window.position
        return self._position if self._batch is None else self._batch.position(self._rows)

    def move(self, position: Position) -> None:
        """Go on at a position, where nothing waits."""
        self._position, self._batch = position, None

    def begin(
        self,
        source: SourceName,
        epoch: int,
        numbers: Sequence[int],
        behind: Position,
        consumed: Open | None,
    ) -> None:
        """Begin with a batch, whose messages are taken next.

        - behind: the position behind the batch.
        - consumed: counts which of its messages the application has consumed; None: nothing does.
        """
        before = self._position if self._batch is None else self._batch.behind
        self._batch, self._rows = _Batch(source, epoch, numbers, before, behind, consumed), 0

    def take(self, now: float, key: Hashable | None, message: M, size: int) -> None:
        """Take the next message of the batch.

        - now: seconds, on any clock that does not go back.
        - key: None: the message has none. It is due at once, behind all that waits.
        - size: bytes that it has in memory.
        """
        batch, row = self._batch, self._rows
        assert batch is not None
        self._rows += 1
        if self._window is None:
            self._window, self.ends_at = _Window(batch, row), now + self._interval
        self._window.take(batch, row)
        conflated = self._waiting.pop(key, None)
        if conflated is None:
            conflated = Conflated(self._window, batch.bookmark(row), message)
        # The order of the newest messages is that of the journal. So what is handed over later is
        # behind each bookmark that was handed over before.
        self._waiting[key] = conflated
        self._bytes += size - conflated.size
        self._messages += 1
        conflated.newest, conflated.size = message, size
        conflated.count += 1
        if key is None or self._is_full():
            self.end()

    def _is_full(self) -> bool:
        return (
            len(self._waiting) >= self._keys_max
            or self._bytes >= self._bytes_max
            or self._messages >= self._messages_max
        )

    def end(self) -> None:
        """End the window: what waits is due."""
        if self._window is not None:
            self._window.left += len(self._waiting)
        self._due.extend(self._waiting.values())
        self._waiting.clear()
        self._bytes = self._messages = 0
        self.ends_at = None

    def hand_over(self, now: float) -> Conflated[M] | None:
        """Return what is due next, and count it as handed over; None: nothing is due."""
        if self.ends_at is not None and now >= self.ends_at:
            self.end()
        if not self._due:
            return None
        conflated = self._due.popleft()
        if not self._due:
            self._window = None
        return conflated
