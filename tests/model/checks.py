"""The checks that hold in every state of the model, whatever happened before.

A violation is a `Broken`, which says in one sentence what is wrong. The checks use the true
ballots, also where a model leaves instances out: no application cares how stores compare.
"""

from __future__ import annotations

from itertools import combinations

from tests.model.rules import Model
from tests.model.state import (
    BEGIN,
    ENDS,
    NEVER,
    RECEIVER,
    ROW_OF,
    SOURCE,
    Attempt,
    Ballot,
    Begun,
    Broken,
    State,
    ballot_at,
)


def check(model: Model, state: State) -> None:
    """Raise `Broken` if the state breaks what must hold."""
    for row, kind in ((SOURCE, "owner"), (RECEIVER, "receiver")):
        begun = [
            (attempt, of)
            for attempt, of in zip(state.attempts, model.kinds, strict=True)
            if attempt.phase == BEGIN and ROW_OF[of] == row
        ]
        ends = [attempt for attempt, of in begun if of in ENDS]
        decided = [attempt for attempt, of in begun if of == kind]
        if row == SOURCE:
            _check_streams(decided, ends)
            _check_disks(model, state, decided, ends)
        else:
            source_ends = [
                attempt.ballot
                for attempt, of in zip(state.attempts, model.kinds, strict=True)
                if of in ENDS and ROW_OF[of] == SOURCE and attempt.phase == BEGIN
            ]
            _check_positions(decided, ends, source_ends)
        for attempt in decided:
            _check_generation(attempt, ends)


def _begun(attempt: Attempt) -> Begun:
    assert attempt.begun
    return attempt.begun


def _ended_between(ends: list[Attempt], older: Ballot, newer: Ballot) -> bool:
    return any(older < end.ballot <= newer for end in ends)


def _check_generation(attempt: Attempt, ends: list[Attempt]) -> None:
    """Check that no later registration goes on with what an end on a stable set ended."""
    begun = _begun(attempt)
    for end in ends:
        if end.complete and end.ballot < attempt.ballot and begun.generation < end.ballot:
            raise Broken("an ended generation is gone on with")


def _check_streams(decided: list[Attempt], ends: list[Attempt]) -> None:
    """Check that owners agree on what is stable, and that none gives it away."""
    for one in decided:
        for other in decided:
            if one is other or not one.confirmed:
                continue
            mine, theirs = _begun(one), _begun(other)
            if mine.generation != theirs.generation:
                later = one.ballot < other.ballot
                if later and not _ended_between(ends, one.ballot, other.ballot):
                    raise Broken("a stable message is lost with its generation")
                continue
            if other.ballot > one.ballot and theirs.lineage[-1][1] < one.confirmed:
                raise Broken("an owner gives away a stable message")
            both = one.confirmed if other.ballot > one.ballot else other.confirmed
            for number in range(min(one.confirmed, both)):
                if ballot_at(mine.lineage, number) != ballot_at(theirs.lineage, number):
                    raise Broken("one number has two stable contents")


def _check_disks(model: Model, state: State, decided: list[Attempt], ends: list[Attempt]) -> None:
    """Check that each quorum outside limbo has everything stable and nothing ended."""
    rows = [store.rows[SOURCE] for store in state.stores if not store.limbo]
    stable = [attempt for attempt in decided if attempt.confirmed]
    settled = [end.ballot for end in ends if end.complete]
    if not stable and not settled:
        return
    for quorum in combinations(rows, model.world.blocking):
        begun = [row.begun for row in quorum if row.begun]
        newest = max(begun, key=lambda each: model.key(each.ballot), default=None)
        for end in settled:
            if newest and newest.generation < end:
                raise Broken("a message of an ended generation is handed out")
        for attempt in stable:
            mine = _begun(attempt)
            if not newest or newest.generation != mine.generation:
                until = newest.ballot if newest else max([NEVER, *settled])
                if not _ended_between(ends, attempt.ballot, until):
                    raise Broken("stores forget a generation that lives")
                continue
            for number in range(attempt.confirmed):
                content = ballot_at(mine.lineage, number)
                if ballot_at(newest.lineage, number) != content:
                    raise Broken("the stream has no place for a stable message")
                if not any((number, content) in row.held for row in quorum):
                    raise Broken("no disk of a quorum has a stable message")


def _check_positions(
    decided: list[Attempt], ends: list[Attempt], source_ends: list[Ballot]
) -> None:
    """Check where receivers start."""
    in_order = sorted(decided, key=lambda attempt: attempt.ballot)
    for place, attempt in enumerate(in_order):
        begun = _begun(attempt)
        start = begun.lineage[-1][1]
        if begun.parent < attempt.after:
            raise Broken("a receiver opens an ended source")
        latest = 0
        for number, before in enumerate(in_order[:place]):
            if before.complete:
                latest = number
            earlier = _begun(before)
            if earlier.generation != begun.generation:
                if before.complete and not _ended_between(ends, before.ballot, attempt.ballot):
                    raise Broken("the stores forget a receiver that was not ended")
            elif earlier.parent == begun.parent and start < before.confirmed:
                raise Broken("a position falls within a generation")
            elif earlier.parent != begun.parent and before.confirmed and not source_ends:
                raise Broken("a position is void though no source ended")
        same = [
            before.acknowledged
            for before in in_order[latest:place]
            if _begun(before).generation == begun.generation
            and _begun(before).parent == begun.parent
        ]
        if start > max(same, default=0):
            raise Broken("a receiver starts above what it acknowledged in this generation")
