"""The parts of the model: the names of the rules, the worlds, and the knowledge of each party.

No rule is carried out here: `decisions.py` and `rules.py` do that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

RULES = {
    "promise": "A store that promised a ballot refuses every lower one.",
    "instance": "A ballot is (epoch, instance): two instances never share one.",
    "durable promise": "A promise is on the disk before the store answers.",
    "durable instance": "The instance is on the disk beside the epoch.",
    "durable begin": "A begin is on the disk before the store answers.",
    "blocking set": "A decision needs the answers of a blocking set.",
    "newest begin": "The newest begin among the answers names the stream.",
    "lineage": "A message counts only if the lineage names its ballot for its number.",
    "floor": "Nothing that may have been stable is given away.",
    "begun counts": "Only a store that began the ballot counts as a holder.",
    "generation": "An end begins an empty stream: what is older is void.",
    "settled end": "The data go only once the end is on a stable set.",
    "limbo": "A store that lost its disk does not say that it lacks something.",
    "readmit: peers": "A store leaves limbo after a stable and blocking set of peers answered.",
    "readmit: promise": "It takes the highest promise of its peers.",
    "readmit: begin": "It takes the newest begin of its peers.",
    "readmit: fetch": "It fetches all that may be stable, known to be so or not.",
    "readmit: incarnation": "Peers name its new incarnation. Answers of the former one are void.",
    "pre-vote": "An expiry begins after a blocking set has not heard of the owner.",
    "pre-vote: in time": "A pre-vote is over sooner than a lifetime.",
    "pre-vote again": "A store that has heard of the owner since refuses the promise.",
    "start is life": "The start of a store counts as a sign of life of every owner.",
    "forget: all": "A row of an end stays until every store has adopted it.",
    "forget: generation": "Adopted means: its generation begun, not just a higher ballot.",
    "forget: fence": "A store that forgets a row keeps its ballot as a fence.",
    "position: end": "A position of an ended generation of the receiver is void.",
    "position: parent": "A position of an ended generation of the source is void.",
    "position: newest": "The newest begin names the position, not the highest answer.",
}
"""Each rule by its name. A model leaves some of them out."""

Ballot = tuple[int, int]
"""Epoch and instance."""
NEVER: Ballot = (0, -1)
SOURCE, RECEIVER = 0, 1
ROW_OF = {
    "owner": SOURCE,
    "end": SOURCE,
    "expiry": SOURCE,
    "receiver": RECEIVER,
    "receiver end": RECEIVER,
}
"""Which row of a store an attempt of each kind registers in."""
ENDS = frozenset({"end", "expiry", "receiver end"})
IDLE, PRE_VOTE, PROMISE, BEGIN = range(4)


class World(NamedTuple):
    """How many stores there are, who registers, and how many faults there may be."""

    attempts: tuple[str, ...]
    messages: int = 1
    wipes: int = 0
    crashes: int = 0
    stores: int = 3
    founded: bool = False
    """Whether every store has begun the source already, so that receivers need no owner."""
    forgets: bool = False
    """Whether stores forget the rows of ends. It makes very many states."""

    @property
    def quorum(self) -> int:
        return self.stores // 2 + 1

    @property
    def blocking(self) -> int:
        return self.stores - self.quorum + 1


class Begun(NamedTuple):
    """A begin record. The lineage of a receiver is its ballot and the position where it started."""

    ballot: Ballot
    generation: Ballot
    parent: Ballot
    lineage: tuple[tuple[Ballot, int], ...]
    ended: bool


FOUNDED = Begun((1, -1), (1, -1), NEVER, (((1, -1), 0),), False)


class Row(NamedTuple):
    """The state of one identity on the disk of a store. Of a receiver it holds the position."""

    promised: Ballot = NEVER
    begun: Begun | None = None
    held: frozenset[tuple[int, Ballot]] = frozenset()
    adopted_by: frozenset[int] = frozenset()


class Store(NamedTuple):
    """One store.

    `known` has the incarnation of each store that it knows, its own among them. `asked` are the
    peers that answered a store in limbo. `heard` is the owner that it heard of last, as 1 + its
    index. It is negative for a store that forgot this at its start.
    """

    rows: tuple[Row, Row]
    known: tuple[int, ...]
    limbo: bool = False
    asked: frozenset[int] = frozenset()
    heard: int = 0


class Attempt(NamedTuple):
    """One registration by one instance. `told` has what each store answered in this phase."""

    told: tuple[tuple[int, Any] | None, ...]
    seen: tuple[int, ...]
    phase: int = IDLE
    ballot: Ballot = NEVER
    begun: Begun | None = None
    confirmed: int = 0
    acknowledged: int = 0
    complete: bool = False
    unheard: bool = False
    after: Ballot = NEVER


class State(NamedTuple):
    """A whole world at one moment."""

    stores: tuple[Store, ...]
    attempts: tuple[Attempt, ...]
    wipes: int
    crashes: int


Move = tuple[Any, ...]
"""The name of a method of `Model`, and its arguments."""


class Broken(Exception):
    """A check of the model failed in a state."""


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    """Return the tuple with one value replaced."""
    return (*values[:index], value, *values[index + 1 :])


def ballot_at(lineage: tuple[tuple[Ballot, int], ...], number: int) -> Ballot:
    """Return the ballot that the lineage names for a number."""
    return next((ballot for ballot, first in reversed(lineage) if first <= number), NEVER)
