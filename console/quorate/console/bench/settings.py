"""The settings of a run of the bench: the options, and values derived from them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from quorate.console.bench.messages import BLOCK, HEADER_BYTES
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import MESSAGE_BYTES_USUAL

TOPIC = "bench"
_WARM_UP_MESSAGES_MAX = 100 * BLOCK


class KeptIn(enum.StrEnum):
    """The place where the source keeps what is not stable yet."""

    MEMORY = "memory"
    FILE = "file"
    SYNCED = "synced"
    """A file that is synced before a send returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """The options of a run. Raises InvalidArgument if they are not valid."""

    stores: int
    messages: int
    size: int
    """Bytes of payload of each message."""
    durability: str
    rate: float | None
    """Messages a second; None is as many as possible."""
    receivers: int
    delivery: str
    publish_store: str
    tls: bool
    """Connections are secure."""
    kill_store: bool
    pause_store: float | None
    """Seconds for which one store is paused, while all else runs at full rate."""

    def __post_init__(self) -> None:
        if self.durability not in ("fsync", "os", "memory"):
            raise InvalidArgument(
                "--durability", f"{self.durability!r} is none of fsync, os and memory"
            )
        if not HEADER_BYTES <= self.size <= MESSAGE_BYTES_USUAL:
            raise InvalidArgument(
                "--size", f"{self.size} is not between {HEADER_BYTES} and {MESSAGE_BYTES_USUAL}"
            )
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InvalidArgument("--rate", f"{self.rate} is not above 0")
        if self.pause_store is not None and not 0 < self.pause_store < math.inf:
            raise InvalidArgument("--pause-store", f"{self.pause_store} is not above 0")
        if self.kill_store and self.pause_store is not None:
            raise InvalidArgument(
                "--pause-store", "cannot go with --kill-store: a run has one fault"
            )
        if (self.kill_store or self.pause_store is not None) and self.stores < 3:
            raise InvalidArgument(
                "--stores", "must be at least 3 with a fault, or no quorum is left"
            )

    @property
    def measured(self) -> int:
        """Messages that are measured: whole blocks."""
        return _whole_blocks(self.messages)

    @property
    def warm_up(self) -> int:
        """Messages sent first, at the same rate, and not measured."""
        return _whole_blocks(min(self.messages // 10, _WARM_UP_MESSAGES_MAX))

    @property
    def seconds_max(self) -> float:
        """Seconds after which a run counts as stuck."""
        at_most = self.rate if self.rate is not None else 5_000.0
        return 120.0 + 2 * (self.warm_up + self.measured) / at_most + (self.pause_store or 0.0)


def _whole_blocks(messages: int) -> int:
    return max(1, math.ceil(messages / BLOCK)) * BLOCK
