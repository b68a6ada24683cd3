"""The tasks of an audit in Spark's workers: they compare digests, and read where these differ.

A task depends only on its part, and reports its findings as JSON. Nothing here judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import grpc

from quorate.pipeline.archive.tasks import Entry
from quorate.pipeline.audit.contents import (
    Batch,
    content_hash,
    divergent,
    merged,
    other_batches,
    surplus,
    suspicious,
)
from quorate.pipeline.audit.facts import Finding, Kind
from quorate.pipeline.audit.holdings import Segment
from quorate.pipeline.options import parse_source
from quorate.pipeline.stores.client import call_fetch, channel_to
from quorate.pipeline.stores.fetch import answers_of
from quorate.protocol.answers import Corrupt, Piece
from quorate.protocol.digests import Block
from quorate.protocol.errors import (
    CorruptBatch,
    QuorateError,
    StorageFailed,
    UnknownTopic,
)
from quorate.protocol.framing import BatchHeader, read_contents
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.transport.failures import error_from_blocking_call
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

BLOCK = 1 << 16
CLOSE_BLOCK = 1 << 12
DIGESTS_AT_ONCE = 1 << 22
"""Numbers that one request for digests covers. A store reads the index row of each batch."""
_DIGEST_SECONDS_MAX = 60.0
_READ_AT_ONCE = 1 << 18
"""Numbers that are read at each store before they are compared."""

Addresses = Mapping[str, str]
"""By its own name, the address of each store."""


def audit_part(part: Sequence[Segment], *, addresses: Addresses, thorough: bool) -> Iterator[Entry]:
    """Compare the segments of a part. Yield the findings, and the counts of each segment."""
    look = _read_all if thorough else _compare_digests
    for segment in part:
        stores = Reader(segment, addresses)
        for finding in merged(look(stores)):
            yield finding_to_json(segment.source, finding)
        yield {
            "source": str(segment.source),
            "compared": segment.last - segment.first + 1,
            "read": stores.read,
        }


def finding_to_json(source: SourceName, finding: Finding) -> Entry:
    return {
        "source": str(source),
        "kind": finding.kind.text,
        "stores": finding.stores,
        "first": finding.first,
        "last": finding.last,
        "detail": finding.detail,
    }


def finding_from_json(entry: Entry) -> tuple[SourceName, Finding]:
    return parse_source(entry["source"]), Finding(
        Kind.of(entry["kind"]),
        tuple(entry["stores"]),
        entry["first"],
        entry["last"],
        entry["detail"],
    )


class Reader:
    """The stores of a segment, as a task asks them. A store that fails once is not asked again."""

    def __init__(self, segment: Segment, addresses: Addresses) -> None:
        self.segment = segment
        self.read = 0
        """Number of messages that were read, at all stores together."""
        self._addresses = {store: addresses[store] for store in segment.stores}

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores that have not failed."""
        return tuple(self._addresses)

    def chunks(self, size: int) -> Iterator[Range]:
        """Yield the segment in pieces. All but the first begin at a multiple of the size."""
        first = self.segment.first
        while first <= self.segment.last:
            last = min(first - first % size + size - 1, self.segment.last)
            yield Range(first, last)
            first = last + 1

    def digests(self, wanted: Range, block: int) -> dict[str, list[Block]]:
        """Return the digests of each store, without stores that cannot compute them.

        Raises Silent for a store that does not answer.
        """
        request = store_v1.DigestRequest(
            source=source_to_wire(self.segment.source),
            first=wanted.first,
            last=wanted.last,
            block=block,
            protocol_version=PROTOCOL_VERSION,
        )
        calls = {
            store: StoreStub(channel_to(address)).Digest.future(
                request, timeout=_DIGEST_SECONDS_MAX
            )
            for store, address in self._addresses.items()
        }
        found: dict[str, list[Block]] = {}
        for store, call in calls.items():
            try:
                found[store] = [
                    Block(each.first, each.last, each.held, each.digest)
                    for each in call.result().blocks
                ]
            except grpc.RpcError as error:
                failed = error_from_blocking_call(self._addresses[store], error)
                if not isinstance(failed, CorruptBatch | StorageFailed | UnknownTopic):
                    raise Silent(store, failed) from error
        return found

    def gone(self, silent: Silent, first: int) -> Finding:
        """Ask a store no longer, and return the finding about it."""
        del self._addresses[silent.store]
        return Finding(Kind.UNSEEN, (silent.store,), first, self.segment.last, str(silent.error))

    def served(
        self, store: str, wanted: Range, take: Callable[[bytes, BatchHeader, Range], None]
    ) -> list[Finding]:
        """Read what a store has of a range, hand each batch to `take`, and return the findings."""
        segment, findings, reached = self.segment, list[Finding](), wanted.first

        def wrong(kind: Kind, first: int, last: int, detail: str) -> None:
            if first <= last:
                findings.append(Finding(kind, (store,), first, last, detail))

        try:
            address = self._addresses[store]
            with answers_of(
                call_fetch, address, segment.source, wanted.first, wanted.last
            ) as answers:
                for answer in answers:
                    if isinstance(answer, v1.FetchEnd):
                        break
                    part = Range(answer.first, min(answer.last, wanted.last))
                    reached = part.last + 1
                    match answer:
                        case v1.Missing(why=v1.LOOKUP_RELEASED):
                            pass  # the store released it since it answered that it holds it
                        case v1.Missing():
                            what = _MISSING.get(answer.why, Kind.UNREADABLE)
                            wrong(what, part.first, part.last, answer.detail)
                        case Corrupt():
                            wrong(Kind.UNREADABLE, part.first, part.last, answer.error.detail)
                        case Piece():
                            try:
                                _check_lineage(answer, segment, store)
                                take(answer.frame, answer.header, part)
                                self.read += len(part)
                            except CorruptBatch as error:
                                wrong(Kind.UNREADABLE, part.first, part.last, error.detail)
        except UnknownTopic:
            pass
        except QuorateError as error:
            findings.append(self.gone(Silent(store, error), reached))
            return findings
        wrong(Kind.HOLE, reached, wanted.last, "it has no further messages")
        return findings


