"""How a source ends: promise, decide, begin, for all its stores together (protocol.md 14.2).

An end is a begin like any other. Its coordinator acts as a source that registers. The owner may be
that, an operator, or a store that finds the state lifetime over. Pure. `step` says what to ask of a
store; answers and failures go in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.errors import (
    FORMER_DIRECTORY,
    InLimbo,
    NotRegistered,
    QuorateError,
)
from quorate.protocol.incarnations import Word, replaced
from quorate.protocol.policy import Membership, Policy


@dataclass(frozen=True, slots=True)
class AskPromise:
    """Ask the store to promise the epoch of the end."""


@dataclass(frozen=True, slots=True)
class AskBegin:
    """Ask the store to begin the end."""

    membership: Membership
    incarnation: bytes
    """The incarnation of the data directory that promised."""
    durable: bool = False
    """Whether enough stores have begun the end: what was before it is void."""


Step = AskPromise | AskBegin


@dataclass(frozen=True, slots=True)
class EndGrant:
    """A store's answer to the request for a promise."""

    word: Word
    begun: BeginRecord = NOT_BEGUN
    """The newest begin that the store has, without policies if these no longer count."""
    limbo_reason: str = ""
    """Why the store cannot vouch, and promised nothing; empty: it promised."""


class StreamEnd:
    """The end of one source's stream, in one epoch."""

    def __init__(self, source: str, stores: Iterable[str], otherwise: Iterable[Policy]) -> None:
        """Begin without answers.

        - source: its name, for errors.
        - stores: those that may have the source, as far as is known before any answers.
        - otherwise: the policies under which the source ends if no store has begun it.
        """
        self._source = source
        self._stores = dict.fromkeys(stores)
        self._otherwise = tuple(otherwise)
        self._grants: dict[str, EndGrant] = {}
        self._words: dict[str, Word] = {}
        self._begun: set[str] = set()
        self._told: set[str] = set()
        """The stores that know that enough of them have begun."""
        self.failures: dict[str, QuorateError] = {}
        """The last failure of each store that has not begun the end."""
        self.membership: Membership | None = None
        """The policies that the end names; None: nothing is decided."""
        self.addresses: dict[str, str] = {}
        """The address of each store, as far as the answers name it."""

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores to ask."""
        return tuple(self._stores)

    def step(self, store: str) -> Step | None:
        """Return what to ask of a store now; None: nothing until another store has answered."""
        grant = self._grants.get(store)
        if grant is None or grant.limbo_reason:
            return AskPromise()
        is_due = self.done and store not in self._told
        if self.membership is None or (store in self._begun and not is_due):
            return None
        return AskBegin(self.membership, grant.word.incarnation, is_due)

    def promised(self, store: str, grant: EndGrant, addresses: Mapping[str, str]) -> None:
        """Note a store's answer. addresses: those of other stores, as far as it names them."""
        self._grants[store] = grant
        self._heard(store, grant.word)
        self.failures.pop(store, None)
        if grant.limbo_reason:
            self.failures[store] = InLimbo(self._source, store, grant.limbo_reason)
        membership = grant.begun.membership
        if membership is not None:
            self.addresses |= {name: address for name, address in membership.addresses if address}
            self._stores |= dict.fromkeys(sorted(membership.stores))
        self.addresses |= addresses
        if self.membership is None:
            self._decide()

    def begun(self, store: str, word: Word, *, durable: bool = False) -> None:
        """Note that a store has begun the end. durable: as it was asked."""
        self._begun.add(store)
        if durable:
            self._told.add(store)
        self.failures.pop(store, None)
        self._heard(store, word)

    def failed(self, store: str, error: QuorateError) -> None:
        """Note that a store did not do what it was asked."""
        self.failures[store] = error
        if isinstance(error, NotRegistered | InLimbo):
            self._grants.pop(store, None)

    def _heard(self, store: str, word: Word) -> None:
        """Take the incarnations that an answer names. Answers of a former directory are void."""
        self._words[store] = word
        for former in replaced(self._words):
            self._grants.pop(former, None)
            self._begun.discard(former)
            self._told.discard(former)
            self._words.pop(former)
            self.failures[former] = InLimbo(self._source, former, FORMER_DIRECTORY)

    def _decide(self) -> None:
        """Decide once the stores that promised are a blocking set of each policy in force."""
        granted = {store: grant for store, grant in self._grants.items() if not grant.limbo_reason}
        begun = [grant.begun for grant in granted.values()]
        named = max(begun, key=lambda each: each.newness, default=NOT_BEGUN).membership
        if named is None or not named.policies:
            named = Membership(self._otherwise, self._otherwise, tuple(self.addresses.items()))
        in_force = named.policies
        if in_force and all(each.blocks(each.stores & granted.keys()) for each in in_force):
            self.membership = named
            self._stores |= dict.fromkeys(sorted(named.stores))

    @property
    def missing(self) -> tuple[str, ...]:
        """The stores that have not begun the end."""
        return tuple(store for store in self._stores if store not in self._begun)

    @property
    def done(self) -> bool:
        """Whether the end is on a stable set of each policy that it names: it stands for ever."""
        return self.membership is not None and all(
            policy.stable(policy.stores & self._begun) for policy in self.membership.policies
        )

    @property
    def everywhere(self) -> bool:
        """Whether every store has begun the end, and knows that it stands."""
        return self.done and self._told >= self._stores.keys()

    @property
    def refused(self) -> bool:
        """Whether stores without which it cannot be done have refused for good."""
        refusing = {store for store, error in self.failures.items() if not error.retryable}
        in_force = self._otherwise if self.membership is None else self.membership.policies
        return bool(refusing) and any(
            not policy.stable(policy.stores - refusing) for policy in in_force
        )
