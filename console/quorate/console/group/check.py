"""The look at a group that its assessment is made of: the stores are asked, twice if need be.

Only reads. The rules are in quorate.console.group.rules.assessment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from quorate.console.group import journal, queues
from quorate.console.group.row_digests import digests_of
from quorate.console.group.rules.agreement import Clock
from quorate.console.group.rules.assessment import Look, assess
from quorate.console.group.rules.findings import Bounds, Finding, worst_first
from quorate.console.group.rules.row_findings import rows_differ, topics_with_rows
from quorate.console.group.rules.source_findings import tails
from quorate.console.group.status import ask, too_few
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.v1.store_pb2 import StatusResponse

SUBSCRIPTIONS_MAX = 100
"""The subscriptions that each store names, unless a caller asks for another number."""


async def check(
    stores: Sequence[StoreAddress],
    timeout: float,
    topic_pattern: str,
    bounds: Bounds,
    tail_seconds: float,
    *,
    rows: bool = False,
) -> list[Finding]:
    """Return everything that is wrong, the worst first.

    - topic_pattern: of the sources; empty: all.
    - tail_seconds: if a source streams and has a tail, the stores are asked again after this time.
    - rows: whether to compare the rows of topics with keys, too. Each store reads all of them.

    Raises the error of `too_few` if no store answers.
    """
    seen = await look(stores, timeout, topic_pattern)
    if not seen.reached:
        raise too_few("The check", seen.answers)
    earlier = tails(seen.views())
    if earlier:
        await asyncio.sleep(tail_seconds)
        seen = await look(stores, timeout, topic_pattern)
    found = assess(seen, bounds, earlier)
    if not rows:
        return found
    for topic in topics_with_rows(seen.reached):
        found += rows_differ(topic, await digests_of(stores, topic, timeout))
    return worst_first(found)


async def look(
    stores: Sequence[StoreAddress],
    timeout: float,
    topic_pattern: str,
    subscriptions_max: int = SUBSCRIPTIONS_MAX,
) -> Look:
    """Return the answers of all stores. Of queues they are asked only without a pattern.

    subscriptions_max: those that each store names, the furthest behind; 0: all.
    """
    told, journals, of_queues = await asyncio.gather(
        asyncio.gather(*(_timed(store, timeout, topic_pattern) for store in stores)),
        journal.ask_all(stores, timeout, topic_pattern, subscriptions_max),
        queues.ask_unless(topic_pattern, stores, timeout),
    )
    answers = dict(zip(stores, (answer for answer, _ in told), strict=True))
    return Look(
        answers,
        {
            answer.store_name: clock
            for answer, clock in told
            if isinstance(answer, StatusResponse) and clock is not None
        },
        {
            answer.store_name: answer.subscriptions
            for answer in journals.values()
            if not isinstance(answer, QuorateError)
        },
        of_queues,
    )


async def _timed(
    store: StoreAddress, timeout: float, topic_pattern: str
) -> tuple[StatusResponse | QuorateError, Clock | None]:
    """Return a store's status with its clock, or the error in its place."""
    asked = time.time_ns()
    try:
        answer = await ask(store.address, timeout, topic_pattern)
    except QuorateError as error:
        return error, None
    if not answer.clock_ns:
        return answer, None  # a store of an earlier version shows none
    return answer, Clock.read(answer.clock_ns, asked, time.time_ns())