class Silent(Exception):
    """The failure of a store to answer."""

    def __init__(self, store: str, error: QuorateError) -> None:
        super().__init__(str(error))
        self.store = store
        self.error = error


_MISSING = {
    v1.LOOKUP_ABSENT: Kind.HOLE,
    v1.LOOKUP_LOST: Kind.HOLE,
    v1.LOOKUP_UNKNOWN: Kind.UNREADABLE,
}


def _check_lineage(piece: Piece, segment: Segment, store: str) -> None:
    epoch, lineage = piece.header.epoch, segment.lineage
    if not lineage.epoch_at(piece.first) == epoch == lineage.epoch_at(piece.last):
        detail = f"it is of epoch {epoch}, which is not in force there"
        raise CorruptBatch(f"from {store}", detail)


# Comparing digests.


def _compare_digests(stores: Reader) -> Iterator[Finding]:
    for chunk in stores.chunks(DIGESTS_AT_ONCE):
        for block in _differing(stores, chunk, BLOCK):
            if isinstance(block, Finding):
                yield block
                continue
            for close in _differing(stores, block, CLOSE_BLOCK):
                yield from [close] if isinstance(close, Finding) else _compare_all(stores, close)


def _differing(stores: Reader, wanted: Range, block: int) -> Iterator[Range | Finding]:
    """Yield the blocks that need a closer comparison, and findings about stores."""
    blocks: dict[str, list[Block]] = {}
    while stores.stores:
        try:
            blocks = stores.digests(wanted, block)
        except Silent as silent:
            yield stores.gone(silent, wanted.first)
            continue
        break
    if block == CLOSE_BLOCK:
        yield from surplus(blocks)
    # If a store cannot compute digests, its messages are read.
    yield from suspicious(blocks) if len(blocks) == len(stores.stores) else [wanted]


def _compare_all(stores: Reader, wanted: Range) -> Iterator[Finding]:
    """Compare the contents of messages one by one."""
    first = wanted.first
    while first <= wanted.last:
        last = min(first + CLOSE_BLOCK - 1, wanted.last)
        yield from _compare_contents(stores, Range(first, last))
        first = last + 1


def _compare_contents(stores: Reader, wanted: Range) -> Iterator[Finding]:
    contents: dict[str, dict[int, bytes]] = {}
    for store in stores.stores:
        found: dict[int, bytes] = {}
        twice: list[Finding] = []
        take = partial(take_contents, found=found, twice=twice, store=store)
        yield from stores.served(store, wanted, take)
        yield from twice
        contents[store] = found
    yield from divergent(contents)


def take_contents(
    frame: bytes,
    header: BatchHeader,
    part: Range,
    *,
    found: dict[int, bytes],
    twice: list[Finding],
    store: str,
) -> None:
    contents = read_contents(frame, header, part.first, part.last)
    for number, content in enumerate(contents, part.first):
        hashed = content_hash(*content)
        if number in found:
            how = "the same" if found[number] == hashed else "other"
            detail = f"it serves the number twice, with {how} content"
            twice.append(Finding(Kind.DUPLICATE, (store,), number, number, detail))
        found[number] = hashed


# Reading everything.


def _read_all(stores: Reader) -> Iterator[Finding]:
    for chunk in stores.chunks(_READ_AT_ONCE):
        # An index may name a number twice that the store serves only once.
        for block in _differing(stores, chunk, CLOSE_BLOCK):
            if isinstance(block, Finding):
                yield block
        batches: dict[str, list[Batch]] = {}
        for store in stores.stores:
            found: list[Batch] = []
            yield from stores.served(store, chunk, partial(_take_batch, found=found))
            batches[store] = found
        for other in other_batches(batches, chunk):
            for finding in _compare_all(stores, other):
                if finding.kind not in (Kind.HOLE, Kind.UNREADABLE):  # served() has reported these
                    yield finding


def _take_batch(frame: bytes, header: BatchHeader, part: Range, *, found: list[Batch]) -> None:
    del frame
    found.append(Batch(part.first, part.last, header.epoch, header.checksum))
