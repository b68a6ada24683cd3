"""The facts of an audit: what each store reports, and the findings of comparing the stores.

A store is identified by its own name, or by its address if it does not answer. Here are only types.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store that was asked."""

    name: str
    address: str
    silence: str = ""
    """Why the store did not answer; empty: it answered."""
    limbo: str = ""
    """Why the store is in limbo; empty: it is not."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The copy that one store has of a source."""

    store: str
    lineage: Lineage = field(default_factory=Lineage)
    held: RangeSet = field(default_factory=RangeSet)
    """The messages of the stream that the store can read."""
    tail: RangeSet = field(default_factory=RangeSet)
    """The messages that the store holds above the last stable number."""
    unreadable: RangeSet = field(default_factory=RangeSet)
    losses: RangeSet = field(default_factory=RangeSet)
    """The messages that an operator accepted as lost, and that this store does not have."""
    stable_upto: int = -1
    """The highest `stable_upto` that this store was told; -1: nothing is stable."""
    limbo: str = ""
    """Why the store is in limbo for this source; empty: it is not."""
    live: bool = False
    """The source streams to this store."""
    positions: Mapping[int, int] = field(default_factory=dict)
    """By session ID of a receiver, the number up to which it has acknowledged."""
    takes_data: bool = True
    """False: the store keeps only registrations and positions, and needs no messages."""

    def without(self, lacking: RangeSet, unreadable: RangeSet) -> Copy:
        """Return the copy without messages that a comparison found lacking or unreadable."""
        return replace(
            self,
            held=self.held.minus(lacking).minus(unreadable),
            unreadable=self.unreadable.union(unreadable),
        )


ARCHIVE = "the archive"
"""The name of the archive among the stores of a finding."""


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """The copy that an archive has of a source. The default: it has nothing."""

    lineage: Lineage = field(default_factory=Lineage)
    first: int = 0
    last: int = -1
    """The last number of the archive, after the stores were asked."""
    told_upto: int = -1
    """The last number of the archive, before the stores were asked what is stable."""
    has: RangeSet = field(default_factory=RangeSet)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts of a source."""

    name: SourceName
    lineage: Lineage
    """The lineage in force for all stable messages."""
    stable_upto: int
    """The highest `stable_upto` of any store, asked before what the stores hold."""
    copies: Mapping[str, Copy]
    """By store, the copies of all answering stores that know the source or are in a policy."""
    policies: tuple[Policy, ...] = ()
    """The policies. A message is stable if it is stable by each of them."""
    called: Mapping[str, str] = field(default_factory=dict)
    """By its name in a policy, the own name of a store."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """By store of a policy that could not be compared, the reason."""
    retained_from: int = 0
    """Everything below was stable, and retention released it, so no store needs to have it."""
    archived: ArchivedCopy | None = None
    """The copy of the archive; None: the audit is of the stores alone."""

    @property
    def begin(self) -> int:
        """The first number of the stream."""
        return self.lineage.terms[0].first if self.lineage.terms else 0

    @property
    def first(self) -> int:
        """The first number that stores need to have."""
        return max(self.begin, self.retained_from)

    @property
    def members(self) -> frozenset[str]:
        """The stores of the policies, which need to have every message."""
        return frozenset(
            self.called.get(store, store) for policy in self.policies for store in policy.stores
        )


class Weight(enum.IntEnum):
    """The weight of a finding in the verdict. The worst finding decides."""

    NOTE = 0
    UNKNOWN = 1
    DIFFERENCE = 2
    LOSS = 3


class Kind(enum.Enum):
    """The kinds of findings."""

    MISSING = "missing", Weight.LOSS
    """No store has the message. Every store was asked, and none is in limbo."""
    ACCEPTED = "accepted loss", Weight.LOSS
    NOT_ARCHIVED = "not archived", Weight.LOSS
    """Retention released the message, and the archive lacks it."""
    HOLE = "hole", Weight.DIFFERENCE
    """A store lacks a message that others have."""
    UNREADABLE = "unreadable", Weight.DIFFERENCE
    DIVERGENT = "divergent", Weight.DIFFERENCE
    """Stores have different contents under the same numbers."""
    DUPLICATE = "duplicate", Weight.DIFFERENCE
    """A store has the same number more than once."""
    FEW_COPIES = "too few copies", Weight.DIFFERENCE
    """The stores that have the message do not satisfy the policy."""
    LINEAGE = "lineage", Weight.DIFFERENCE
    """A store was told that messages of another history are stable."""
    ONLY_ARCHIVED = "only archived", Weight.DIFFERENCE
    """The archive has a message that a store should have, and none has."""
    BEYOND = "beyond stable", Weight.DIFFERENCE
    """The archive has a message of which no store was told that it is stable."""
    UNSEEN = "not seen", Weight.UNKNOWN
    FORGOTTEN = "forgotten", Weight.UNKNOWN
    """The archive has a source that no store knows: it ended, or the stores were wiped."""
    BEHIND = "behind", Weight.NOTE
    """A store lacks the newest messages, and the source is sending them."""
    OUTDATED = "outdated lineage", Weight.NOTE
    TAIL = "unstable tail", Weight.NOTE
    WAITING = "not archived yet", Weight.NOTE
    """Stores hold the message, and the next run of `quorate archive` takes it."""

    def __init__(self, text: str, weight: Weight) -> None:
        self.text = text
        self.weight = weight

    @staticmethod
    def of(text: str) -> Kind:
        """Return the kind with this text."""
        return next(kind for kind in Kind if kind.text == text)


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the messages [first, last]."""

    kind: Kind
    stores: tuple[str, ...]
    first: int
    last: int
    detail: str = ""

    def __len__(self) -> int:
        return self.last - self.first + 1
