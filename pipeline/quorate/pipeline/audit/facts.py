"""What the stores say, each for itself, and what is found by comparing them. Pure types.

A store is known by what it calls itself, or by its address as long as it says nothing.
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
    """One of the stores that were asked."""

    name: str
    address: str
    silence: str = ""
    """Why nothing was heard of it; empty: it answered."""
    limbo: str = ""
    """Why it can not vouch for what it lacks; empty: it can."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What one store has of a source."""

    store: str
    lineage: Lineage = field(default_factory=Lineage)
    held: RangeSet = field(default_factory=RangeSet)
    """What it can read of the stream."""
    tail: RangeSet = field(default_factory=RangeSet)
    """What it holds above what is stable."""
    unreadable: RangeSet = field(default_factory=RangeSet)
    losses: RangeSet = field(default_factory=RangeSet)
    """What an operator accepted as lost, and this store does not have."""
    stable_upto: int = -1
    """As this store was told."""
    limbo: str = ""
    """As in StoreFacts, for this source."""
    live: bool = False
    """The source streams to it."""
    positions: Mapping[int, int] = field(default_factory=dict)
    """By session ID of a receiver, up to where it has acknowledged."""
    takes_data: bool = True
    """False: it keeps registrations and positions only, and need not have anything."""

    def without(self, lacking: RangeSet, unreadable: RangeSet) -> Copy:
        """The same after a closer look."""
        return replace(
            self,
            held=self.held.minus(lacking).minus(unreadable),
            unreadable=self.unreadable.union(unreadable),
        )


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What is known of a source."""

    name: SourceName
    lineage: Lineage
    """In force for all that is stable."""
    stable_upto: int
    """The highest that any store was told before the others were asked what they hold."""
    copies: Mapping[str, Copy]
    """By store: of those that answered and know it, or are to have it."""
    policies: tuple[Policy, ...] = ()
    """By which messages are stable: by all of them."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What a store that a policy names calls itself."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Stores that are to have it and could not be looked at, and why."""
    retained_from: int = 0
    """Everything below was stable and was let go on purpose: nobody has to have it."""

    @property
    def first(self) -> int:
        """The first that is to be had."""
        begins = self.lineage.terms[0].first if self.lineage.terms else 0
        return max(begins, self.retained_from)

    @property
    def members(self) -> frozenset[str]:
        """The stores that are to have all of it."""
        return frozenset(
            self.called.get(store, store) for policy in self.policies for store in policy.stores
        )


class Weight(enum.IntEnum):
    """What a finding means for the verdict; the worst counts."""

    NOTE = 0
    UNKNOWN = 1
    DIFFERENCE = 2
    LOSS = 3


class Kind(enum.Enum):
    """What can be found."""

    MISSING = "missing", Weight.LOSS
    """No store has it, and every store was seen and vouches for what it lacks."""
    ACCEPTED = "accepted loss", Weight.LOSS
    HOLE = "hole", Weight.DIFFERENCE
    """A store lacks what others have."""
    UNREADABLE = "unreadable", Weight.DIFFERENCE
    DIVERGENT = "divergent", Weight.DIFFERENCE
    """Stores have other content under the same numbers."""
    DUPLICATE = "duplicate", Weight.DIFFERENCE
    """A store has the same number more than once."""
    FEW_COPIES = "too few copies", Weight.DIFFERENCE
    """The stores that have it do not make it stable."""
    LINEAGE = "lineage", Weight.DIFFERENCE
    """A store was told that messages of another history are stable."""
    UNSEEN = "not seen", Weight.UNKNOWN
    BEHIND = "behind", Weight.NOTE
    """A store lacks the newest, and the source is about to send it."""
    OUTDATED = "outdated lineage", Weight.NOTE
    TAIL = "unstable tail", Weight.NOTE

    def __init__(self, text: str, weight: Weight) -> None:
        self.text = text
        self.weight = weight

    @staticmethod
    def of(text: str) -> Kind:
        """The kind that is called so."""
        return next(kind for kind in Kind if kind.text == text)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is to be said of the messages [first, last]."""

    kind: Kind
    stores: tuple[str, ...]
    first: int
    last: int
    detail: str = ""

    def __len__(self) -> int:
        return self.last - self.first + 1
