"""The calls that a source makes to a publish store, and the publish store that keeps nothing.

How messages are kept on a disk is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quorate.protocol.attributes import Attributes
from quorate.protocol.fragments import Batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING

_NO_SIZES = memoryview(bytearray()).cast("I")
_NO_TIMES = memoryview(bytearray()).cast("q")


@dataclass(frozen=True, slots=True)
class Remembered:
    """The content of a publish store when it was opened."""

    source: SourceName | None = None
    """The source of the messages; None: the publish store never had any."""
    stable_upto: int = NOTHING
    """The highest number that the publish store was told is stable."""
    batches: list[Batch] = field(default_factory=list)
    """The batches with messages above stable_upto, in order."""
    next_sequence: int | None = None
    """The number of the next message, if the publish store has every earlier one.

    None: only the stores can tell. The publish store is new, or may have lost its newest messages.
    """


class Tail:
    """The end of what is kept, to which a send adds its message itself.

    A method call for each message would cost as much as the copy of the message. A send begins with
    `next` equal to its sequence number. It raises `next` by 1, and calls `write` with the payload.
    Then it enters its time in `times`, at its number minus `first`, and last the bytes of the
    payload, plus 1, in `sizes`.
    ValueError and IndexError say that there is no room: it sets `next` back, and calls `keep_all`.
    """

    __slots__ = ("first", "next", "sizes", "times", "write")

    def __init__(self) -> None:
        """Begin without room."""
        self.first = 0
        """The number of the first entry in `sizes` and `times`."""
        self.next = 0
        """The number of the next message. A send that was interrupted leaves it too high."""
        self.no_room()

    def no_room(self) -> None:
        """Take nothing, so that the next send calls `keep_all`."""
        self.write: Callable[[bytes], object] = _no_room
        self.sizes = _NO_SIZES
        self.times = _NO_TIMES

    def leads_to(
        self,
        first: int,
        write: Callable[[bytes], object],
        sizes: memoryview[int],
        times: memoryview[int],
    ) -> None:
        """Add messages there from now on."""
        self.first, self.write, self.sizes, self.times = first, write, sizes, times


class PublishStore(Protocol):
    """The calls that a source makes to a publish store. One source uses it at a time.

    No two calls overlap. Only the call that `syncing` returns may run beside others.
    """

    durable: bool
    """Whether it outlives the process. Only then the source calls the methods that keep."""
    slow: bool
    """Whether messages are safe only after a sync. Then a send waits for the sync."""
    place: str
    """The place of the kept messages, for people; empty: they do not outlive the process."""
    tail: Tail
    """Where single messages without key and properties are added, unless the store is slow."""

    def open(self) -> Remembered:
        """Open it. Raises PublishStoreInUse, PublishStoreDamaged, StorageFailed."""
        ...

    def claim(self, source: SourceName) -> None:
        """Keep the messages of this source only from now on. Raises StorageFailed."""
        ...

    def goes_on(self, next_sequence: int, unstable: Iterable[Batch]) -> None:
        """Note the number of the next message. Call it once, before anything is kept.

        unstable: batches that stores kept of the stream, in order. The publish store keeps those
        that it lacks. Raises StorageFailed.
        """
        ...

    def keep_all(
        self,
        first: int,
        payloads: Sequence[bytes],
        attributes: Sequence[Attributes],
        times: Sequence[int],
    ) -> None:
        """Keep consecutive messages. Raises NotKept.

        - attributes: as many as payloads, or none.
        - times: the time of each, in ns since 1970.
        """
        ...

    def keep_large(
        self, sequence: int, payload: bytes, attributes: Attributes, time_ns: int
    ) -> Iterator[None]:
        """Keep one large message, a part in each step.

        The message counts once the iterator has ended. Other calls may be made between two steps.
        Raises NotKept.
        """
        ...

    def keep_batch(self, batch: bytes) -> None:
        """Keep a batch of messages that were not kept yet: all of them or none. Raises NotKept."""
        ...

    def rewind(self, sequence: int) -> None:
        """Forget what is kept from this number on, because its sends were interrupted."""
        ...

    def packed(self, batch: Batch) -> None:
        """Note that kept messages became this batch. Raises StorageFailed."""
        ...

    def syncing(self) -> Callable[[], None]:
        """Return a call that puts on the disk what was kept so far.

        The call may run in another thread, and raises StorageFailed.
        """
        ...

    def settle(self, stable_upto: int) -> None:
        """Note that everything up to this number is stable, and may go. Raises StorageFailed."""
        ...

    def forget(self) -> None:
        """Remove everything of the source, which was deregistered. Raises StorageFailed."""
        ...

    def close(self) -> None:
        """Close it, also if it is not open."""
        ...


class MemoryPublishStore:
    """A publish store that keeps nothing. Unstable messages are in the memory of the source."""

    durable = False
    slow = False
    place = ""

    def __init__(self) -> None:
        self.tail = Tail()

    def open(self) -> Remembered:
        return Remembered()

    def claim(self, source: SourceName) -> None:
        pass

    def goes_on(self, next_sequence: int, unstable: Iterable[Batch]) -> None:
        pass

    def keep_all(
        self,
        first: int,
        payloads: Sequence[bytes],
        attributes: Sequence[Attributes],
        times: Sequence[int],
    ) -> None:
        pass

    def keep_large(
        self, sequence: int, payload: bytes, attributes: Attributes, time_ns: int
    ) -> Iterator[None]:
        raise NotImplementedError

    def keep_batch(self, batch: bytes) -> None:
        pass

    def rewind(self, sequence: int) -> None:
        pass

    def packed(self, batch: Batch) -> None:
        pass

    def syncing(self) -> Callable[[], None]:
        return _nothing_to_sync

    def settle(self, stable_upto: int) -> None:
        pass

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


def _no_room(_: bytes) -> None:
    """Stand for the writing while there is no room."""
    raise ValueError("there is no room")


def _nothing_to_sync() -> None:
    """Do nothing."""
