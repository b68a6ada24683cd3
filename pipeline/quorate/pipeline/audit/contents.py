"""The comparison of what stores have under the same sequence numbers.

Stores may cut the same messages into other batches. Only other content counts as a difference.
Nothing here asks a store, and nothing judges a finding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quorate.pipeline.audit.facts import Finding, Kind
from quorate.protocol.attributes import Attributes, encode_attributes
from quorate.protocol.digests import Block
from quorate.protocol.ranges import Range, RangeSet


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at a store, or the part [first, last] of one."""

    first: int
    last: int
    epoch: int
    checksum: int
    """The checksum of the whole batch. Batches with one checksum have the same messages."""


def content_hash(payload: bytes, attributes: Attributes) -> bytes:
    """Return the hash by which contents of messages are compared."""
    hasher = hashlib.blake2b(len(payload).to_bytes(8, "little"), digest_size=16)
    hasher.update(payload)
    hasher.update(encode_attributes(attributes))
    return hasher.digest()


def suspicious(blocks: Mapping[str, Sequence[Block]]) -> list[Range]:
    """Return the blocks whose digests differ between stores, or that do not have all numbers."""
    found: list[Range] = []
    for of_each in zip(*blocks.values(), strict=True):
        one = of_each[0]
        if any(each != one for each in of_each) or one.held != one.last - one.first + 1:
            found.append(Range(one.first, one.last))
    return found


def surplus(blocks: Mapping[str, Sequence[Block]]) -> Iterator[Finding]:
    """Yield the stores that count more numbers in a block than it has."""
    for store, of_store in blocks.items():
        for block in of_store:
            more = block.held - (block.last - block.first + 1)
            if more > 0:
                detail = f"its index names {more:,} of these numbers more than once"
                yield Finding(Kind.DUPLICATE, (store,), block.first, block.last, detail)


def other_batches(batches: Mapping[str, Sequence[Batch]], wanted: Range) -> RangeSet:
    """Return the numbers of a range for which the stores do not all have the same batch."""
    if len(batches) < 2:
        return RangeSet()
    same = RangeSet([wanted])
    one, *others = batches.values()
    for other in others:
        same = same.both(RangeSet(_common(one, other)))
    return RangeSet([wanted]).minus(same)


def _common(one: Sequence[Batch], other: Sequence[Batch]) -> Iterator[Range]:
    """Yield, in ascending order, the ranges for which both stores have the same batch."""
    mine, theirs = iter(one), iter(other)
    here, there = next(mine, None), next(theirs, None)
    while here is not None and there is not None:
        first, last = max(here.first, there.first), min(here.last, there.last)
        if first <= last and (here.checksum, here.epoch) == (there.checksum, there.epoch):
            yield Range(first, last)
        if here.last <= there.last:
            here = next(mine, None)
        else:
            there = next(theirs, None)


def divergent(contents: Mapping[str, Mapping[int, bytes]]) -> list[Finding]:
    """Return the numbers under which stores have different contents.

    contents: by store and number, the hash of the content.
    The detail of each finding groups the stores that agree.
    """
    numbers = sorted({number for of_store in contents.values() for number in of_store})
    found: list[Finding] = []
    for number in numbers:
        sides: dict[bytes, list[str]] = {}
        for store, of_store in contents.items():
            if number in of_store:
                sides.setdefault(of_store[number], []).append(store)
        if len(sides) > 1:
            stores = tuple(sorted(store for side in sides.values() for store in side))
            detail = " against ".join(sorted(", ".join(sorted(side)) for side in sides.values()))
            found.append(Finding(Kind.DIVERGENT, stores, number, number, detail))
    return merged(found)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings ordered by kind, stores and number, with adjacent ones joined."""
    found: list[Finding] = []
    ordered = sorted(
        findings, key=lambda each: (each.kind.text, each.stores, each.detail, each.first)
    )
    for each in ordered:
        if found:
            last = found[-1]
            same = (last.kind, last.stores, last.detail) == (each.kind, each.stores, each.detail)
            if same and each.first <= last.last + 1:
                upto = max(last.last, each.last)
                found[-1] = Finding(last.kind, last.stores, last.first, upto, last.detail)
                continue
        found.append(each)
    return found
