"""What was ever written under which number of which epoch: that may never be two contents.

For the checker; what must be where is for tests.simulation.checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.simulation.content import contents_of

from quorate.protocol.framing import check_batch
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.reader import StoredBatch


class Written:
    """Of one source's stream, on all disks."""

    def __init__(self, require: Callable[[bool, str, str], None]) -> None:
        """require: holds, or which rule does not."""
        self._require = require
        self._contents: dict[tuple[int, int], bytes] = {}
        """By the epoch of the batch and the sequence number."""
        self._frames: dict[bytes, tuple[int, list[bytes]]] = {}
        """Batches whose contents are known: the first number, and what is under it and the next."""

    def commit(self, store: str, writes: Sequence[Write]) -> None:
        """A store writes these."""
        for write in writes:
            if write.table is not Table.JOURNAL or write.value is None:
                continue
            if write.value not in self._frames:
                header = check_batch(write.value)
                payloads = contents_of(write.value, header)
                self._frames[write.value] = header.first, payloads
                for sequence, payload in enumerate(payloads, header.first):
                    self.same(header.epoch, sequence, payload, store)

    def same(self, epoch: int, sequence: int, payload: bytes, where: str) -> None:
        """Somebody has this under that number."""
        known = self._contents.setdefault((epoch, sequence), payload)
        self._require(
            known == payload,
            "I2",
            f"{where} has {payload!r} for {sequence} of epoch {epoch}, others {known!r}",
        )

    def get(self, epoch: int, sequence: int) -> bytes | None:
        return self._contents.get((epoch, sequence))

    def read(self, batch: StoredBatch) -> Iterator[tuple[int, bytes]]:
        """The numbers of a batch that was read well, and what is under each."""
        # Whatever is on a disk, and can be read, was written to it.
        begins, payloads = self._frames[batch.frame]
        for sequence in range(batch.part.first, batch.part.last + 1):
            yield sequence, payloads[sequence - begins]

    def newer(self, sequence: int, one: bytes, other: bytes) -> bytes:
        """Of two contents that a store has and had, the one that was sent later: a disk that was
        put back may have what had been set aside since."""

        def newest_epoch(content: bytes) -> int:
            known = self._contents.items()
            return max((epoch for (epoch, n), each in known if (n, each) == (sequence, content)))

        return one if one == other else max(one, other, key=newest_epoch)
