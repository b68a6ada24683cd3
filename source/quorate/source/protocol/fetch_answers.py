"""The source's answers to a fetch, from what it still retains.

Pure. The requester, and how fast it reads, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.fragments import LargeBatch, fragments_of
from quorate.protocol.ranges import Range
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.frames import batch_of
from quorate.v1 import messages_pb2 as v1


def answers(core: SourceCore, first: int, last: int) -> Iterator[v1.FetchResponse]:
    """Yield what is retained of [first, last], what is not, and where the stream ends.

    Each response looks it up anew, because the retention changes while a receiver reads.
    """
    retention, packing = core.retention, AnswerPacking()
    last = min(last, core.packed_upto)
    while first <= last:
        if first < retention.first:
            gone = Range(first, min(last, retention.first - 1))
            packing.missing(gone, v1.LOOKUP_ABSENT, "the source no longer retains it")
            first = gone.last + 1
            continue
        item = retention.at(retention.ordinal_of(first))
        if item is None or item.first > first:
            lost = Range(first, last if item is None else min(last, item.first - 1))
            packing.missing(lost, v1.LOOKUP_ABSENT, "an operator has accepted that it is lost")
            first = lost.last + 1
            continue
        batch = batch_of(item.frame)
        part = Range(max(first, item.first), min(last, item.last))
        if isinstance(batch, LargeBatch):
            for at, data in fragments_of(batch):
                packing.fragment(at, batch.size, data, part)
                yield from packing.full()
        else:
            packing.fetched(batch, part)
            yield from packing.full()
        first = item.last + 1
    packing.end(core.packed_upto, core.stable_upto, core.registration.lineage)
    yield from packing.all()
