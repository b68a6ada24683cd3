"""A small world of stores and sources as explicit state: every step that anyone can take from it.

The state is what each store holds durably, what each source was told, and what was reported stable.
A request and its answer are one step; a store or a source that is down is one that takes no more
steps, so that every order of steps holds every crash, delay and pause. Wiping is a step of its own.
Production code decides (`recovery.decide`, `StabilityTracker`, `Lineage`); the rules of
protocol.md 4 and 5 that lie between are here, each behind a switch, written from the text.
What must hold is said in tests.brute_force.judge.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from tests.brute_force.definitions import Configuration, Terms, epoch_at
from tests.brute_force.judge import Judge
from tests.brute_force.states import (
    NONE,
    Answers,
    Column,
    Key,
    Link,
    Rules,
    Shape,
    Source,
    State,
    Step,
    Store,
)

from quorate.protocol.consensus import Behaviour
from quorate.protocol.recovery import Decision


class Again:
    """Peers must be heard again."""


class Model:
    """The steps of one world."""

    def __init__(self, shape: Shape, rules: Rules, judge: Judge) -> None:
        self.shape = shape
        self.rules = rules
        self.judge = judge
        self._classes = self._interchangeable()
        self._numbers: dict[Hashable, int] = {}

    def initial(self) -> State:
        shape, stores = self.shape, self.shape.stores
        blank = (0,) * stores
        sources = [Source(knows=blank) for _ in shape.policies]
        columns = [
            Column(
                Store(knows=blank, takes=self._takes_at_first(at)),
                (None,) * len(sources),
                (None,) * stores,
            )
            for at in range(stores)
        ]
        if shape.first_began:
            own = (0,)
            sources[0] = Source(
                decided=True,
                lineage=((1, 0),),
                from_policies=own,
                to_policies=own,
                sending=True,
                knows=blank,
            )
            for at in range(stores):
                if shape.first_began >> at & 1:
                    takes = self._takes_at_first(at)
                    store = Store(1, 1, knows=blank, takes=takes)
                    link = Link(NONE, 0, active=takes)
                    columns[at] = _with_entry(columns[at]._replace(store=store), 0, link)
        return State(tuple(columns), tuple(sources), (), shape.wipes, shape.turns)

    def _takes_at_first(self, at: int) -> bool:
        return not self.shape.state_only >> at & 1

    def _interchangeable(self) -> tuple[tuple[int, ...], ...]:
        """Stores that are in the same groups everywhere and share one fate."""
        alike: dict[object, list[int]] = {}
        for at in range(self.shape.stores):
            if self.shape.doomed >> at & 1:
                continue
            places = tuple(
                tuple(mask >> at & 1 for mask, _ in policy.groups) for policy in self.shape.policies
            )
            fate = tuple(
                mask >> at & 1
                for mask in (self.shape.first_began, self.shape.state_only, self.shape.turning)
            )
            alike.setdefault((places, fate), []).append(at)
        return tuple(tuple(each) for each in alike.values() if len(each) > 1)

    def key(self, state: State) -> Key:
        """The same for two states that differ only in the names of stores that are alike."""
        numbers = [self._number(column) for column in state.columns]
        for alike in self._classes:
            mine = sorted(numbers[at] for at in alike)
            for at, number in zip(alike, mine, strict=True):
                numbers[at] = number
        return (*numbers, self._number(state.sources), self._number(state[2:]))

    def _number(self, part: Hashable) -> int:
        return self._numbers.setdefault(part, len(self._numbers))

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """Everything that can happen next."""
        for g, source in enumerate(state.sources):
            if source.over:
                continue
            if not source.decided:
                if self.shape.one_after_another and g and not state.sources[g - 1].decided:
                    continue
                yield from self._promises(state, g)
                yield from self._decisions(state, g)
            else:
                yield from self._begins(state, g)
                yield from self._confirmations(state, g)
                yield from self._deliveries(state, g)
        if self.shape.doomed:
            yield from self._losses(state)
        if state.turns_left:
            yield from self._turns(state)
        if self.shape.forwards:
            yield from self._forwards(state)
        if self.shape.proxies:
            yield from self._findings(state)

    # Sources.

    def _promises(self, state: State, g: int) -> Iterator[tuple[Step, State]]:
        epoch = g + 1
        for s, column in enumerate(state.columns):
            store, entry = column.store, column.entries[g]
            if not self._is_mine(state, g, s) or store.promised > epoch:
                continue
            if isinstance(entry, Store) and not entry.limbo and entry.life == store.life:
                continue
            if not store.limbo:
                store = store._replace(promised=epoch)
            if store == entry:
                continue
            column = _with_entry(column._replace(store=store), g, store)
            told = self._heard(_with_column(state, s, column), g, s, self.rules.notices_in_answers)
            yield Step("epoch {epoch}: {store} promises", g, s), told

    def _is_mine(self, state: State, g: int, s: int) -> bool:
        """A source asks the stores of its policy, of those before, and of those it hears of."""
        mask = 0
        for policy in self.shape.policies[: g + 1]:
            mask |= policy.everyone
        for column in state.columns:
            entry = column.entries[g]
            if isinstance(entry, Store) and entry.begun:
                mask |= self._members(state.sources[entry.begun - 1])
        if state.sources[g].decided:
            mask |= self._members(state.sources[g])
        return bool(mask >> s & 1)

    def _members(self, source: Source) -> int:
        mask = 0
        for policy in source.from_policies + source.to_policies:
            mask |= self.shape.policies[policy].everyone
        return mask

    def _decisions(self, state: State, g: int) -> Iterator[tuple[Step, State]]:
        answers = tuple(
            (s, entry)
            for s, column in enumerate(state.columns)
            if isinstance(entry := column.entries[g], Store)
        )
        if not answers:
            return
        for behaviour in self.shape.behaviours:
            decision = self.judge.decide(
                state, self.shape.policies[g], answers, behaviour, self.shape.policies[:g]
            )
            if not isinstance(decision, Decision):
                return
            source = self._adopt(state, g, answers, decision)
            columns = []
            for column in state.columns:
                link: Link | None = None
                entry = column.entries[g]
                if not self.rules.begun_only and isinstance(entry, Store):
                    link = Link(_contiguous(entry.held, source.lineage), entry.life, False)
                columns.append(_with_entry(column, g, link))
            after = state._replace(columns=tuple(columns), sources=_with(state.sources, g, source))
            yield (
                Step(f"epoch {{epoch}} decides: keeps up to {source.kept_upto}", g, NONE),
                self._advance(after, g),
            )

    def _adopt(self, state: State, g: int, answers: Answers, decision: Decision) -> Source:
        newest = max(entry.begun for _, entry in answers)
        terms = tuple(
            (term.epoch, term.first)
            for term in decision.begun.lineage.extended(decision.kept_upto, g + 1).terms
        )
        from_policies, to_policies = self._membership(state, g, answers, decision)
        return state.sources[g]._replace(
            decided=True,
            lineage=terms,
            kept_upto=decision.kept_upto,
            from_policies=from_policies,
            to_policies=to_policies,
            newest=newest,
            stable=decision.stable_upto,
        )

    @staticmethod
    def _holders(answers: Answers, decision: Decision, number: int) -> int:
        """The stores that are known to hold a kept number."""
        epoch = decision.begun.lineage.epoch_at(number)
        return sum(
            1 << s
            for s, store in answers
            if number < len(store.held) and store.held[number] == epoch
        )

    def _membership(
        self, state: State, g: int, answers: Answers, decision: Decision
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The policies that the begin record comes from and goes to.

        To its own alone only once all that was kept is stable under that: what was reported may be
        stable under what came before and nothing else.
        """
        own, newest = self._own(g), max(store.begun for _, store in answers)
        if not newest:
            # It may be the first to be heard of: the configurations before it are in force, too.
            told_of = tuple(dict.fromkeys(self._own(each) for each in range(g + 1)))
            return told_of, told_of
        before = state.sources[newest - 1]
        in_force = tuple(dict.fromkeys(before.from_policies + before.to_policies))
        if decision.begun.policies == tuple(
            self.shape.policies[at].policy for at in before.to_policies
        ):
            in_force = before.to_policies
        if self.rules.brought_up:
            settled = own in in_force and all(
                self.judge.stable(
                    self.shape.policies[own], self._holders(answers, decision, number)
                )
                for number in range(decision.kept_upto + 1)
            )
        else:
            settled = own in in_force and decision.stable_upto >= decision.kept_upto
        both = tuple(dict.fromkeys((*in_force, own)))
        to_policies = (own,) if settled or not self.rules.both_policies else both
        return in_force if self.rules.from_policies else to_policies, to_policies

    def _own(self, g: int) -> int:
        """The number of a source's own policy."""
        return self.shape.policies.index(self.shape.policies[g])

    def _begins(self, state: State, g: int) -> Iterator[tuple[Step, State]]:
        epoch, source = g + 1, state.sources[g]
        for s, column in enumerate(state.columns):
            store, link = column.store, column.entries[g]
            if not self._is_mine(state, g, s) or store.limbo:
                continue
            if isinstance(link, Link) and link.begun and link.life == store.life:
                continue
            if store.promised > epoch and self.rules.promise:
                continue
            if (
                self.rules.remembered_promise
                and store.promised < epoch
                and store.begun > source.newest
            ):
                over = state._replace(sources=_with(state.sources, g, source._replace(over=True)))
                yield Step("epoch {epoch} hears of a newer one at {store}: over", g, s), over
                continue
            if store.begun < epoch:
                who = f"epoch {epoch}"
                self.judge.check_kept(state, epoch, source.lineage, source.kept_upto, who)
                store = self._begun(store, epoch, source)
            if source.confirmed:
                store = store._replace(confirmed=True)
            link = Link(_contiguous(store.held, source.lineage), store.life)
            if not store.takes:
                # Of what it holds a new source counts nothing.
                acked = NONE if self.rules.state_only_is_no_holder else source.kept_upto
                link = Link(acked, store.life, active=False)
            after = _with_column(state, s, _with_entry(column._replace(store=store), g, link))
            after = self._heard(after, g, s, self.rules.notices_in_answers)
            source_now = after.sources[g]
            if not source_now.sending and self._able(after, g):
                source_now = source_now._replace(sending=True)
                after = after._replace(sources=_with(after.sources, g, source_now))
            yield Step("epoch {epoch} begins at {store}", g, s), self._advance(after, g)

    def _begun(self, store: Store, epoch: int, source: Source) -> Store:
        if self.rules.lineage:
            held = _valid(store.held, source.lineage)
        else:
            # All that the store is told is that this epoch is in force from there on.
            held = store.held[: source.lineage[-1][1]]
        return store._replace(
            promised=max(epoch, store.promised), begun=epoch, held=held, confirmed=False
        )

    def _confirmations(self, state: State, g: int) -> Iterator[tuple[Step, State]]:
        epoch, source = g + 1, state.sources[g]
        if set(source.from_policies) <= set(source.to_policies):
            return
        enough = source.sending or not self.rules.confirmed_late
        if enough and not source.confirmed:
            confirmed = source._replace(confirmed=True)
            after = state._replace(sources=_with(state.sources, g, confirmed))
            yield Step("epoch {epoch} is confirmed", g, NONE), after
        for s, column in enumerate(state.columns if source.confirmed else ()):
            store, link = column.store, column.entries[g]
            if not isinstance(link, Link) or link.life != store.life or store.confirmed:
                continue
            if store.begun == epoch == store.promised:
                after = _with_column(
                    state, s, column._replace(store=store._replace(confirmed=True))
                )
                yield Step("{store} forgets where epoch {epoch} came from", g, s), after

    def _able(self, state: State, g: int) -> bool:
        begun = self._begun_mask(state, g)
        source = state.sources[g]
        return all(
            self.judge.stable(self.shape.policies[policy], begun)
            for policy in set(source.from_policies + source.to_policies)
        )

    def _begun_mask(self, state: State, g: int) -> int:
        return sum(
            1 << s
            for s, column in enumerate(state.columns)
            if isinstance(link := column.entries[g], Link) and link.begun
        )

    def _deliveries(self, state: State, g: int) -> Iterator[tuple[Step, State]]:
        epoch, source = g + 1, state.sources[g]
        last = source.kept_upto + (self.shape.messages if source.sending else 0)
        for s, column in enumerate(state.columns):
            store, link = column.store, column.entries[g]
            if not isinstance(link, Link) or link.life != store.life or store.limbo:
                continue
            if not link.begun or store.begun != epoch:
                continue
            if self.rules.promise and store.promised != epoch:
                continue
            if self.shape.leaves and link.active:
                yield (
                    Step("epoch {epoch} takes {store} for gone", g, s),
                    self._advance(
                        _with_column(state, s, _with_entry(column, g, link._replace(active=False))),
                        g,
                    ),
                )
            told = max(store.told, source.stable)
            if not store.takes:
                if told == store.told:
                    continue
                store = store._replace(told=told)
                what = f"epoch {{epoch}} tells {{store}}, which keeps state only, of {told}"
                if not self.rules.state_only_is_no_holder:
                    link = link._replace(acked=last)
            elif link.acked < last:
                number = link.acked + 1
                held = _put(store.held, number, epoch_at(source.lineage, number))
                store = store._replace(held=held, told=told)
                link = link._replace(acked=_contiguous(held, source.lineage))
                what = f"epoch {{epoch}} has {{store}} hold {number}"
            elif self.shape.tells and told > store.told:
                store = store._replace(told=told)
                what = f"epoch {{epoch}} tells {{store}} that {told} is stable"
            else:
                continue
            after = _with_column(state, s, _with_entry(column._replace(store=store), g, link))
            yield Step(what, g, s), self._advance(self._heard(after, g, s, self.rules.notices), g)

    def _heard(self, state: State, g: int, s: int, with_notices: bool) -> State:
        """The store answers; with_notices: it says which stores it knows to have been replaced."""
        if not self.shape.doomed:
            return state
        store, source = state.columns[s].store, state.sources[g]
        lives = list(source.knows)
        if with_notices:
            lives = [max(pair) for pair in zip(lives, store.knows, strict=True)]
        lives[s] = max(lives[s], store.life)
        if tuple(lives) == source.knows:
            return state
        columns = []
        for column, life in zip(state.columns, lives, strict=True):
            entry = column.entries[g]
            # What the former incarnation promised, began and acknowledged is void.
            if entry is not None and entry.life < life:
                column = _with_entry(column, g, None)
            columns.append(column)
        sources = _with(state.sources, g, source._replace(knows=tuple(lives)))
        return state._replace(columns=tuple(columns), sources=sources)

    def _advance(self, state: State, g: int) -> State:
        """See what has become stable by what the source was told."""
        source = state.sources[g]
        leaves = not set(source.from_policies) <= set(source.to_policies)
        if not source.decided or (leaves and not source.sending):
            # A begin that leaves stores behind counts only once enough of them have it, too.
            return state
        links = tuple(
            (s, link.acked, link.active)
            for s, column in enumerate(state.columns)
            if isinstance(link := column.entries[g], Link)
        )
        policies = [self.shape.policies[policy] for policy in source.to_policies]
        upto = self.judge.stable_upto(policies, links, source.stable)
        if upto == source.stable:
            return state
        state = state._replace(sources=_with(state.sources, g, source._replace(stable=upto)))
        return self.judge.report(state, g, policies)

    # Stores that are wiped, and come back.

    def _losses(self, state: State) -> Iterator[tuple[Step, State]]:
        for s, column in enumerate(state.columns):
            store = column.store
            if not self.shape.doomed >> s & 1:
                continue
            if state.wipes_left:
                yield Step("{store} is wiped", 0, s), self._lost(state, s, Store())
                if self.shape.rolls_back and store.held:
                    older = store._replace(promised=store.begun, held=store.held[:-1], told=NONE)
                    yield Step("{store} is rolled back", 0, s), self._lost(state, s, older)
            if store.limbo:
                left = self._left_limbo(state, s)
                yield from self._inventories(state, s, again=left is Again)
                if isinstance(left, Store):
                    after = _with_column(state, s, column._replace(store=left))
                    yield Step("{store} leaves limbo", 0, s), after

    def _turns(self, state: State) -> Iterator[tuple[Step, State]]:
        """A store starts again as one that takes no messages, or as one that does again; every
        stream to it has ended."""
        for s, column in enumerate(state.columns):
            if self.shape.turning >> s & 1:
                store = column.store
                entries = tuple(
                    entry._replace(active=False) if isinstance(entry, Link) else entry
                    for entry in column.entries
                )
                turned = Column(store._replace(takes=not store.takes), entries, column.gave)
                after = _with_column(state, s, turned)._replace(turns_left=state.turns_left - 1)
                for g in range(len(state.sources)):
                    after = self._advance(after, g)
                yield Step("{store} is configured otherwise", 0, s), after

    def _lost(self, state: State, s: int, left: Store) -> State:
        """The store comes back under a new incarnation, with what is left."""
        blank = (0,) * len(state.columns)
        store = left._replace(
            limbo=self.rules.limbo,
            life=state.columns[s].store.life + 1,
            knows=blank,
            takes=state.columns[s].store.takes,
        )
        columns = [each._replace(gave=_with(each.gave, s, None)) for each in state.columns]
        columns[s] = Column(store, columns[s].entries, (None,) * len(columns))
        return state._replace(columns=tuple(columns), wipes_left=state.wipes_left - 1)

    def _inventories(self, state: State, s: int, again: bool) -> Iterator[tuple[Step, State]]:
        life = state.columns[s].store.life
        for r, column in enumerate(state.columns):
            given = column.gave[s]
            if r == s or column.store.limbo or (given is not None and not again):
                continue
            # It remembers durably whom it answered.
            store = column.store._replace(knows=_with(column.store.knows, s, life))
            if store == given:
                continue
            gave = _with(column.gave, s, store)
            after = _with_column(state, r, column._replace(store=store, gave=gave))
            yield Step("{store}, in limbo, hears what {peer} has", 0, s, r), after

    def _left_limbo(self, state: State, s: int) -> Store | type[Again] | None:
        """The store as it is after limbo; None if it has not heard enough.

        Again: what may be stable is newer than what it has heard of.
        """
        heard = {
            r: given
            for r, column in enumerate(state.columns)
            if (given := column.gave[s]) is not None
        }
        mine = state.columns[s].store
        if self.rules.exit_knowledge:
            lives = [list(each.knows) for each in heard.values()]
            for r, given in heard.items():
                lives.append([given.life if at == r else 0 for at in range(len(mine.knows))])
            mine = mine._replace(
                knows=tuple(max(each) for each in zip(*lives, mine.knows, strict=True))
            )
        newest = max([mine.begun, *(each.begun for each in heard.values())])
        if not newest:
            if len(heard) < len(state.columns) - 1:
                return Again
            highest = max(each.promised for each in heard.values())
            return mine._replace(limbo=False, promised=highest)
        record = state.sources[newest - 1]
        peers = sum(1 << r for r in heard)
        confirmed = any(each.confirmed for each in heard.values() if each.begun == newest)
        named = record.to_policies + (() if confirmed else record.from_policies)
        in_force = [self.shape.policies[policy] for policy in dict.fromkeys(named)]
        for policy in in_force:
            members = peers & policy.everyone
            if self.rules.exit_stable and not self.judge.stable(policy, members):
                return None
            if self.rules.exit_blocking and not self.judge.blocks(policy, members):
                return None
        answers = (*heard.items(), (s, mine._replace(limbo=True)))
        decision = self.judge.decide(state, in_force[0], answers, Behaviour.LOWEST)
        if isinstance(decision, Decision):
            floor = decision.floor if self.rules.exit_floor else decision.stable_upto
        elif self.rules.exit_blocking:
            return Again
        else:
            floor = max(len(each.held) for _, each in answers) - 1
        held = tuple(
            epoch_at(record.lineage, n)
            if any(_holds(each, n, record.lineage) for _, each in answers)
            else 0
            for n in range(floor + 1)
        )
        if not mine.takes:
            held = self._only_what_needs_it(heard, held, in_force)
        highest = max(each.promised for _, each in answers)
        return mine._replace(
            promised=highest if self.rules.exit_promise else newest,
            begun=newest,
            confirmed=confirmed,
            held=held,
            told=max(each.told for _, each in answers),
            limbo=False,
        )

    def _only_what_needs_it(
        self, heard: Mapping[int, Store], held: tuple[int, ...], in_force: list[Configuration]
    ) -> tuple[int, ...]:
        """Of what may be stable that which would not be so without this store: it may have been one
        that takes messages before it lost its disk."""
        if not self.rules.exit_kept_elsewhere:
            return ()
        kept = []
        for number, epoch in enumerate(held):
            others = sum(
                1 << r
                for r, each in heard.items()
                if number < len(each.held) and each.held[number] == epoch
            )
            needed = not all(self.judge.stable(policy, others) for policy in in_force)
            kept.append(epoch if needed else 0)
        return tuple(kept)

    def _forwards(self, state: State) -> Iterator[tuple[Step, State]]:
        """A store learns from a peer of a newer begun epoch, or of messages that are stable."""
        for s, column in enumerate(state.columns):
            store = column.store
            if store.limbo:
                continue
            for r, other in enumerate(state.columns):
                peer = other.store
                if peer.limbo:
                    continue
                if peer.begun == store.begun:
                    yield from self._repairs(state, s, r)
                if peer.begun <= store.begun or store.promised > peer.begun:
                    continue
                record = state.sources[peer.begun - 1]
                if not self._members(record) >> s & 1:
                    continue
                after = _with_column(
                    state,
                    s,
                    column._replace(
                        store=self._begun(store, peer.begun, record)._replace(
                            confirmed=peer.confirmed
                        )
                    ),
                )
                yield Step("{store} takes the begin over from {peer}", 0, s, r), after

    def _findings(self, state: State) -> Iterator[tuple[Step, State]]:
        """Stores that can be reached and have begun the newest epoch: what is stable on them is."""
        stores = [column.store for column in state.columns]
        for reached in range(1, 1 << len(stores)):
            heard = [(s, each) for s, each in enumerate(stores) if reached >> s & 1]
            epoch = max(each.begun for _, each in heard)
            able = [(s, each) for s, each in heard if each.begun == epoch and not each.limbo]
            if not epoch or not able or len(able) < len(heard):
                continue
            record = state.sources[epoch - 1]
            policies = [
                self.shape.policies[policy]
                for policy in dict.fromkeys(record.from_policies + record.to_policies)
            ]
            members = sum(1 << s for s, _ in able)
            if not all(self.judge.stable(policy, members) for policy in policies):
                continue
            links = tuple(
                (s, _contiguous(each.held, record.lineage), each.takes)
                for s, each in able
                if each.promised == epoch or not self.rules.found_by_unpromised
            )
            told = max(each.told for _, each in able)
            upto = self.judge.stable_upto(policies, links, told)
            proxy, store = able[0]
            if upto > store.told:
                found = state._replace(
                    columns=_with_column(
                        state,
                        proxy,
                        state.columns[proxy]._replace(store=store._replace(told=upto)),
                    ).columns
                )
                who = Step(f"{{store}} finds that {upto} of epoch {epoch} is stable", 0, proxy)
                yield who, self.judge.reported(found, epoch, upto, policies)

    def _repairs(self, state: State, s: int, r: int) -> Iterator[tuple[Step, State]]:
        """The first number that the store lacks and the peer has, if it is told to be stable."""
        column, peer = state.columns[s], state.columns[r].store
        store, lineage = column.store, state.sources[peer.begun - 1].lineage
        if not store.takes:
            return
        for number in range(min(len(peer.held), max(peer.told, store.told) + 1)):
            if _holds(peer, number, lineage) and not _holds(store, number, lineage):
                held = _put(store.held, number, peer.held[number])
                after = _with_column(state, s, column._replace(store=store._replace(held=held)))
                yield Step(f"{{store}} is repaired from {{peer}}: {number}", 0, s, r), after
                return


def _with(items: tuple, at: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:at], item, *items[at + 1 :])


def _with_entry(column: Column, g: int, entry: Store | Link | None) -> Column:
    return column._replace(entries=_with(column.entries, g, entry))


def _with_column(state: State, s: int, column: Column) -> State:
    return state._replace(columns=_with(state.columns, s, column))


def _put(held: tuple[int, ...], number: int, epoch: int) -> tuple[int, ...]:
    return (*held[:number], *(0,) * (number - len(held)), epoch, *held[number + 1 :])


def _valid(held: tuple[int, ...], lineage: Terms) -> tuple[int, ...]:
    """What of it belongs to the lineage."""
    kept = [epoch if epoch == epoch_at(lineage, n) else 0 for n, epoch in enumerate(held)]
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def _holds(store: Store, number: int, lineage: Terms) -> bool:
    return number < len(store.held) and store.held[number] == epoch_at(lineage, number) != 0


def _contiguous(held: tuple[int, ...], lineage: Terms) -> int:
    """The highest number with all before it held."""
    upto = NONE
    while upto + 1 < len(held) and held[upto + 1] == epoch_at(lineage, upto + 1):
        upto += 1
    return upto
