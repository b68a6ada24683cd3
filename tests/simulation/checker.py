"""The guarantees of protocol.md 1, checked as the simulated world goes on.

Knows what applications saw: what was accepted, and what was reported stable; what receivers saw is
in tests.simulation.receiver_checks. Looks into stores only through their disks, and decides
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tests.simulation import store_disks
from tests.simulation.content import contents_of
from tests.simulation.endings import IMMORTAL, Endings, Life, Mortality
from tests.simulation.receiver_checks import ReceiverChecks
from tests.simulation.rules import Setup
from tests.simulation.store_disks import StoreOf
from tests.simulation.violation import Violation
from tests.simulation.world import World
from tests.simulation.written import Written

from quorate.protocol.errors import ContentConflict
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules.identity_records import (
    gone_key,
    unpack_end_record,
)
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryRows
from quorate.store.storage.records import (
    receiver_of,
    reg_id_key,
    unpack_index,
    unpack_receiver,
    unpack_registration,
)


class Checker:
    """One source's stream, all its stores and receivers."""

    def __init__(
        self,
        world: World,
        source: SourceName,
        setups: Iterable[Setup],
        honest: bool,
        mortality: Mortality = IMMORTAL,
    ) -> None:
        """setups: all that may ever be in force. honest: nobody gives one number to two messages.

        mortality: of the source and its receivers, as stores are configured.

        A store that is in limbo when a stricter rule comes into force may need an operator to leave
        it; so all of them say from the beginning what may be destroyed.
        """
        self._world = world
        self._honest = honest
        self.source = source
        self.stores: dict[str, StoreOf] = {}
        self._written = Written(self.require)
        self._accepted: dict[tuple[int, int], bytes] = {}
        self._released: dict[tuple[int, int], bytes] = {}
        self._remembered: dict[int, bytes] = {}
        self._sent_by: dict[tuple[int, bytes], int] = {}
        """By number and content: the instance that sent it last under that number."""
        self._stable_of: dict[int, int] = {}
        self._fenced: set[int] = set()
        """Instances that were told so."""
        self.endings = Endings(world, mortality, self.require)
        self._former = self._life = Life()
        self._life_of: dict[int, Life] = {}
        """By epoch that was decided."""
        self._follows: dict[str, Life] = {}
        """By who decided: the stream that it goes on with."""
        self._named: Sequence[Setup] = ()
        """The rules that whoever decided last comes from and goes to."""
        self._in_force: Sequence[Setup] = ()
        """The rules that whoever decided last goes to."""
        self._decisions: dict[tuple[int, str], int] = {}
        """By epoch and who decided: the first number that is not kept. Where blocking sets need not
        meet two may decide one epoch; then neither can begin it on enough stores."""
        self._newest: dict[str, tuple[int, Lineage]] = {}
        """By who decided: the newest epoch that was decided, and its lineage."""
        self._decided_under: dict[tuple[int, str], Sequence[Setup]] = {}
        self._senders: dict[int, int] = {}
        """By epoch: who sent messages in it."""
        self._promised: dict[str, int] = {}
        self._begun: dict[int, set[str]] = {}
        self._setups = {each: None for setup in setups for each in setup.variants()}
        """All that were ever in force, or may be."""
        self._unchecked: dict[str, list[Range]] = {}
        """By store: numbers that it serves anew since they were last compared."""
        self.receivers = ReceiverChecks(world, self)
        self._receiver_rows: dict[str, dict[bytes, bytes]] = {}
        """By store: those on their way to its disk, or there since it started."""
        self.failed: dict[str, dict[int, bytes]] = {}
        """By store whose data was destroyed and that does not vouch yet: what it had had."""
        self._destroyed: dict[str, StoreOf] = {}
        """Stores whose data was destroyed at some time."""
        self.beyond = False
        """More was destroyed than the rules tolerate: things may stop, but nothing may be lost in
        silence."""
        self._let_go: dict[str, dict[int, bytes]] = {}
        """By store: what it let go on purpose; that makes nothing less stable."""
        self._twice: set[str] = set()
        """Stores that run twice, each on its own copy of the disk; they count as failed."""
        self._heard_late: dict[str, Callable[[], bool]] = {}
        """By store that ran twice: whether what the one that ended said is on its way."""
        self.wiped: set[str] = set()
        """Stores that vouch again, though they were failed once."""
        self._gone_key = gone_key(source)

    @property
    def stable_contents(self) -> dict[int, bytes]:
        """What was reported stable of the present stream."""
        return self._life.stable_contents

    @property
    def retained_from(self) -> int:
        """What is below some store has let go of the present stream."""
        return self._life.retained_from

    @property
    def lost(self) -> set[int]:
        """Numbers of the present stream that an operator has accepted as lost."""
        return self._life.lost

    # What is destroyed, and whether the rules tolerate it.

    def tolerates(self, store: str) -> bool:
        """Whether the data of this store may be destroyed now, too.

        A store counts as failed for all it held until it vouches again; one that the stream left,
        while it has forgotten the source: those that remember stop who runs an old configuration;
        one that ran twice, also while a peer may yet find it out by what the one that ended said.
        What is left must be enough to recover everything by itself.
        """
        forgot = store_disks.forgetful(self._destroyed.values(), self.source)
        late = {name for name, is_on_its_way in self._heard_late.items() if is_on_its_way()}
        mistaken = store_disks.mistaken(self.stores.values(), self.source, self._heard_late)
        failed = {*self.failed, store, *forgot, *mistaken, *late}
        return all(setup.recovers_from(failed) for setup in self._setups)

    def destroys(self, store: str) -> None:
        """All or some of its data is about to go: it counts as held as long as it is failed."""
        actor = self.stores[store]
        self.check_store(actor)
        held = self.on_disk(actor, actor.disk.synced, 0, SEQUENCE_MAX)
        self._destroyed[store] = actor
        self.failed.setdefault(store, {}).update(held)
        self._promised.pop(store, None)
        self.receivers.destroyed(store)
        self.wiped.discard(store)

    def may_lose(self, store: str) -> bool:
        """What is only in the page cache of its host is about to go, if the rules tolerate it."""
        if tolerated := self.tolerates(store):
            self.destroys(store)
        return tolerated

    def copied(self, store: str) -> None:
        """A second process is about to run on a copy of its disk: nobody knows which is the one."""
        self.destroys(store)
        self._twice.add(store)

    def goes(self, gone: StoreOf, is_on_its_way: Callable[[], bool]) -> None:
        """One of the two ends for good; what it has counts as held as long as the store is failed.

        The other one has the name alone. is_on_its_way: whether something that it said is.
        """
        self._heard_late[gone.name] = is_on_its_way
        self.check_store(gone)
        held = self.on_disk(gone, gone.disk.synced, 0, SEQUENCE_MAX)
        self.failed[gone.name].update(held)
        self._twice.discard(gone.name)
        for label in [each for each in self.stores if each != gone.name]:
            if self.stores[label].name == gone.name:
                del self.stores[label]
                self._promised.pop(label, None)
                self._unchecked.pop(label, None)
                self.receivers.forgotten(label)
        if gone.label == gone.name:
            # Its place is taken by the other one's disk.
            self._promised.pop(gone.name, None)
            self.receivers.forgotten(gone.name)

    def loses(self, part: Range) -> None:
        """An operator accepts that nobody has these any more: what was stable, and is destroyed."""
        self.lost.update(range(part.first, part.last + 1))

    def unreadable(self, store: str, part: Range, problem: str) -> None:
        """The store finds that it can not read what it holds: only if that was destroyed."""
        self.require(store in self.failed, "I1", f"{store} can not read {part}: {problem}")
        self._world.reach("unreadable batch found", "%s %s", store, part)

    def look_at(self, store: StoreOf) -> None:
        """If it vouches for everything, and can read it, it is failed no more.

        Both: a bit that turns twice can be read again, and what its store found in between it
        doubts until a peer gave it back.
        """
        core = store.core
        state = core.sources.get(self.source)
        doubt = core.limbo_of(None) or core.limbo_without(self.source)
        doubt = core.doubt_of(state) if state is not None else doubt
        if store.name not in self.failed or doubt:
            return
        if store.name in self._twice:
            self._world.reach("vouches while it runs twice", store.label)
            return
        if state is not None and not store_disks.can_be_read(store, state):
            return
        del self.failed[store.name]
        self.receivers.vouches_again(store.name)
        self.wiped.add(store.name)
        self._world.reach("failed store vouches again", store.name)

    def retires(self, stores: Collection[str], to_come: Sequence[Setup]) -> bool:
        """Whether the stream has left these for good, as the disks say: then the others have all
        that is stable, and from now on only their rules count. to_come: the source's, newest last.
        """
        in_force = store_disks.alone_in_force(self.stores.values(), self.source)
        if in_force is None or in_force not in {*to_come[0].variants()}:
            return False
        needed = range(0 if self.is_over() else len(self.stable_contents))[self.retained_from :]
        found = self._durable(needed[0], needed[-1]) if needed else []
        for sequence in {*needed} - self.lost:
            content = self.stable_contents[sequence]
            left = store_disks.holders(found, sequence, content) - {*stores}
            self.require(
                in_force.stable(left),
                "I1",
                f"{sequence} is stable, and without {sorted(stores)} only {sorted(left)} have it",
            )
        self._setups = {each: None for one in (in_force, *to_come) for each in one.variants()}
        return True

    def switched_off(self, store: str) -> None:
        """It is never heard of again."""
        for known in (self.stores, self.failed, self._let_go, self._promised, self._destroyed):
            known.pop(store, None)
        self.receivers.forgotten(store)
        self.endings.raised(store)

    def require(self, holds: bool, rule: str, text: str) -> None:
        if not holds:
            raise Violation(rule, text)

    # Stores.

    def lets_go(self, store: StoreOf, upto: int) -> None:
        """The store lets everything up to there go, which it knows to be stable."""
        self.check_store(store)
        held = self.on_disk(store, store.disk.synced, 0, upto)
        self._let_go.setdefault(store.name, {}).update(held)
        self._life.retained_from = max(self._life.retained_from, upto + 1)

    def started(self, store: StoreOf) -> None:
        self.stores[store.label] = store
        self._receiver_rows.pop(store.label, None)
        end = store.disk.synced.get(Table.META, [self._gone_key])[0]
        if end is None:
            self.endings.raised(store.label)
        else:
            self.endings.found(store.label, unpack_end_record(end).registration)

    def written(self, store: str, writes: Sequence[Write]) -> None:
        """A commit is written: no number of an epoch may ever have two contents."""
        self._written.commit(store, writes)

    def submitted(self, store: str, writes: Sequence[Write]) -> None:
        """A change is on its way to the disk: who is deleted with it is over, as somebody said, or
        was not heard for long."""
        # Who takes a stream over, in place of one that had ended or to leave limbo, takes over who
        # its receivers are; and with a source that never began go those that it had. In any other
        # change nothing is said of what is held.
        is_forgotten = any(write.table is Table.HELD for write in writes)
        if any(write.table is Table.SET_ASIDE for write in writes):
            self.check_store(self.stores[store])
        ended = self.endings.receivers_ended(store, writes)
        self.receivers.over(store, ended)
        for write in writes:
            if write.table is Table.META and write.key == self._gone_key:
                self._end(store, write.value)
                return
            if write.value is None and write.table is Table.REGISTRATIONS:
                # It never began, and takes its promise back.
                self._promised.pop(store, None)
                self._forget_decisions()
                self.receivers.forgotten(store)
                is_forgotten = True
            elif write.value is not None and write.table is Table.RECEIVERS:
                self._receiver_rows.setdefault(store, {})[write.key] = write.value
            elif write.table is Table.RECEIVERS:
                _, session_id = receiver_of(write.key)
                self.receivers.forgotten(store, session_id)
                epoch = self._receiver_epoch(store, write.key)
                if not is_forgotten and epoch > ended.get(session_id, 0):
                    self.endings.receiver_expired(store, session_id)

    def _forget_decisions(self) -> None:
        """Where nobody has promised anything any more, what was decided and never began can not
        begin: epochs are counted anew."""
        if not self._promised:
            for decision in [each for each in self._decisions if each[0] not in self._begun]:
                del self._decisions[decision]

    def _receiver_epoch(self, store: str, key: bytes) -> int:
        """In which epoch the store has a receiver that it deletes."""
        row = self._receiver_rows.get(store, {}).pop(key, None)
        row = row or self.stores[store].disk.synced.get(Table.RECEIVERS, [key])[0]
        assert row is not None, f"{store} deletes a receiver that it does not have"
        return unpack_receiver(row).epoch

    def expires(self, store: str, epoch: int) -> None:
        """A store wants the source to end in this epoch, as its state lifetime is over."""
        self.endings.expires(store, epoch, self._in_force)

    def _end(self, store: str, value: bytes | None) -> None:
        if value is None:
            self.endings.raised(store)
            return
        known, promised = unpack_end_record(value).registration, self._promised.get(store, 0)
        self.require(
            known.promised_epoch >= promised,
            "I5",
            f"{store} remembers {known.promised_epoch}, and promised {promised}",
        )
        if not known.begun.ended:
            return
        rules = [Setup.of(policy) for policy in known.begun.policies]
        if self.endings.ended(store, known, rules, honest=not self._destroyed):
            self.check_store(self.stores[store])
            self.receivers.forgotten(store)
            if not all(each.alive for each in self.stores.values()):
                self._world.reach("ended while a store was away", store)

    def synced(self, store: str, writes: Sequence[Write]) -> None:
        """A commit is durable: what it serves is compared in time with what is stable."""
        for write in writes:
            if write.table is Table.INDEX and write.value is not None:
                entry = unpack_index(write.key, write.value)
                self._unchecked.setdefault(store, []).append(Range(entry.first, entry.last))
                self._life.had.add(store)
            if write.key == self._gone_key and write.value is not None:
                known = unpack_end_record(write.value).registration
                if known.begun.ended:
                    self.endings.ended_for_good(store, known.begun.epoch)

    def same(self, epoch: int, sequence: int, payload: bytes, where: str) -> None:
        """Somebody has this under that number."""
        self._written.same(epoch, sequence, payload, where)

    def promised(self, store: str, epoch: int) -> None:
        """The store has answered that it promised."""
        self._promised[store] = max(epoch, self._promised.get(store, 0))

    def changes(self, store: str, epoch: int, what: str) -> None:
        """The store lets itself be changed by a source of that epoch."""
        promised = self._promised.get(store, 0)
        self.require(
            epoch >= promised, "I5", f"{store} {what} of epoch {epoch} after promising {promised}"
        )

    def begun(self, store: str, epoch: int) -> None:
        """The store has answered that it began."""
        self._begun.setdefault(epoch, set()).add(store)

    def conflict(self, error: ContentConflict) -> None:
        if self._honest:
            raise Violation("I2", f"ContentConflict in an honest world: {error}")
        self._world.reach("content conflict refused", "%s", error)

    def compared(self, store: str, peer: str, divergent: RangeSet) -> None:
        """A store has compared what is stable with what a peer has."""
        self.require(
            not (divergent and self._honest),
            "I2",
            f"{store} and {peer} say that they hold other content for {list(divergent)}",
        )

    # The source.

    def opened(self, instance: int, setup: Setup) -> None:
        self._stable_of[instance] = -1
        self._setups[setup] = None

    def fenced(self, instance: int) -> None:
        """An instance is told, for good, that another one has its identity."""
        self._fenced.add(instance)

    def _goes_on(self, instance: int, what: str) -> None:
        self.require(instance not in self._fenced, "I5", f"source{instance} is fenced, and {what}")

    def accepted(self, instance: int, sequence: int, payload: bytes) -> None:
        self._goes_on(instance, f"accepts {sequence}")
        known = self._accepted.setdefault((instance, sequence), payload)
        self.require(known == payload, "I2", f"{sequence} was given to two messages: {payload!r}")

    def released(
        self,
        instance: int,
        epoch: int,
        first: int,
        payloads: Sequence[bytes],
        *,
        remembered: bool,
    ) -> None:
        """A batch goes to the wire: under the numbers that the application was told."""
        self._goes_on(instance, f"sends {first}")
        sender = self._senders.setdefault(epoch, instance)
        self.require(sender == instance, "I5", f"{sender} and {instance} send in epoch {epoch}")
        for sequence, payload in enumerate(payloads, first):
            self.require(
                self._accepted.get((instance, sequence)) == payload,
                "I2",
                f"{payload!r} goes out as {sequence}, its sender was told another number",
            )
            self._released[instance, sequence] = payload
            self._sent_by[sequence, payload] = instance
            if remembered:
                self._remember(sequence, payload)

    def sends_again(self, instance: int, batches: Iterable[bytes]) -> None:
        """A source that has decided has these in its publish store, which nobody else opens: from
        now on it sends that itself, also where the stream has begun anew."""
        for batch in batches:
            header = check_batch(batch)
            for sequence, payload in enumerate(contents_of(batch, header), header.first):
                self._sent_by[sequence, payload] = instance
                self._remember(sequence, payload)

    def _remember(self, sequence: int, payload: bytes) -> None:
        """A publish store has it: it is to be stable in the end, under that number."""
        known = self._remembered.setdefault(sequence, payload)
        self.require(known == payload, "I2", f"{sequence} was {known!r}, and is now {payload!r}")

    def loaded(self, instance: int, epoch: int, first: int, last: int) -> None:
        """A source has taken what it keeps from the stores: from now on it sends that itself."""
        for sequence in range(first, last + 1):
            if (content := self._written.get(epoch, sequence)) is not None:
                self._sent_by[sequence, content] = instance

    def decided(self, epoch: int, lineage: Lineage, who: str, setups: Sequence[Setup]) -> None:
        """A source has decided; its epoch is in force from the end of that lineage on."""
        first = lineage.terms[-1].first
        newest = max((each for each, _ in self._newest.values()), default=0)
        if epoch > newest:
            self._newest.clear()
        if epoch >= newest:
            self._newest[who] = epoch, lineage
        self._setups.update(dict.fromkeys(setups))
        # Not by who was frozen and decides in a lower epoch than something is stable in.
        if first == 0 and 0 < self._life.newest < epoch and self.is_over():
            self._begin_life(epoch, who)
        for end in self.endings.complete:
            self.require(
                not lineage.terms[0].epoch < end < epoch,
                "I1",
                f"epoch {epoch} of {who} goes on with what ended in epoch {end}",
            )
        self._named, self._in_force = setups, setups[-1:]
        # Nor is one of before it began a part of the present stream.
        life = self._life if epoch >= self._life.begins_in else self._former
        self._life_of[epoch] = self._follows[who] = life
        if len(setups) > 1:
            self._world.reach("membership change under way", "%s", setups)
        self._world.note("%s decided: epoch %s from %s on", who, epoch, first)
        if any(epoch == other for other, _ in self._decisions):
            self._world.reach("one epoch decided by two", "%s", epoch)
        self._decisions[epoch, who] = first
        self._decided_under[epoch, who] = setups
        for older, upto in self._life.stable_in.items():
            self.require(
                older > epoch or upto < first or life is not self._life,
                "I1",
                f"{upto} was stable in epoch {older}, and epoch {epoch} of {who} begins at {first}",
            )

    def deregisters(self, epoch: int) -> None:
        """The owner of this epoch wants all stores to forget the source."""
        self.endings.deregisters(epoch, self._promised, self._named)

    def is_over(self) -> bool:
        """Whether the present stream has ended by rule, and nobody went on with it since."""
        return self.endings.is_over(self._life, self._begun, self._setups)

    def tells_end(self, store: str, life: Life) -> bool:
        """Whether the store deleted that stream, or knows that it was ended."""
        known = self.stores.get(store)
        state = known.core.known(self.source) if known is not None else None
        return self.endings.tells_end(store, state, life)

    def is_gone(self) -> bool:
        """Whether it is over, and no store takes part in it: where anybody is says nothing."""
        return self.is_over() and not any(map(self._has_begun, self.stores.values()))

    def _has_begun(self, store: StoreOf) -> bool:
        return store_disks.begun_registration(store, self.source, self._life.begins_in) != b""

    def _begin_life(self, epoch: int, who: str) -> None:
        self._world.reach("stream begun anew, after it ended", "%s by %s", epoch, who)
        if self.failed:
            self._world.reach("stream begun anew while a store was failed", who)
        self._former, self._life = self._life, Life(self._life.number + 1, epoch)
        self._let_go.clear()
        self._unchecked.clear()
        self._remembered.clear()
        for had in self.failed.values():
            had.clear()

    def forgets(self) -> None:
        """The application throws its publish store away, as the stream is over."""
        self._remembered.clear()

    def found_stable(
        self, setups: Sequence[Setup], epoch: int, upto: int, active: Collection[str]
    ) -> None:
        """Somebody finds that everything up to here is stable.

        setups: those in force, all of which must agree. active: stores that take the stream.
        """
        if self.life_of(epoch) is not self._life:
            self._world.reach("stable in a stream that is over", "%s %s", epoch, upto)
            return
        for (newer, _), first in self._decisions.items():
            self.require(
                newer <= epoch or newer < self._life.begins_in or upto < first,
                "I1",
                f"{upto} is stable in epoch {epoch}, but epoch {newer} begins at {first}",
            )
        first = len(self.stable_contents)
        found = self._durable(first, upto) if upto >= first else []
        for sequence in range(first, upto + 1):
            holders: dict[bytes, set[str]] = {}
            for store, contents in found:
                if sequence in contents:
                    holders.setdefault(contents[sequence], set()).add(store)
            stable = [
                one
                for one, stores in holders.items()
                if all(setup.stable(stores, active) for setup in setups)
            ]
            self.require(
                len(stable) == 1,
                "I1",
                f"{sequence} is reported stable by {setups}, but is durable only on {holders}; "
                f"active: {sorted(active)}",
            )
            self._check_not_fenced(sequence, stable[0])
            self.stable_contents[sequence] = stable[0]
            self._life.newest = max(epoch, self._life.newest)
        self._life.stable_in[epoch] = max(upto, self._life.stable_in.get(epoch, -1))

    def _check_not_fenced(self, sequence: int, content: bytes) -> None:
        """Nothing is stable that a source sent which another one has replaced without keeping it.

        Replaced: enough stores have begun a later epoch to know of it for ever.
        """
        sender = self._sent_by.get((sequence, content))
        if sender is None:
            return
        mine = f"source{sender}"
        newest = max((epoch for epoch, who in self._decisions if who == mine), default=0)
        deciders = Counter(epoch for epoch, _ in self._decisions)
        for (epoch, who), first in self._decisions.items():
            if deciders[epoch] > 1:
                continue  # the stores that began it did so for one or the other
            if epoch > newest and first <= sequence and epoch >= self._life.begins_in:
                begun, setups = self._begun.get(epoch, set()), self._decided_under[epoch, who]
                self.require(
                    not all(setup.stable(begun) for setup in setups),
                    "I5",
                    f"{sequence} of {mine} is stable, though epoch {epoch} of {who} is from "
                    f"{first} on",
                )

    def stable(
        self,
        instance: int,
        setups: Sequence[Setup],
        epoch: int,
        upto: int,
        active: Collection[str],
    ) -> None:
        """An application is told that everything up to here is stable.

        What an earlier instance was told is stable may be so by the rules that were its own.
        """
        if self._follows.get(f"source{instance}", self._life) is not self._life:
            self._world.reach("stable in a stream that is over", "%s %s", epoch, upto)
            return
        self.found_stable(setups, epoch, upto, active)
        for sequence in range(self._stable_of[instance] + 1, upto + 1):
            mine = self._released.get((instance, sequence), self.stable_contents[sequence])
            self.require(
                mine == self.stable_contents[sequence],
                "I1",
                f"{sequence} was sent as {mine!r}, is stable as {self.stable_contents[sequence]!r}",
            )
        self._stable_of[instance] = upto

    def life_of(self, epoch: int) -> Life:
        """The stream that an epoch belongs to; the present one if nobody decided that epoch."""
        return self._life_of.get(epoch, self._life)

    def _durable(self, first: int, last: int) -> list[tuple[str, dict[int, bytes]]]:
        """What each store's disk is sure to have after a crash at this moment; or had, if it is
        failed: that is what the rules tolerate. One that runs twice is there twice."""
        found = {
            label: self.on_disk(store, store.disk.synced, first, last)
            for label, store in self.stores.items()
        }
        for name, had in (*self.failed.items(), *self._let_go.items()):
            has = found[name]
            for sequence in range(first, last + 1):
                if sequence in had:
                    known = had[sequence]
                    has[sequence] = self._written.newer(sequence, has.get(sequence, known), known)
        return [(self.stores[label].name, contents) for label, contents in found.items()]

    def may_be_stable(self, life: Life, sequence: int, content: bytes) -> bool:
        """Whether enough stores have this content, by any rule; of a stream that is over nobody
        can tell."""
        holders = store_disks.holders(self._durable(sequence, sequence), sequence, content)
        return life is not self._life or any(setup.stable(holders) for setup in self._setups)

    def on_disk(self, store: StoreOf, rows: MemoryRows, first: int, last: int) -> dict[int, bytes]:
        """Return the payloads of these numbers that the rows of a store have, by number."""
        state = store.core.stream_of(self.source)
        contents: dict[int, bytes] = {}
        if state is None or 0 < state.registration.begun.epoch < self._life.begins_in:
            return contents
        for batch in store_disks.batches(rows, state.reg_id, self.source, first, last):
            if batch.problem:
                self.unreadable(store.name, batch.part, batch.problem)
            else:
                contents.update(self._written.read(batch))
        return contents

    def check_stores(self) -> None:
        """What all stores hold is as it must be."""
        for store in self.stores.values():
            self.check_store(store)

    def check_store(self, store: StoreOf) -> None:
        """It may not hold other content under a number that was reported stable.

        A store that was away may, from where its lineage is not that of the newest decision: the
        next begin will void it there.
        """
        unchecked = self._unchecked.get(store.label)
        state, rows = store.core.stream_of(self.source), store.disk.synced
        row = rows.get(Table.REGISTRATIONS, [reg_id_key(state.reg_id)])[0] if state else None
        if not unchecked or row is None:
            return
        lineage = unpack_registration(row).begun.lineage
        parts = [diverges_at(lineage, newest) for _, newest in self._newest.values()]
        upto = min((len(self.stable_contents), *parts)) - 1
        for item in RangeSet(item for item in unchecked if item.first <= upto):
            last = min(item.last, upto)
            for sequence, payload in self.on_disk(store, rows, item.first, last).items():
                self.require(
                    payload == self.stable_contents[sequence],
                    "I2",
                    f"{store.name} holds {payload!r} under {sequence}, which is stable as "
                    f"{self.stable_contents[sequence]!r}",
                )
        self._unchecked[store.label] = [item for item in unchecked if item.last > upto]

    def receiver_is_over(self, name: str) -> bool:
        """Whether it was deregistered, and what it had acknowledged says nothing any more."""
        return self.endings.receiver_is_over(name, self._setups) and not self.beyond

    def registered_at(self, session_id: int, epoch: int) -> set[str]:
        """The stores on whose disks the receiver is registered in this epoch."""
        return store_disks.registered_at(self.stores.values(), self.source, session_id, epoch)

    # The end.

    def unfinished(
        self, setup: Setup, last: int, accepted: Mapping[int, bytes] | None = None
    ) -> str:
        """What is still missing of everything up to last; empty once nothing is."""
        upto = len(self.stable_contents) - 1
        if upto < last:
            return f"{last} is not stable yet; that is so up to {upto}"
        for name in setup.stores:
            state = self.stores[name].core.sources.get(self.source)
            losses = state.losses if state is not None else ()
            lost = {n for part in losses for n in range(part.first, part.last + 1)}
            self.require(lost <= self.lost, "I1", f"{name} takes {losses} for lost")
            if lags := store_disks.lags(name, state, upto):
                return lags
        if waits := self.receivers.unfinished(upto):
            return waits
        for sequence, payload in (accepted or {}).items():
            if self.stable_contents.get(sequence) != payload:
                return f"{payload!r} is not stable under {sequence}"
        for name in setup.stores:
            store = self.stores[name]
            held = self.on_disk(store, store.disk.synced, 0, upto)
            state = store.core.sources.get(self.source)
            if state is None or not state.takes_data:
                continue
            begins = state.held.retained_from
            needed = set(range(begins, upto + 1)) - self.lost
            missing = sorted(needed - held.keys())
            if missing:
                return f"{name} lacks {missing[:10]} of {upto}"
        return ""

    def check_end(self) -> None:
        """Everything is done: now it can be said what was right."""
        if not self._honest:
            return
        self.check_stores()
        for sequence, payload in self._remembered.items():
            self.require(
                self.stable_contents.get(sequence) == payload,
                "I1",
                f"{payload!r} was in the publish store as {sequence} and is not stable so",
            )
        self.receivers.check_end()
        for stores in self._begun.values():
            if not any(setup.stable(stores) for setup in self._setups):
                self._world.reach("epoch begun by a minority")

    def accepted_by(self, instance: int) -> dict[int, bytes]:
        """What an instance accepted, by the numbers that its application was told."""
        return {n: payload for (who, n), payload in self._accepted.items() if who == instance}
