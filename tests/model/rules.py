"""The rules of ballots, ends and readmission as a model: the moves, and what each of them does.

The model follows the design, not the product, and shares no code with the product. What must
hold in every state is in `checks.py`. A move is one message taken by one party, or one fault. A
message that is lost or late is a move that is never made, or made later. A begin that a peer passes
on is such a late message. Clocks and networks do not live here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.model.decisions import Decisions
from tests.model.state import (
    BEGIN,
    ENDS,
    FOUNDED,
    IDLE,
    NEVER,
    PRE_VOTE,
    PROMISE,
    RECEIVER,
    ROW_OF,
    SOURCE,
    Attempt,
    Ballot,
    Broken,
    Move,
    Row,
    State,
    Store,
    ballot_at,
    put,
)


class Model(Decisions):
    """The moves of a world under all rules but those left out."""

    def first(self) -> State:
        count = self.world.stores
        zeros = (0,) * count
        source = self.began(Row(), FOUNDED) if self.world.founded else Row()
        store, attempt = Store((source, Row()), zeros), Attempt((None,) * count, zeros)
        return State(
            (store,) * count, (attempt,) * len(self.kinds), self.world.wipes, self.world.crashes
        )

    # What a store may do.

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move that is possible."""
        for index in range(len(self.kinds)):
            yield from self._moves_of_attempt(state, index)
        limbo = sum(store.limbo for store in state.stores)
        tolerated = self.world.stores - self.world.quorum
        voting = any(attempt.phase == PRE_VOTE for attempt in state.attempts)
        lapses = self.expires and not (voting and self.on("pre-vote: in time"))
        for name, store in enumerate(state.stores):
            if state.wipes and not store.limbo and limbo < tolerated:
                yield "wipe", name
            if state.crashes and not store.limbo:
                yield "crash", name
            if lapses and store.heard:
                yield "lapse", name
            if store.limbo and len(store.asked) >= self._enough():
                yield "leave", name
            for peer, other in enumerate(state.stores):
                if peer != name and not other.limbo:
                    yield from self._moves_between(name, store, peer, other)

    def _enough(self) -> int:
        full = max(self.world.quorum, self.world.blocking)
        return full if self.on("readmit: peers") else 1

    def _moves_between(self, name: int, store: Store, peer: int, other: Store) -> Iterator[Move]:
        if store.limbo:
            if peer not in store.asked:
                yield "ask", name, peer
            return
        if not self.world.forgets:
            return
        for which, (mine, yours) in enumerate(zip(store.rows, other.rows, strict=True)):
            if not mine.begun or not mine.begun.ended or peer in mine.adopted_by:
                continue
            if self._adopted(yours, mine.begun.ballot) or not self.on("forget: all"):
                yield "note", name, peer, which

    def _adopted(self, row: Row, end: Ballot) -> bool:
        """Return whether a store began an end or what came after it, or forgot it already."""
        if not row.begun:
            return row.promised >= end
        if not self.on("forget: generation"):
            return row.begun.ballot >= end
        return row.begun.generation >= end

    def _moves_of_attempt(self, state: State, index: int) -> Iterator[Move]:
        attempt, kind = state.attempts[index], self.kinds[index]
        which = ROW_OF[kind]
        if attempt.phase == IDLE:
            epochs = {store.rows[which].promised[0] for store in state.stores if not store.limbo}
            yield from (("start", index, epoch + 1) for epoch in sorted(epochs))
            return
        if attempt.phase == PROMISE and self._decides(attempt):
            yield "decide", index, True
            if kind == "owner":
                yield "decide", index, False
        for name, store in enumerate(state.stores):
            if store.limbo:
                continue
            row = store.rows[which]
            free = self.key(row.promised) <= self.key(attempt.ballot)
            unheard = kind != "expiry" or store.heard <= 0
            if attempt.phase == PRE_VOTE and attempt.told[name] is None and unheard:
                yield "pre_vote", index, name
            elif attempt.phase == PROMISE and attempt.told[name] is None and free:
                if unheard or not self.on("pre-vote again") or not self.on("pre-vote"):
                    yield "promise", index, name
            elif attempt.phase == BEGIN and free:
                yield from self._moves_after_begin(state, index, name)

    def _decides(self, attempt: Attempt) -> bool:
        needed = self.world.blocking if self.on("blocking set") else 1
        return sum(told is not None for told in attempt.told) >= needed

    def _moves_after_begin(self, state: State, index: int, name: int) -> Iterator[Move]:
        attempt, store, kind = state.attempts[index], state.stores[name], self.kinds[index]
        row = store.rows[ROW_OF[kind]]
        if row.begun != attempt.begun or attempt.told[name] is None:
            assert attempt.begun
            if not row.begun or self.key(row.begun.ballot) <= self.key(attempt.ballot):
                yield "begin", index, name
            if kind == "owner" and not self.on("begun counts"):
                number = self.prefix(row, attempt.begun.lineage)
                if number < attempt.begun.lineage[-1][1] and self._content(state, attempt, number):
                    yield "take", index, name
            return
        if kind in ENDS:
            if row.held and attempt.complete:
                yield "erase", index, name
            if len(row.adopted_by) == self.world.stores - 1:
                yield "forget", index, name
        elif kind == "receiver":
            if self.position(row) < self.world.messages and self._streams(state, attempt):
                yield "acknowledge", index, name
        else:
            number = self.prefix(row)
            if number < self.world.messages and self._content(state, attempt, number):
                yield "take", index, name
            if self.expires and store.heard != index + 1:
                yield "live", index, name

    def _content(self, state: State, attempt: Attempt, number: int) -> bool:
        """Return whether the owner wrote the message, or a store has what the owner kept."""
        assert attempt.begun
        wanted = ballot_at(attempt.begun.lineage, number)
        return wanted == attempt.ballot or any(
            (number, wanted) in store.rows[SOURCE].held for store in state.stores
        )

    def _streams(self, state: State, receiver: Attempt) -> bool:
        """Return whether the generation of the source that the receiver opened has messages."""
        assert receiver.begun
        generations = {
            attempt.begun.generation
            for attempt, kind in zip(state.attempts, self.kinds, strict=True)
            if kind == "owner" and attempt.begun and attempt.complete
        }
        founded = {FOUNDED.generation} if self.world.founded else set[Ballot]()
        return receiver.begun.parent in generations | founded

    # What a move does.

    def apply(self, state: State, move: Move) -> State:
        method: Callable[..., State] = getattr(self, "_" + move[0])
        return self._note_silence(method(state, *move[1:]))

    def _note_silence(self, state: State) -> State:
        """Record for each expiry under way that some stable set has not heard of an owner."""
        if not self.expires or self._living(state):
            return state
        attempts = (
            attempt._replace(unheard=True) if attempt.phase in (PRE_VOTE, PROMISE) else attempt
            for attempt in state.attempts
        )
        return state._replace(attempts=tuple(attempts))

    def _living(self, state: State) -> int:
        """Return the owner, as 1 + its index, that a stable set has heard of."""
        for index, attempt in enumerate(state.attempts):
            heard = sum(abs(store.heard) == index + 1 for store in state.stores)
            if attempt.complete and heard >= self.world.quorum:
                return index + 1
        return 0

    def _start(self, state: State, index: int, epoch: int) -> State:
        kind, attempt = self.kinds[index], state.attempts[index]
        after = max(
            (other.ballot for other, of in zip(state.attempts, self.kinds, strict=True)
             if of in ENDS and ROW_OF[of] == SOURCE and other.complete),
            default=NEVER,
        )  # fmt: skip
        phase = PRE_VOTE if kind == "expiry" and self.on("pre-vote") else PROMISE
        attempt = attempt._replace(phase=phase, ballot=(epoch, index), after=after)
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _hear(self, state: State, index: int, name: int, said: Any) -> State:
        """Let the attempt take an answer, with the incarnations that the store knows."""
        attempt, known = state.attempts[index], state.stores[name].known
        told = put(attempt.told, name, (known[name], said))
        seen = tuple(map(max, attempt.seen, known))
        if self.on("readmit: incarnation"):
            told = tuple(
                answer if answer and answer[0] == newest else None
                for answer, newest in zip(told, seen, strict=True)
            )
        attempt = attempt._replace(told=told, seen=seen)
        if attempt.phase == BEGIN:
            attempt = self._count(attempt)
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _count(self, attempt: Attempt) -> Attempt:
        """Return the attempt with what its acknowledgements make stable."""
        have = sorted((answer[1] for answer in attempt.told if answer), reverse=True)
        if len(have) < self.world.quorum:
            return attempt
        confirmed = max(attempt.confirmed, have[self.world.quorum - 1])
        return attempt._replace(confirmed=confirmed, complete=True)

    def _pre_vote(self, state: State, index: int, name: int) -> State:
        state = self._hear(state, index, name, True)
        attempt = state.attempts[index]
        if sum(told is not None for told in attempt.told) < self.world.blocking:
            return state
        attempt = attempt._replace(phase=PROMISE, told=(None,) * self.world.stores)
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _set_row(self, state: State, name: int, which: int, row: Row) -> State:
        store = state.stores[name]
        store = store._replace(rows=put(store.rows, which, row))
        return state._replace(stores=put(state.stores, name, store))

    def _promise(self, state: State, index: int, name: int) -> State:
        attempt, kind, store = state.attempts[index], self.kinds[index], state.stores[name]
        if kind == "expiry" and not attempt.unheard:
            raise Broken("an expiry disturbs an owner that a stable set hears of")
        which = ROW_OF[kind]
        if self.on("promise"):
            row = store.rows[which]._replace(promised=attempt.ballot)
            state = self._set_row(state, name, which, row)
        if kind == "owner":
            state = self._live(state, index, name)
        return self._hear(state, index, name, store.rows)

    def _live(self, state: State, index: int, name: int) -> State:
        if not self.expires:
            return state
        store = state.stores[name]._replace(heard=index + 1)
        return state._replace(stores=put(state.stores, name, store))

    def _decide(self, state: State, index: int, highest: bool) -> State:
        attempt, kind = state.attempts[index], self.kinds[index]
        answers: list[tuple[Row, Row]] = [told[1] for told in attempt.told if told]
        begun = self.decided(attempt, kind, answers, highest)
        acknowledged = begun.lineage[-1][1] if kind == "receiver" else 0
        nothing = (None,) * self.world.stores
        attempt = attempt._replace(
            phase=BEGIN, begun=begun, told=nothing, acknowledged=acknowledged
        )
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _begin(self, state: State, index: int, name: int) -> State:
        attempt, kind = state.attempts[index], self.kinds[index]
        which = ROW_OF[kind]
        if kind == "expiry" and self._living(state) > 0 and self._outlives(state, attempt):
            raise Broken("an owner that a stable set hears of loses its stream to an expiry")
        row = state.stores[name].rows[which]
        assert attempt.begun
        if row.begun != attempt.begun:
            row = self.began(row, attempt.begun)
            state = self._set_row(state, name, which, row)
        if kind == "owner":
            state = self._live(state, index, name)
        return self._hear(state, index, name, self.said(kind, row))

    def _outlives(self, state: State, expiry: Attempt) -> bool:
        return state.attempts[self._living(state) - 1].ballot < expiry.ballot

    def _take(self, state: State, index: int, name: int) -> State:
        attempt, row = state.attempts[index], state.stores[name].rows[SOURCE]
        assert attempt.begun
        lineage = attempt.begun.lineage
        number = self.prefix(row, lineage)
        held = row.held | {(number, ballot_at(lineage, number))}
        row = row._replace(held=held)
        state = self._set_row(self._live(state, index, name), name, SOURCE, row)
        return self._hear(state, index, name, self.prefix(row, lineage))

    def _acknowledge(self, state: State, index: int, name: int) -> State:
        attempt, row = state.attempts[index], state.stores[name].rows[RECEIVER]
        position = self.position(row) + 1
        row = row._replace(held=frozenset({(position, attempt.ballot)}))
        attempt = attempt._replace(acknowledged=max(attempt.acknowledged, position))
        state = state._replace(attempts=put(state.attempts, index, attempt))
        return self._hear(self._set_row(state, name, RECEIVER, row), index, name, position)

    def _erase(self, state: State, index: int, name: int) -> State:
        which = ROW_OF[self.kinds[index]]
        row = state.stores[name].rows[which]._replace(held=frozenset())
        return self._set_row(state, name, which, row)

    def _forget(self, state: State, index: int, name: int) -> State:
        which = ROW_OF[self.kinds[index]]
        row = state.stores[name].rows[which]
        fence = row.promised if self.on("forget: fence") else NEVER
        return self._set_row(state, name, which, Row(fence))

    def _note(self, state: State, name: int, peer: int, which: int) -> State:
        row = state.stores[name].rows[which]
        row = row._replace(adopted_by=row.adopted_by | {peer})
        return self._set_row(state, name, which, row)

    # Faults, and the way back.

    def _wipe(self, state: State, name: int) -> State:
        store = state.stores[name]
        known = put((0,) * self.world.stores, name, store.known[name] + 1)
        limbo = self.on("limbo")
        heard = store.heard if self.on("start is life") else -abs(store.heard)
        wiped = Store((Row(), Row()), known, limbo, frozenset(), heard)
        return state._replace(stores=put(state.stores, name, wiped), wipes=state.wipes - 1)

    def _crash(self, state: State, name: int) -> State:
        """Let a store start anew. Its disk has everything, unless a rule is left out."""
        store = state.stores[name]
        rows = (self._lost_power(store.rows[0]), self._lost_power(store.rows[1]))
        heard = store.heard if self.on("start is life") else -abs(store.heard)
        store = store._replace(rows=rows, heard=heard)
        return state._replace(stores=put(state.stores, name, store), crashes=state.crashes - 1)

    def _lost_power(self, row: Row) -> Row:
        if not self.on("durable instance"):
            row = row._replace(promised=(row.promised[0], -1))
        if not self.on("durable begin"):
            row = row._replace(begun=None)
        if not self.on("durable promise"):
            row = row._replace(promised=row.begun.ballot if row.begun else NEVER)
        return row

    def _lapse(self, state: State, name: int) -> State:
        store = state.stores[name]._replace(heard=0)
        return state._replace(stores=put(state.stores, name, store))

    def _ask(self, state: State, name: int, peer: int) -> State:
        """Let a store in limbo take what a peer says, and the peer note the new incarnation."""
        store, other = state.stores[name], state.stores[peer]
        rows = (
            self._merged(store.rows[0], other.rows[0]),
            self._merged(store.rows[1], other.rows[1]),
        )
        known = tuple(map(max, store.known, other.known))
        store = store._replace(rows=rows, known=known, asked=store.asked | {peer})
        other = other._replace(known=put(other.known, name, store.known[name]))
        return state._replace(stores=put(put(state.stores, name, store), peer, other))

    def _merged(self, mine: Row, yours: Row) -> Row:
        begun = mine.begun
        if yours.begun and self.newer(yours.begun, mine) and self.on("readmit: begin"):
            begun = yours.begun
        promised = max(mine.promised, yours.promised)
        if not self.on("readmit: promise"):
            promised = begun.ballot if begun else NEVER
        held = mine.held | yours.held if self.on("readmit: fetch") else mine.held
        return Row(promised, begun, held)

    def _leave(self, state: State, name: int) -> State:
        store = state.stores[name]
        source, receiver = store.rows
        rows = (self._sorted_out(source), self._sorted_out(receiver))
        store = store._replace(rows=rows, limbo=False, asked=frozenset())
        return state._replace(stores=put(state.stores, name, store))

    def _sorted_out(self, row: Row) -> Row:
        """Return the row without what does not belong to the newest begin."""
        if not row.begun:
            return row
        return self.began(row, row.begun)._replace(promised=row.promised)
