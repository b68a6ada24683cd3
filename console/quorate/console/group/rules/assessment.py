"""The assessment of a group: the answers of its stores in, everything that is wrong out.

Pure. quorate.console.group.check asks the stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quorate.console.group.rules.agreement import (
    Clock,
    clocks_apart,
    same_store_twice,
    settings_differ,
    versions_differ,
)
from quorate.console.group.rules.findings import Bounds, Finding, worst_first
from quorate.console.group.rules.poison_marks import of_poison
from quorate.console.group.rules.queue_findings import of_queues
from quorate.console.group.rules.queue_reports import Answers as QueueAnswers
from quorate.console.group.rules.source_findings import Tails, of_source, of_subscription
from quorate.console.group.rules.source_status import Answers, SourceView, views_of
from quorate.console.group.rules.store_findings import signs, silent, troubles
from quorate.protocol.errors import QuorateError
from quorate.v1.store_pb2 import StatusResponse, SubscriptionStatus


@dataclass(frozen=True, slots=True)
class Look:
    """The answers of a group's stores at one time."""

    answers: Answers
    clocks: Mapping[str, Clock]
    """The clocks of the stores that answered, by their names."""
    subscriptions: Mapping[str, Sequence[SubscriptionStatus]]
    """The subscriptions at the stores that tell them, by the stores' names."""
    queues: QueueAnswers = field(default_factory=dict)
    """The queues that each store reports; empty: the stores were not asked."""

    @property
    def reached(self) -> list[StatusResponse]:
        """The answers of the stores that answered."""
        return [each for each in self.answers.values() if isinstance(each, StatusResponse)]

    def views(self, earlier: Tails | None = None) -> list[SourceView]:
        """Return each source, by name. earlier: their messages that were stable then are due."""
        return views_of(self.answers, earlier)


def assess(look: Look, bounds: Bounds, earlier: Tails) -> list[Finding]:
    """Return everything that is wrong, the worst first.

    earlier: the tails at an earlier look. A tail that has not moved since then is a finding. All
    stores should have the messages that were stable then.
    """
    reached = look.reached
    found = [
        *same_store_twice(reached),
        *clocks_apart(look.clocks, bounds),
        *versions_differ(reached),
        *settings_differ(reached),
    ]
    answers = look.answers.items()
    silent_at = {store.address for store, answer in answers if isinstance(answer, QuorateError)}
    for store, answer in answers:
        if isinstance(answer, QuorateError):
            found.append(silent(store, answer))
        else:
            found += troubles(answer)
            found += signs(answer, bounds, silent_at)
    for view in look.views(earlier):
        found += of_source(view, bounds, earlier)
    for name, subscriptions in look.subscriptions.items():
        for each in subscriptions:
            found += of_subscription(name, each, bounds)
    found += of_queues(look.queues, bounds)
    found += of_poison(look.answers)
    return worst_first(found)
