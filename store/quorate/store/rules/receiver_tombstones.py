"""The end of a receiver: what is over with it, who has to hear of it, and when it is forgotten.

A deregistration ends a receiver up to an epoch of its registrations. That is remembered, for a
store that was away still has its row, and what that says counts no more. An end travels in
inventories, and with the next registration of that session ID, which is above it: a new receiver.
It is evidence, the owner's word or an operator's; a row that merely lacks somewhere says nothing.

Ends go in two steps, so that a session ID for each run leaves no rows for ever. First an end is
settled, once every store that may have a part of the receiver remembers it and has no row of it. No
store needs to hear of a settled end. An end is forgotten when it is settled, or forgotten,
everywhere. So no store hears of it late, after the receiver may have begun anew there.

What stays, also when the source begins anew, is one fence for all its receivers: the highest epoch
in which any of them was over. A receiver that has no row begins above it. So the ballot of an
instance that wakes up after its end was forgotten is below that of a newer one. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from quorate.protocol.identity import SourceName
from quorate.store.rules.identity_records import End
from quorate.store.rules.peer_knowledge import (
    UNKNOWN,
    Heard,
    SourceKnowledge,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Write

REMEMBERED_SECONDS = 60.0
"""The seconds after which every message that was on its way at an end has come, and was fenced."""


def note(state: SourceState, session_id: int, epoch: int) -> list[Write]:
    """Remember an end; nothing is written if it is known."""
    if epoch <= state.ended_upto(session_id):
        return []
    state.ended[session_id] = End(epoch)
    return [state.ended_row(session_id), *spend(state, epoch)]


def spend(state: SourceState, epoch: int) -> list[Write]:
    """Note that a receiver ended in this epoch. Nothing is written if a higher one is known."""
    if epoch <= state.registration.spent_receiver_epoch:
        return []
    state.registration = replace(state.registration, spent_receiver_epoch=epoch)
    return [state.registration_row()]


def fence(state: SourceState, session_id: int) -> int:
    """Return the epoch above which a receiver begins that has no row here."""
    return max(state.ended_upto(session_id), state.registration.spent_receiver_epoch)


def spent_by_all(state: SourceState) -> int:
    """The highest epoch in which any receiver was over, now that all are: their source is.

    One that was frozen may follow the stream that begins anew, and must not be taken for another.
    """
    epochs = (receiver.epoch for receiver in state.receivers.values())
    return max((state.registration.spent_receiver_epoch, *epochs))


def forget_all(state: SourceState) -> list[Write]:
    """Forget the ends of all receivers of a stream that is over itself."""
    gone = list(state.ended)
    state.ended.clear()
    return [state.ended_row(session_id) for session_id in gone]


# The answers of peers.


def merged(known: Iterable[SourceKnowledge]) -> dict[int, End]:
    """The highest end of each receiver that anyone tells, by session ID.

    It is settled if all say so that know it. Those of a stream that is over say nothing.
    """
    told = list(known)
    over = max(told, key=lambda each: each.begun.epoch, default=UNKNOWN).begun.generation
    ended: dict[int, End] = {}
    for each in told:
        if each.begun.is_older_than(over):
            continue
        for one in each.ended_receivers:
            so_far = ended.get(one.session_id)
            if so_far is None or one.epoch > so_far.epoch:
                ended[one.session_id] = End(one.epoch, one.settled)
            elif one.epoch == so_far.epoch and not one.settled:
                ended[one.session_id] = End(one.epoch)
    return ended


def news(state: SourceState, told: Iterable[SourceKnowledge]) -> Iterator[tuple[int, int]]:
    """Ends that peers know and this store does not: session ID and epoch.

    A peer that is in limbo may remember what was settled long ago.
    """
    over = state.registration.begun.generation
    sure = [each for each in told if not (each.limbo or each.begun.is_older_than(over))]
    for session_id, end in merged(sure).items():
        if not end.settled and end.epoch > state.ended_upto(session_id):
            yield session_id, end.epoch


def spent_epoch(told: Iterable[SourceKnowledge]) -> int:
    """The highest epoch in which a receiver was over, as far as any of these knows. It only moves
    new receivers up: what a peer in limbo says, or of a stream that is over, does no harm."""
    return max((each.spent_receiver_epoch for each in told), default=0)


# When they go.


class Step(enum.Enum):
    """The next step for an end."""

    WAIT = enum.auto()
    SETTLE = enum.auto()
    FORGET = enum.auto()


@dataclass(frozen=True, slots=True)
class Said:
    """A peer's last answer about a source's receivers."""

    asked: float
    vouches: bool
    has_source: bool
    confirmed: Mapping[int, int]
    """The confirmed epoch of each receiver that it has."""
    ended: Mapping[int, End]

    @staticmethod
    def of(source: SourceName, heard: Heard) -> Said:
        """The part of an answer."""
        known = heard.answer.sources.get(source)
        has_source = known is not None and not known.begun.ended
        return Said(
            heard.asked,
            heard.answer.vouches(source),
            has_source,
            {each.session_id: each.confirmed_epoch for each in known.receivers} if known else {},
            {each.session_id: End(each.epoch, each.settled) for each in known.ended_receivers}
            if known
            else {},
        )


def next_step(
    session_id: int, end: End, named: Collection[str], said: Mapping[str, Said], since: float
) -> Step:
    """Return the step that the peers' answers allow.

    named: the stores that may have a part of the source.

    said: the answers of the peers that can be heard, by the names that policies use.

    since: answers to questions from before this time do not count, on the clock of `asked`.
    """
    for name in {*named, *said}:
        one = said.get(name)
        if one is None or one.asked <= since or not one.vouches:
            return Step.WAIT
        if one.has_source and not _is_done(one, session_id, end):
            return Step.WAIT
    return Step.FORGET if end.settled else Step.SETTLE


def _is_done(said: Said, session_id: int, end: End) -> bool:
    """Whether a peer has done what comes before this store may take the next step."""
    if said.confirmed.get(session_id, end.epoch + 1) <= end.epoch:
        return False
    theirs = said.ended.get(session_id)
    if end.settled:
        return theirs is None or theirs.settled or theirs.epoch > end.epoch
    return theirs is not None and theirs.epoch >= end.epoch


@dataclass(frozen=True, slots=True)
class _Sight:
    """When an end was first seen in this run."""

    epoch: int
    steady: float
    observed: float


class Forgetting:
    """When the ends that one store remembers are settled, and when they go."""

    def __init__(self) -> None:
        self._seen: dict[SourceName, dict[int, _Sight]] = {}

    def look(
        self,
        state: SourceState,
        named: Collection[str],
        heard: Mapping[str, Heard],
        steady: float,
        observed: float,
    ) -> list[Write]:
        """Take every step for a source that its peers' answers allow; see `next_step`.

        steady: now, on the clock of `heard`; observed: seconds that the store has been up.
        """
        if not (state.ended and state.registration.begun.epoch):
            # Before it begins nobody can say which stores have to hear of them.
            self._seen.pop(state.name, None)
            return []
        said = {name: Said.of(state.name, each) for name, each in heard.items()}
        before, writes = self._seen.get(state.name, {}), []
        seen = self._seen[state.name] = {}
        for session_id, end in list(state.ended.items()):
            sight = before.get(session_id)
            if sight is None or sight.epoch != end.epoch:
                sight = _Sight(end.epoch, steady, observed)
            seen[session_id] = sight
            match next_step(session_id, end, named, said, sight.steady):
                case Step.SETTLE:
                    state.ended[session_id] = replace(end, settled=True)
                    writes.append(state.ended_row(session_id))
                case Step.FORGET if observed - sight.observed >= REMEMBERED_SECONDS:
                    del state.ended[session_id], seen[session_id]
                    writes.append(state.ended_row(session_id))
        return writes

    def deleted(self, source: SourceName) -> None:
        """Forget what was remembered of the receivers of a source that is gone."""
        self._seen.pop(source, None)
