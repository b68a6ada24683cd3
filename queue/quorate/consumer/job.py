"""A job of a queue: a message, and what the application says of it."""

from __future__ import annotations

from collections.abc import Mapping

from quorate.consumer.settling import Ledger, Settling
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.queues import DELAY_SECONDS_MAX, REASON_LENGTH_MAX
from quorate.subscriber.items import ReplayedBatch, ReplayedMessage
from quorate.transport.tracing import Processing, Tracing
from quorate.v1 import queue_pb2 as v1

_OUTCOMES = {
    v1.SETTLEMENT_KIND_DONE: "done",
    v1.SETTLEMENT_KIND_RETRY: "retry",
    v1.SETTLEMENT_KIND_DISCARD: "discard",
}


class Job:
    """A message of a queue, which no other consumer has at the time.

    Say what became of it with one of `done`, `retry` and `discard`. That counts at once: the call
    need not be awaited. It is stable when the call is awaited.
    """

    __slots__ = (
        "_batch", "_is_settled", "_ledger", "_row", "_span", "payload", "sequence", "tries",
    )  # fmt: skip

    payload: bytes
    """The content of the message."""
    sequence: int
    """The position of the message in its source's stream."""
    tries: int
    """How often the message was handed out, this time included."""

    def __init__(
        self,
        ledger: Ledger,
        batch: ReplayedBatch,
        row: int,
        sequence: int,
        payload: bytes,
        tries: int,
    ) -> None:
        """Make a job. Applications use a consumer."""
        self._ledger = ledger
        self._batch = batch
        self._row = row
        self._is_settled = False
        self._span: Processing | None = None
        self.payload = payload
        self.sequence = sequence
        self.tries = tries

    @property
    def message(self) -> ReplayedMessage:
        """The message, with its time, its bookmark and all else."""
        return ReplayedMessage(self._batch, self._row, self.sequence, self.payload)

    @property
    def key(self) -> bytes | None:
        """The key of the message; None: it has none."""
        return self._batch.keys[self._row]

    @property
    def properties(self) -> Mapping[str, bytes]:
        """The properties of the message, values by name."""
        return self._batch.properties[self._row]

    @property
    def source(self) -> SourceName:
        """The source that sent the message."""
        return self._batch.source

    @property
    def topic(self) -> str:
        """The topic of the message."""
        return self._batch.source.topic

    def done(self) -> Settling:
        """Say that the job is done: the message is handed out no more, once that is stable.

        Also a job whose lease is over counts as done. Raises InvalidArgument if something was said
        of it before, or the error that ended the consumer.
        """
        return self._settle(v1.SETTLEMENT_KIND_DONE)

    def retry(self, delay: float = 0.0, reason: str = "") -> Settling:
        """Say that the job failed, and is to be handed out again, to whichever consumer is free.

        - delay: seconds until then.
        - reason: why it failed, for the dead letter that it may become.

        Raises what `done` does.
        """
        if not isinstance(delay, int | float) or not 0 <= delay <= DELAY_SECONDS_MAX:
            raise InvalidArgument(
                "delay", f"{delay!r} is not between 0 and {DELAY_SECONDS_MAX:,.0f} seconds"
            )
        return self._settle(v1.SETTLEMENT_KIND_RETRY, delay, reason)

    def discard(self, reason: str = "") -> Settling:
        """Say that the job can never be done: the message becomes a dead letter at once.

        reason: why, for the dead letter. Raises what `done` does.
        """
        return self._settle(v1.SETTLEMENT_KIND_DISCARD, 0.0, reason)

    def extend(self) -> Settling:
        """Ask for more time: the lease of the job begins anew, and lasts as long as at first.

        A lease that is over stays over; another consumer may have the job by then. When the call
        is awaited, the dispatcher has heard it. Raises what `done` does.
        """
        self._check_open()
        return self._say(v1.SETTLEMENT_KIND_EXTEND)

    def _check_open(self) -> None:
        if self._is_settled:
            raise InvalidArgument("job", "was settled before; say one thing of each job")

    def _settle(self, kind: v1.SettlementKind, delay: float = 0.0, reason: str = "") -> Settling:
        self._check_open()
        if not isinstance(reason, str):
            raise InvalidArgument("reason", f"{reason!r} is no text")
        reason = reason[:REASON_LENGTH_MAX].encode(errors="replace").decode()
        said = self._say(kind, delay, reason)
        self._is_settled = True
        if self._span is not None:
            self._span.end(_OUTCOMES[kind])
        return said

    def _say(self, kind: v1.SettlementKind, delay: float = 0.0, reason: str = "") -> Settling:
        batch = self._batch
        return self._ledger.say(batch.source, batch.epoch, self.sequence, kind, delay, reason)

    def _trace(self, tracing: Tracing) -> None:
        """Begin the span of the job. It ends once the application says what became of it."""
        self._span = tracing.processing("job", self.source, self.sequence, self.properties)

    def __repr__(self) -> str:
        return f"<Job {self.message.bookmark} {len(self.payload)} bytes>"
