"""Marks of poison: messages that stores keep and no longer deliver.

Nothing here prints or asks people; quorate.console.commands.poison does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from quorate.console.group.repair import Row, have_recorded, source_in
from quorate.console.group.rules.poison_marks import decisions, marks
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.v1.store_pb2 import (
    AcceptLossRequest,
    Poison,
    SourceStatus,
    StatusResponse,
)

Answers = Mapping[StoreAddress, StatusResponse | QuorateError]


def check_known(answers: Answers, source: SourceName, part: Range) -> None:
    """Raise InvalidArgument unless some store has had every message of a range, or released it."""
    found = [each for answer in _statuses(answers) if (each := source_in(answer, source))]
    if not found:
        raise InvalidArgument("source", f"no store that answers knows {source}")
    upto = max(_known_upto(each) for each in found)
    if part.last > upto:
        raise InvalidArgument("range", f"{source} has no message above {upto}")


def marked(answers: Answers) -> list[Row]:
    """Return a row for each mark that counts, with the stores where it does."""
    return [
        {
            "source": str(each.source),
            "messages": str(each.part),
            "reason": each.reason,
            "time": each.moment,
            "stores": each.stores,
        }
        for each in marks(answers)
    ]


async def mark(
    answers: Answers,
    source: SourceName,
    part: Range,
    poison: Poison,
    reason: str,
    timeout: float,
) -> list[Row]:
    """Make the stores that answered record a mark or a removal. Return the answer of each."""
    known = [each.time_ns for answer in _statuses(answers) for each in decisions(answer, source)]
    request = AcceptLossRequest(
        source=source_to_wire(source),
        first=part.first,
        last=part.last,
        reason=reason,
        protocol_version=PROTOCOL_VERSION,
        poison=poison,
        # The newest record counts, also if this clock is behind that of an earlier operator.
        time_ns=max(time.time_ns(), *(each + 1 for each in known), 0),
    )
    return await have_recorded(reached(answers), request, timeout)


def reached(answers: Answers) -> Sequence[StoreAddress]:
    """Return the stores that answered."""
    return [store for store, each in answers.items() if not isinstance(each, QuorateError)]


def silent(answers: Answers) -> dict[StoreAddress, QuorateError]:
    """Return the stores that did not answer, and why."""
    return {store: each for store, each in answers.items() if isinstance(each, QuorateError)}


def _statuses(answers: Answers) -> list[StatusResponse]:
    return [each for each in answers.values() if not isinstance(each, QuorateError)]


def _known_upto(status: SourceStatus) -> int:
    return max(status.stable_upto, *(each.last for each in status.held), -1)
