"""The filter of a receiver, applied to a part of a batch before the application gets it.

No I/O. A part that is selected keeps no message in memory that was left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.fragments import LargeBatch
from quorate.protocol.framing import body_of, read_header, rows_of
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range
from quorate.receiver.protocol.stream import BatchPart


@dataclass(frozen=True, slots=True)
class Selection:
    """The messages of a part that pass the filter, and the numbers of the others."""

    kept: list[BatchPart]
    """The messages that pass: a part for each run of consecutive numbers."""
    left_out: list[Range]
    """The numbers of the messages that do not pass."""


def select(where: Filter, form: PayloadFormat, part: BatchPart) -> Selection:
    """Evaluate the filter once for each message of the part.

    form: the format of the payloads. Raises CorruptBatch.
    """
    header, frame = part.header, part.frame
    if isinstance(frame, LargeBatch):
        body, payloads = frame.columns(), [frame.message()[0]]
    else:
        body = body_of(frame, header)
        payloads = body.read_payloads()
    rows = passing(where, header, payloads, body, part.first, part.last, form)
    if len(rows) == part.last - part.first + 1:
        return Selection([part], [])
    kept, runs = [], _runs([header.first + row for row in rows])
    for run in runs:
        chosen = range(run.first - header.first, run.last - header.first + 1)
        batch = rows_of(header, body, chosen, payloads[chosen.start : chosen.stop])
        kept.append(BatchPart(run.first, run.last, read_header(batch), batch, part.retransmitted))
    return Selection(kept, _between(runs, part.first, part.last))


def _runs(numbers: list[int]) -> list[Range]:
    """Return ascending numbers as ranges."""
    runs: list[Range] = []
    for number in numbers:
        if runs and runs[-1].last == number - 1:
            runs[-1] = Range(runs[-1].first, number)
        else:
            runs.append(Range(number, number))
    return runs


def _between(runs: list[Range], first: int, last: int) -> list[Range]:
    """Return what [first, last] has beside these ranges."""
    begins = [first, *(run.last + 1 for run in runs)]
    ends = [*(run.first - 1 for run in runs), last]
    return [Range(*each) for each in zip(begins, ends, strict=True) if each[0] <= each[1]]
