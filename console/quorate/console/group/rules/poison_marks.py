"""Marks of poison that count, as rows over all stores and as findings.

Pure. quorate.console.group.poison has stores record a mark or its removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from quorate.console.group.rules.findings import Finding, Kind, Severity
from quorate.console.group.rules.source_status import name_of
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.v1.store_pb2 import POISON_MARKED, LossRecord, StatusResponse


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of poison, or the part of it that was not removed."""

    source: SourceName
    part: Range
    reason: str
    time_ns: int
    stores: list[str] = field(default_factory=list)
    """The stores where the mark counts."""

    @property
    def moment(self) -> str:
        """The time at which an operator made the mark."""
        return datetime.fromtimestamp(self.time_ns / 1e9, UTC).isoformat(timespec="seconds")


def marks(answers: Mapping[StoreAddress, StatusResponse | QuorateError]) -> list[Mark]:
    """Return the marks that count, by source and number."""
    found: dict[tuple[str, int, int, int], Mark] = {}
    for answer in answers.values():
        if isinstance(answer, QuorateError):
            continue
        for status in answer.sources:
            name = name_of(status)
            poisoned = RangeSet(Range(each.first, each.last) for each in status.poisoned)
            for record in decisions(answer, name):
                if record.poison != POISON_MARKED:
                    continue
                for part in poisoned.both(RangeSet([Range(record.first, record.last)])):
                    key = (str(name), part.first, part.last, record.time_ns)
                    mark = found.setdefault(key, Mark(name, part, record.reason, record.time_ns))
                    mark.stores.append(answer.store_name)
    return [found[key] for key in sorted(found)]


def decisions(answer: StatusResponse, source: SourceName) -> list[LossRecord]:
    """Return the records of marks of a source, and of their removals, at one store."""
    wire = source_to_wire(source)
    return [each for each in answer.accepted_losses if each.poison and each.source == wire]


def of_poison(
    answers: Mapping[StoreAddress, StatusResponse | QuorateError],
) -> Iterator[Finding]:
    """Yield a note for each mark that counts."""
    for mark in marks(answers):
        numbers = f"{mark.part.first}-{mark.part.last}"
        yield Finding(
            Severity.NOTE, Kind.POISON, str(mark.source),
            f"{mark.part} of {mark.source} is poison at {', '.join(mark.stores)} ({mark.moment}; "
            f"{mark.reason}).",
            "These stores keep the messages and do not deliver them. Receivers that read from "
            "them are told of a Gap.",
            "Nothing. To have the messages delivered again: `quorate poison remove "
            f"{mark.source} {numbers} --reason WHY`.",
        )  # fmt: skip
