"""One source's live stream: the address to attach to, and the frames to take (protocol.md 8.4).

Pure. `attach` begins an attachment and returns its address; `take` gets the frames, one after the
other. `why_leave` is to be asked now and then; `ended` says when to attach again. The results go
into the stream and the plan, and `events` report them. The shell must act on the events before it
waits for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from quorate.protocol.delays import HOPELESS_SECONDS, RECONNECT, Delays, delay_after
from quorate.protocol.errors import CorruptBatch, LiveStreamOver, QuorateError, Unreachable
from quorate.protocol.fragments import Assembly
from quorate.protocol.framing import check_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.receiver.protocol.directory import SourceRecord, record_from_wire
from quorate.receiver.protocol.fetch_plan import FetchPlan
from quorate.receiver.protocol.stream import (
    BatchOutcome,
    Stream,
)
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class Heard:
    """The source reports information of itself that the directory does not have yet."""

    record: SourceRecord


@dataclass(frozen=True, slots=True)
class Attached:
    """The live stream comes in from now on."""

    address: str
    epoch: int
    next_sequence: int
    wants_confirmation: bool
    """Whether the source asks receivers to confirm what they consume."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The source has closed, after it sent everything up to here."""

    last_sequence: int


@dataclass(frozen=True, slots=True)
class Detached:
    """The live stream came in until now."""

    error: QuorateError


@dataclass(frozen=True, slots=True)
class NotAttached:
    """The attachment failed: no live stream came in."""

    error: QuorateError


Event = Heard | Attached | Gone | Detached | NotAttached


class Following:
    """The attachments to one source's live stream, one after the other."""

    def __init__(
        self,
        record: SourceRecord,
        stream: Stream,
        plan: FetchPlan,
        delays: Delays = RECONNECT,
    ) -> None:
        """Begin detached. delays: between attempts to attach."""
        self.events: list[Event] = []
        """The events for the shell, which takes them away."""
        self._source = record.source
        self._record = record
        self._attached_by = record
        """The source's entry at the beginning of the attachment."""
        self._stream = stream
        self._plan = plan
        self._delays = delays
        self._failures = 0
        self._epoch = 0
        """The newest epoch that this live stream has named; 0: none yet."""
        self._where = ""
        self._silence: QuorateError | None = None
        """Why the source at the address of this attachment is taken for hung."""
        self._assembly: Assembly | None = None

    def source_is(self, record: SourceRecord) -> None:
        """Take a new entry of the source."""
        self._record = record

    def attach(self) -> str:
        """Begin an attachment. Return the address to attach to."""
        self._attached_by = self._record
        self._epoch, self._silence = 0, None
        self._where = f"from {self._address}"
        return self._address

    def silent(self, address: str, silence: QuorateError) -> None:
        """Note that the process at this address has become silent."""
        if address == self._address:
            self._silence = silence

    def take(self, frame: v1.Frame) -> int | None:
        """Take a frame. Raise why no further frame of this attachment is of use.

        Return the epoch whose lineage must be known first, if any. Then the frame is to be given
        once more.
        """
        match frame.WhichOneof("kind"):
            case "batch":
                # Each access to the field makes a copy.
                return self._take_batch(frame.batch, frame.stable_upto)
            case "fragment":
                return self._take_fragment(frame.fragment, frame.stable_upto)
            case "attached":
                if not self._begin(frame.attached):
                    return self._epoch
            case "information":
                self._epoch = max(self._epoch, frame.information.epoch)
                self._hear(frame.information)
            case "goodbye":
                last = frame.goodbye.last_sequence
                self._stream.exists(last, self._epoch)
                self.events.append(Gone(last))
        self._stream.stable(frame.stable_upto, self._epoch)
        return None

    def why_leave(self) -> QuorateError | None:
        """Return why this live stream is of no further use; None: it is."""
        why, newest = "", self._stream.newest_epoch
        if self._record.address != self._address:
            why = f"the source moved to {self._record.address}"
        elif self._plan.attached and self._epoch < newest:
            # A source says so first when it begins another epoch. This one was fenced, and lives
            # on.
            why = f"the source there is in epoch {self._epoch}, and {newest} was begun elsewhere"
        return LiveStreamOver(self._address, why) if why else self._silence

    def ended(self, error: QuorateError) -> float | None:
        """End the attachment, which may never have begun.

        Return the seconds to wait for the next one, unless there is news of the source before.
        None: there is news already.
        """
        was_attached, self._plan.attached = self._plan.attached, False
        self._break_off()
        self.events.append(Detached(error) if was_attached else NotAttached(error))
        is_news = self._record != self._attached_by
        if was_attached or is_news:
            self._failures = 0
        self._failures += 1
        # While no store says that the source lives, the directory will report its return.
        delays = self._delays
        if not self._record.live:
            delays = replace(delays, first=delays.longest, longest=HOPELESS_SECONDS)
        return None if is_news else delay_after(delays, self._failures)

    # Inside.

    @property
    def _address(self) -> str:
        return self._attached_by.address

    def _take_fragment(self, fragment: v1.Fragment, stable_upto: int) -> int | None:
        at, size, data = fragment.at, fragment.size, fragment.data
        if not at:
            self._break_off()
            header = read_header(data, self._where, size)
            self._check_source(header.source)
            self._epoch = max(self._epoch, header.epoch)
            if self._lacks_lineage(header.epoch):
                return header.epoch
            if self._stream.arrives(header, size):
                self._assembly = Assembly(self._where)
        if (assembly := self._assembly) is not None:
            assembly.take(at, size, data)
            if assembly.is_whole:
                self._assembly = None
                self._stream.arrived(assembly.batch())
        self._stream.stable(stable_upto, self._epoch)
        return None

    def _break_off(self) -> None:
        if self._assembly is not None:
            self._assembly = None
            self._stream.broke_off()

    def _check_source(self, source: SourceName) -> None:
        if source != self._source:
            raise CorruptBatch(self._where, f"it is of {source}")

    def _take_batch(self, batch: bytes, stable_upto: int) -> int | None:
        self._break_off()
        header = check_batch(batch, self._where)
        self._check_source(header.source)
        self._epoch = max(self._epoch, header.epoch)
        if self._stream.live(header, batch) is BatchOutcome.NEWER_EPOCH:
            return header.epoch
        self._stream.stable(stable_upto, header.epoch)
        return None

    def _begin(self, attached: v1.Attached) -> bool:
        """Return whether the lineage of the source's epoch is known."""
        record = record_from_wire(attached.information, live=self._record.live)
        if record.source != self._source:
            raise Unreachable(self._address, f"it serves {record.source}, not {self._source}")
        if record.epoch < self._stream.newest_epoch:
            raise Unreachable(self._address, f"it is in epoch {record.epoch}, which is over")
        self._epoch = record.epoch
        self._hear(attached.information)
        if self._lacks_lineage(record.epoch):
            return False
        self._stream.exists(attached.next_sequence - 1, record.epoch)
        self._plan.attached = True
        self.events.append(
            Attached(self._address, record.epoch, attached.next_sequence, attached.confirm)
        )
        return True

    def _lacks_lineage(self, epoch: int) -> bool:
        # A number in the source's epoch means another message under an older lineage.
        self._stream.heard_of_epoch(epoch)
        return self._stream.lineage.epoch < epoch

    def _hear(self, information: v1.SourceInformation) -> None:
        # The stores alone say whether the source streams to them, or which of them is its proxy.
        known = self._record
        record = record_from_wire(information, live=known.live, proxy=known.proxy)
        if record.order > known.order:
            self.events.append(Heard(record))
