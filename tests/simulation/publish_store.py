"""Where a simulated source keeps what is not stable yet. Nothing of how it is sent."""

from __future__ import annotations

from quorate.protocol.framing import read_header
from quorate.protocol.limits import NOTHING


class PublishStore:
    """What a source keeps of what is not stable yet; it may outlive the process."""

    def __init__(self, outlives: bool) -> None:
        self.outlives = outlives
        self.stable_upto = NOTHING
        self.batches: list[bytes] = []

    def append(self, batch: bytes) -> None:
        if self.outlives:
            self.batches.append(batch)

    def forget(self) -> None:
        """Nothing of it is wanted any more."""
        self.stable_upto = NOTHING
        self.batches = []

    def settle(self, stable_upto: int) -> None:
        if self.outlives:
            self.stable_upto = stable_upto
            self.batches = [b for b in self.batches if read_header(b).last > stable_upto]
