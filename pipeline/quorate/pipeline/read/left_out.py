"""The messages that a read without failOnDataLoss leaves out, as far as the driver finds them.

The driver asks before it plans. So one warning and one count are where a user looks, instead of in
the logs of workers. Messages that go later, while tasks read, are only in those logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import SourceRange
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import QuorateError, joined
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet

_log = logging.getLogger("quorate.pipeline")

_NAMED = 5
"""Number of ranges that a warning names."""


class LeftOut:
    """The messages of a table, or of a run of a stream, that no store has."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._gone: dict[SourceName, RangeSet] = {}

    @property
    def messages(self) -> int:
        """Number of messages that were left out."""
        return sum(gone.count() for gone in self._gone.values())

    def rest(self, planned: Iterable[tuple[KnownSource, SourceRange]]) -> list[SourceRange]:
        """Return the ranges without the messages that no store has, and warn of those once.

        planned: ranges, each with its source as the answering stores know it.
        """
        left: list[SourceRange] = []
        news: list[MessagesGone] = []
        asking = True
        for known, wanted in planned:
            if wanted.archived:
                left.append(wanted)
                continue
            gone = self._gone.setdefault(wanted.source, RangeSet())
            numbers = RangeSet([Range(wanted.first, wanted.until - 1)])
            # The answering stores hold all the others.
            for doubtful in numbers.minus(known.held).minus(gone) if asking else ():
                found, asking = self._asked(wanted, doubtful)
                news += found
                for each in found:
                    gone.add(each.first, each.last)
                if not asking:
                    break
            for part in numbers.minus(gone):
                left.append(replace(wanted, first=part.first, until=part.last + 1))
        warn_of(news)
        return left

    def _asked(self, wanted: SourceRange, doubtful: Range) -> tuple[list[MessagesGone], bool]:
        """Return what of these numbers is gone, and whether stores could say so at once.

        The first number that a store has ends the search: a task finds what is behind it.
        """
        found: list[MessagesGone] = []
        first = doubtful.first
        while first <= doubtful.last:
            try:
                with closing(
                    self._stores.fetch(wanted.source, wanted.lineage, first, doubtful.last)
                ) as pieces:
                    next(pieces)
                return found, True
            except MessagesGone as gone:
                found.append(gone)
                first = gone.last + 1
            except QuorateError:
                # A task that needs them says why. Nobody waits for the next such range, too.
                return found, False
        return found, True


def warn_of(gone: Iterable[MessagesGone]) -> None:
    """Log the messages that are left out, if any, and what each store said of them."""
    gone = list(gone)
    if not gone:
        return
    count = sum(each.last - each.first + 1 for each in gone)
    more = len(gone) - _NAMED
    _log.warning(
        "failOnDataLoss is false, so %s left out that no store has: %s%s",
        "1 message is" if count == 1 else f"{count:,} messages are",
        joined(
            f"[{each.first}, {each.last}] of {each.source} ({each.evidence})"
            for each in gone[:_NAMED]
        ),
        f"; and {more:,} more ranges" if more > 0 else "",
    )
