"""The flight window and the messages gathered in it: the counters that every send touches.

Pure. `Source.send` reads and writes the counters directly. A method call for each message would
cost as much as all the rest of a send. A send may go on without asking while `next_sequence <
pause_at and sent_bytes < pause_at_bytes`.

Every other condition lowers these two: closed, no quorum, window full, batch full, packing not
started. How messages go on the wire is not known here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import NamedTuple

from quorate.protocol.attributes import Attributes
from quorate.protocol.limits import (
    BATCH_BYTES_TARGET,
    BATCH_MESSAGES_MAX,
    MESSAGE_BYTES_USUAL,
    NOTHING,
    SEQUENCE_MAX,
)
from quorate.source.options import FlightBehaviour, SourceOptions
from quorate.source.protocol.outgoing import Limit, fill_up, message_sizes


class Gathered(NamedTuple):
    """The messages of a batch to be packed."""

    first: int
    """The number of the first."""
    payloads: list[bytes]
    attributes: list[Attributes]
    """As many as the payloads, or none if no message has any."""
    times: list[int]
    """The time of each, in ns since 1970."""


class Window:
    """The accepted messages, those not packed yet, and how many more may be accepted."""

    __slots__ = (
        "_flight_bytes",
        "_flight_messages",
        "_notify",
        "attributes",
        "exceeded_noted",
        "is_open",
        "lag_noted",
        "limit",
        "lock",
        "next_sequence",
        "paced_bytes",
        "paced_upto",
        "packed_bytes",
        "pause_at",
        "pause_at_bytes",
        "payloads",
        "reserved",
        "sent_bytes",
        "stable_bytes",
        "stable_upto",
        "times",
        "usual_bytes_max",
    )

    def __init__(self, options: SourceOptions) -> None:
        self._flight_messages = options.flight_messages
        self._flight_bytes = options.flight_bytes
        self._notify = FlightBehaviour(options.flight_behaviour) is FlightBehaviour.NOTIFY
        self.limit_to(Limit(options.message_bytes_max))
        self.lock: AbstractContextManager[object] = nullcontext()
        """Held by whoever changes the window. The blocking source puts a re-entrant lock here."""
        self.payloads: list[bytes] = []
        """The payloads of messages accepted but not packed; they end just before next_sequence."""
        self.attributes: list[Attributes] = []
        """The attributes of the first payloads; the later payloads, often all, have none."""
        self.times: list[int] = []
        """The time of each payload, in ns since 1970. It is appended before the payload: a send
        that was interrupted leaves one too many at the end."""
        self.next_sequence = 0
        self.sent_bytes = 0
        """The bytes of the messages accepted since the start; packed_bytes and stable_bytes count
        alike."""
        self.packed_bytes = 0
        self.stable_bytes = 0
        self.stable_upto = NOTHING
        self.is_open = False
        """Whether messages are accepted at all."""
        self.reserved = False
        """Whether one caller sends several messages that must stay together."""
        self.exceeded_noted = False
        self.paced_upto = SEQUENCE_MAX
        """The last number that receivers' positions allow; sent_bytes must stay below
        paced_bytes."""
        self.paced_bytes = sys.maxsize
        self.lag_noted = False
        self.pause_at = 0
        self.pause_at_bytes = 0

    def limit_to(self, limit: Limit) -> None:
        """Accept no larger messages than this from now on."""
        self.limit = limit
        self.usual_bytes_max = min(limit.size, MESSAGE_BYTES_USUAL)
        """The bytes of the largest message that a send need not look at twice."""

    def restart(self, packed_upto: int, packed_bytes: int, stable_upto: int) -> None:
        """Go on behind what was packed; gathered messages stay gathered."""
        with self.lock:
            gathered_bytes = self.sent_bytes - self.packed_bytes
            self.packed_bytes = packed_bytes
            self.sent_bytes = packed_bytes + gathered_bytes
            self.stable_bytes = 0
            self.next_sequence = packed_upto + 1 + len(self.payloads)
            self.stable_upto = stable_upto
            self.refresh()

    @property
    def gathered_from(self) -> int:
        """The sequence number of the first message that was not packed yet."""
        return self.next_sequence - len(self.payloads)

    @property
    def full(self) -> bool:
        """Whether a whole batch has gathered."""
        return (
            len(self.payloads) >= BATCH_MESSAGES_MAX
            or self.sent_bytes - self.packed_bytes >= BATCH_BYTES_TARGET
        )

    @property
    def exceeded(self) -> bool:
        """Whether as much is unstable as the flight window allows."""
        return (
            self.next_sequence - 1 - self.stable_upto >= self._flight_messages
            or self.sent_bytes - self.stable_bytes >= self._flight_bytes
        )

    @property
    def paced_out(self) -> bool:
        """Whether as much was sent as the receivers' positions allow."""
        return self.next_sequence > self.paced_upto or self.sent_bytes >= self.paced_bytes

    @property
    def blocked(self) -> bool:
        """Whether the next message has to wait for stability or for a receiver's
        acknowledgement."""
        return not self._notify and (self.exceeded or self.paced_out)

    def room(self) -> tuple[int, int]:
        """Return how many messages, and about how many bytes, may gather before a pause.

        A pause is due at the end of each batch, also if several have gathered.
        """
        messages = BATCH_MESSAGES_MAX - len(self.payloads) % BATCH_MESSAGES_MAX
        size = BATCH_BYTES_TARGET - (self.sent_bytes - self.packed_bytes) % BATCH_BYTES_TARGET
        if not self._notify or not (self.exceeded_noted or self.exceeded):
            messages = min(
                messages, self.stable_upto + 1 + self._flight_messages - self.next_sequence
            )
            size = min(size, self.stable_bytes + self._flight_bytes - self.sent_bytes)
        if self.paced_upto < SEQUENCE_MAX and not (
            self._notify and (self.lag_noted or self.paced_out)
        ):
            messages = min(messages, self.paced_upto + 1 - self.next_sequence)
            size = min(size, self.paced_bytes - self.sent_bytes)
        return messages, size

    def refresh(self) -> None:
        """Set where sends pause, from all other state."""
        with self.lock:
            if self.is_open and not self.payloads and not self.reserved:
                # The first message of a batch pauses, so that its send starts the packing.
                self.pause_at = self.next_sequence
            else:
                self.gather()

    def gather(self) -> None:
        """Admit messages up to the end of the batch or of the flight window."""
        with self.lock:
            if not self.is_open or self.reserved:
                self.pause_at = 0
                return
            messages, size = self.room()
            self.pause_at = min(self.next_sequence + messages, SEQUENCE_MAX)
            self.pause_at_bytes = self.sent_bytes + size

    def reserve(self, reserved: bool) -> None:
        """Begin or end a time in which only the caller adds messages."""
        with self.lock:
            self.reserved = reserved
            self.refresh()

    def settle(self, stable_upto: int, stable_bytes: int) -> None:
        """Note that more is stable."""
        with self.lock:
            self.stable_upto = stable_upto
            self.stable_bytes = max(self.stable_bytes, stable_bytes)
            self.refresh()

    def pace(self, upto: int, size: int) -> None:
        """Set the bounds that the receivers' positions allow."""
        if (upto, size) != (self.paced_upto, self.paced_bytes):
            with self.lock:
                self.paced_upto, self.paced_bytes = upto, size
                self.refresh()

    def add(
        self,
        payloads: Sequence[bytes],
        attributes: Sequence[Attributes],
        size: int,
        time_ns: int,
    ) -> None:
        """Accept messages.

        - attributes: as many as payloads, or none if no message has any.
        - time_ns: the time of all of them, in ns since 1970.
        """
        with self.lock:
            del self.times[len(self.payloads) :]
            self.times += [time_ns] * len(payloads)
            if attributes:
                fill_up(self.attributes, len(self.payloads))
                self.attributes += attributes
            self.payloads += payloads
            self.next_sequence += len(payloads)
            self.sent_bytes += size

    def take(self) -> Gathered:
        """Return the messages of the next batch, which count as packed now."""
        with self.lock:
            first, payloads, attributes = self.gathered_from, self.payloads, self.attributes
            times = self.times
            if attributes:
                fill_up(attributes, len(payloads))
            count = self._batch_end()
            self.times = times[count : len(payloads)]
            del times[count:]
            self.payloads, self.attributes = payloads[count:], attributes[count:]
            if count == len(payloads):
                self.packed_bytes = self.sent_bytes
            else:
                del payloads[count:], attributes[count:]
                self.packed_bytes += sum(message_sizes(payloads, attributes))
            self.refresh()
            return Gathered(first, payloads, attributes, times)

    def _batch_end(self) -> int:
        """Return how many of the gathered messages become the next batch: mostly all of them."""
        payloads, attributes = self.payloads, self.attributes
        count = len(payloads)
        if not count:
            return 0
        newest = len(payloads[-1]) + (attributes[-1].size if len(attributes) == count else 0)
        if (
            count <= BATCH_MESSAGES_MAX
            and self.sent_bytes - self.packed_bytes - newest < BATCH_BYTES_TARGET
        ):
            # A large message has a batch of its own.
            return count if newest <= MESSAGE_BYTES_USUAL else max(1, count - 1)
        most = BATCH_MESSAGES_MAX
        sizes = message_sizes(payloads[:most], attributes[:most])
        count = next(
            (
                number
                for number, size in enumerate(accumulate(sizes), 1)
                if size >= BATCH_BYTES_TARGET
            ),
            len(sizes),
        )
        return count if sizes[count - 1] <= MESSAGE_BYTES_USUAL else max(1, count - 1)
