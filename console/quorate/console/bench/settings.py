"""The settings of a run of the bench: the options, and values derived from them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from quorate.console.bench.messages import BLOCK_MAX, HEADER_BYTES
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import MESSAGE_BYTES_USUAL

TOPIC = "bench"
_WARM_UP_MESSAGES_MAX = 100 * BLOCK_MAX
_SECONDS_TO_OPEN = 0.1
"""Seconds that opening a source may take."""


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
    sources: int
    """Sources of each process that sends."""
    processes: int
    """Processes that send."""
    messages: int
    """Messages of all sources together."""
    warm_up: int | None
    """Messages of all sources before those that are measured; None: a tenth of them, or less."""
    size: int
    """Bytes of payload of each message."""
    durability: str
    rate: float | None
    """Messages a second, of all sources together; None is as many as possible."""
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
    def all_sources(self) -> int:
        """The sources of all processes."""
        return self.sources * self.processes

    @property
    def block(self) -> int:
        """The messages of a block. A receiver checks a block at a time."""
        return max(1, min(BLOCK_MAX, self.messages // self.all_sources // 10))

    @property
    def each_measured(self) -> int:
        """Messages of each source that are measured: whole blocks."""
        return self._whole_blocks(self.messages)

    @property
    def each_warm_up(self) -> int:
        """Messages that each source sends first, at the same rate, and that are not measured."""
        usual = min(self.messages // 10, _WARM_UP_MESSAGES_MAX)
        return self._whole_blocks(usual if self.warm_up is None else self.warm_up)

    @property
    def interval_ns(self) -> float | None:
        """Nanoseconds between two messages of a source; None: as many messages as possible."""
        return None if self.rate is None else 1e9 * self.all_sources / self.rate

    @property
    def seconds_max(self) -> float:
        """Seconds after which a run counts as stuck."""
        at_most = self.rate if self.rate is not None else 5_000.0
        messages = (self.each_warm_up + self.each_measured) * self.all_sources
        opening = _SECONDS_TO_OPEN * self.all_sources * (1 + self.receivers)
        return 120.0 + opening + 2 * messages / at_most + (self.pause_store or 0.0)

    def _whole_blocks(self, messages: int) -> int:
        """Return the messages of each source: whole blocks, for so many messages of all."""
        return max(1, math.ceil(messages / (self.block * self.all_sources))) * self.block


def rate_of_all(
    rate: float | None, each: float | None, sources: int, processes: int
) -> float | None:
    """Return the messages a second of all sources; None: as many as possible.

    each: the messages a second of each source. Raises InvalidArgument if both rates are given, or
    if `each` is not above 0.
    """
    if each is None:
        return rate
    if rate is not None:
        raise InvalidArgument(
            "--messages-per-source-per-second", "cannot go with --rate, which is that of all"
        )
    if not 0 < each < math.inf:
        raise InvalidArgument("--messages-per-source-per-second", f"{each} is not above 0")
    return each * sources * processes
