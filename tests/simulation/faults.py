"""The faults of a simulated world, one method a kind; which of them happen is the weather's.

Whatever destroys data asks the checker first whether the policy tolerates it. Nothing here checks
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests.simulation.checker import Checker
from tests.simulation.disk import CachedDisk, Snapshot
from tests.simulation.endings import AGES
from tests.simulation.network import Network
from tests.simulation.operator import Operator
from tests.simulation.receiver_application import ReceiverApplication
from tests.simulation.source_actor import SourceInstance
from tests.simulation.source_application import SourceApplication
from tests.simulation.store_actor import StoreActor
from tests.simulation.successions import Succession
from tests.simulation.weather import Weather
from tests.simulation.world import World

from quorate.store.storage.interface import Table

_YEARS_SECONDS = 3e8
RESTED_SECONDS = 40.0
"""How long is long where everything is kept for ever."""


class Faults:
    """Makes things go wrong until it is stopped."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        weather: Weather,
        stores: list[StoreActor],
        source: SourceApplication,
        receivers: list[ReceiverApplication],
        operator: Operator,
    ) -> None:
        self._world = world
        self._network = network
        self._checker = checker
        self._chooser = world.chooser
        self._stores = stores
        self._source = source
        self._receivers = receivers
        self._operator = operator
        self._pause = weather.pause_between_faults
        self._state_only = weather.state_only
        self._setups = weather.setups
        kept_for = weather.mortality.sources.kept_for or weather.mortality.receivers.kept_for
        self._kept_for_seconds = (kept_for or RESTED_SECONDS) / AGES
        self._kinds: list[Callable[[], None]] = [getattr(self, kind) for kind in weather.kinds]
        self._copies: dict[str, Snapshot] = {}
        self._zombies: list[SourceInstance] = []
        self.hung: StoreActor | None = None
        """The store that hangs now, or did last; once the faults have stopped: that hangs still."""
        self.lagging: StoreActor | None = None
        """The store that lags again and again."""
        self._succession: Succession | None = None
        self._stopped = False
        network.failure_rate = weather.failure_rate
        network.duplicate_rate = weather.duplicate_rate
        network.slow_rate = weather.slow_rate
        if self._kinds:
            world.later(self._chooser.uniform(0.0, 0.5), self._next)

    def stop(self) -> None:
        """Nothing goes wrong any more: everyone runs, and reaches everyone. But a store
        that hangs does so until it is woken, if the others are enough."""
        self._stopped = True
        if self.hung is not None and not self._hangs_alone(self.hung):
            self.hung = None
        network = self._network
        network.heal()
        network.failure_rate = network.duplicate_rate = network.slow_rate = 0.0
        for zombie in self._zombies:
            zombie.kill()
        for store in self._stores:
            store.disk.sync_seconds_max = 0.002
            store.disk.fails_next_sync = False
            if store is not self.hung:
                store.process.wake()
            store.start_if_down()
        self._source.wake()
        for receiver in self._receivers:
            receiver.wake()

    def _next(self) -> None:
        if not self._stopped:
            self._chooser.choice(self._kinds)()
            self._world.later(self._chooser.expovariate(1 / self._pause), self._next)

    # Stores.

    def crash_store(self) -> None:
        store = self._chooser.choice(self._stores)
        if store.alive:
            self._world.fault("store crash", store.name)
            store.crash()
            self._restart(store)

    def crash_stores(self) -> None:
        for store in self._stores:
            if store.alive:
                self._world.fault("store crash, all at once", store.name)
                store.crash()
                self._restart(store)

    def _restart(self, store: StoreActor) -> None:
        self._world.later(self._chooser.choice((0.01, 0.1, 0.4, 1.5)), store.start_if_down)

    def reconfigure_store(self) -> None:
        """A store starts again as one that takes no messages, or as one that does again."""
        chosen = [store for store in self._stores if store.name in self._state_only]
        if chosen and (store := self._chooser.choice(chosen)).alive:
            state = store.core.sources.get(self._checker.source)
            if state is not None and state.held.ranges and state.takes_data:
                self._world.reach("no more messages though it has some", store.name)
            self._world.fault("store configured otherwise", store.name)
            store.crash()
            store.state_only = not store.state_only
            self._restart(store)

    def fail_sync(self) -> None:
        store = self._chooser.choice(self._stores)
        if store.alive and not store.disk.fails_next_sync:
            self._world.fault("sync failure", store.name)
            store.disk.fails_next_sync = True
            self._world.later(self._chooser.uniform(0.2, 1.5), store.start_if_down)

    def slow_disk(self) -> None:
        store = self._chooser.choice(self._stores)
        self._world.fault("slow disk", store.name)
        store.disk.sync_seconds_max = self._chooser.choice((0.002, 0.05, 0.3, 0.8))

    def pause_store(self) -> None:
        store = self._chooser.choice(self._stores)
        if store.alive and not store.process.paused:
            self._world.fault("store pause", store.name)
            store.process.pause()
            self._world.later(self._chooser.choice((0.1, 0.4, 1.5)), store.process.wake)

    def lag_store(self) -> None:
        """One store, always the same, falls behind again, and is back again."""
        chooser = self._chooser
        if self.lagging is None:
            self.lagging = chooser.choice(self._stores)
        if (store := self.lagging) not in self._stores or not store.alive:
            return
        how = chooser.choice(("cut off", "slow", "frozen"))
        seconds = chooser.choice((0.3, 0.8, 1.5))
        self._world.fault("store lags", "%s is %s for %s s", store.name, how, seconds)
        if how == "cut off":
            self._cut([store.name], seconds)
        elif how == "frozen":
            store.process.pause()
            self._world.later(seconds, store.process.wake)
        else:
            store.disk.sync_seconds_max = seconds
            self._world.later(seconds, partial(setattr, store.disk, "sync_seconds_max", 0.002))

    def hang_store(self) -> None:
        """A store takes calls and answers none from now on, if the others are enough."""
        store = self._chooser.choice(self._stores)
        if self.hung is not None and self.hung.process.paused:
            return
        # To found a group takes all stores, for good reason.
        is_founded = not any(each.core.standing.limbo for each in self._stores)
        if not is_founded or not store.alive or store.process.paused:
            return
        if self._goes_on_without(store):
            self._world.fault("store hangs", store.name)
            store.process.pause()
            self.hung = store

    def _hangs_alone(self, store: StoreActor) -> bool:
        """Whether it hangs still, and the others are enough also now."""
        return store.process.paused and self._goes_on_without(store)

    def _goes_on_without(self, store: StoreActor) -> bool:
        """Whether the others recover everything, and make stable what comes; where all of a group
        are asked for, those of it that are left may do the former alone."""
        others = {each.name for each in self._stores} - {store.name}
        variants = (variant for setup in self._setups for variant in setup.variants())
        return self._checker.tolerates(store.name) and all(
            variant.stable(others, active=others) for variant in variants
        )

    def jump_clock(self) -> None:
        """Somebody takes it to be another time of day, by seconds, an hour, or years."""
        chooser = self._chooser
        whose: tuple[StoreActor | SourceInstance, ...] = (*self._stores, self._source.current)
        chosen = chooser.choice(whose)
        seconds = chooser.choice((-1, 1)) * chooser.choice((2.0, 3600.0, _YEARS_SECONDS))
        ways = "forward" if seconds > 0 else "back"
        self._world.fault(f"clock jumped {ways}", "%s, by %s s", chosen.process.name, seconds)
        chosen.clock.jump(seconds)
        if isinstance(chosen, StoreActor) and chosen.alive and chooser.random() < 0.5:
            # A store looks at that clock when it starts.
            chosen.crash()
            self._restart(chosen)

    def crash_for_long(self) -> None:
        """A store is down for about as long as state is kept: the others may delete it, or hear
        that it is to be deleted, meanwhile."""
        store = self._chooser.choice(self._stores)
        if store.alive:
            seconds = self._chooser.uniform(0.4, 1.8) * self._kept_for_seconds
            self._world.fault("store down for long", "%s, %s s", store.name, seconds)
            store.crash()
            self._world.later(seconds, store.start_if_down)

    # Data is destroyed.

    def _destroyable(self) -> StoreActor | None:
        """A store whose data may go without more than the rules tolerate."""
        chosen = self._chooser.choice(self._stores)
        return chosen if self._checker.tolerates(chosen.name) else None

    def wipe_store(self) -> None:
        """A store comes back blank, under its name."""
        if (store := self._destroyable()) is None:
            return
        self._world.fault("store wiped", store.name)
        self._wipe(store)
        self._restart(store)

    def _wipe(self, store: StoreActor) -> None:
        self._destroys(store)
        store.wipe()
        if store.name in self._state_only and self._chooser.random() < 0.5:
            store.state_only = not store.state_only

    def _destroys(self, store: StoreActor) -> None:
        self._checker.destroys(store.name)
        for other in self._stores:
            other.forgotten_by(store.name)

    def _fail_in_need(self, destroy: Callable[[StoreActor], None], seconds: float) -> None:
        """One store lags, another loses its data, the others are away, and then the source dies:
        whoever registers next hears of the two alone.

        seconds: from the loss to the source's end.
        """
        source = self._source.current
        if source.over or source.process.paused or len(self._stores) < 3:
            return
        needed, behind, *others = self._chooser.sample(self._stores, len(self._stores))
        self._cut([behind.name], 0.35 + seconds)

        def strike() -> None:
            if self._stopped or not self._checker.tolerates(needed.name) or not needed.alive:
                return
            self._world.fault("store fails in need", "%s, %s is behind", needed.name, behind.name)
            for other in others:
                self._cut([other.name], 1.2 + seconds)
            destroy(needed)
            self._world.later(seconds, source.kill)

        self._world.later(0.3, strike)

    def wipe_in_need(self) -> None:
        def wipe(store: StoreActor) -> None:
            self._wipe(store)
            self._world.later(0.01, store.start_if_down)

        self._fail_in_need(wipe, 0.02)

    def flip_in_need(self) -> None:
        def flip(store: StoreActor) -> None:
            rows = store.disk.synced.scan(Table.JOURNAL, b"", b"\xff" * 8, 10_000)
            if rows:
                self._destroys(store)
                store.disk.flip(rows[-1][0], 8 * len(rows[-1][1]) - 1)

        self._fail_in_need(flip, 0.5)

    def reboot_in_need(self) -> None:
        def reboot(store: StoreActor) -> None:
            if self._reboot(store):
                self._world.later(0.01, store.start_if_down)

        self._fail_in_need(reboot, 0.02)

    def put_back_in_need(self) -> None:
        def put_back(store: StoreActor) -> None:
            if self._put_back(store):
                self._world.later(0.01, store.start_if_down)

        self._fail_in_need(put_back, 0.02)

    def wipe_stores(self) -> None:
        """Several come back blank at once, perhaps more than the rules tolerate."""
        chosen = self._chooser.sample(self._stores, self._chooser.randint(1, len(self._stores)))
        for store in chosen:
            left = [each for each in self._stores if each.name not in self._checker.failed]
            if not any(other.has_begun for other in left if other is not store):
                return  # nobody could know that there was anything
            if not self._checker.tolerates(store.name):
                if self._source.runs_an_old_configuration:
                    return
                self._checker.beyond = True
            self._world.fault("stores wiped at once", store.name)
            self._wipe(store)
            self._restart(store)

    def copy_disk(self) -> None:
        """A backup of a store's disk is made."""
        store = self._chooser.choice(self._stores)
        self._world.fault("disk copied", store.name)
        self._copies[store.name] = store.disk.snapshot()

    def put_back(self) -> None:
        """A store starts again with a copy of what its disk once was.

        Only if a peer remembers more starts or more commits: no other copy is promised to be
        detected. Nor do two processes run on copies of one disk.
        """
        if (store := self._destroyable()) is not None and self._put_back(store):
            self._restart(store)

    def _put_back(self, store: StoreActor) -> bool:
        if (copy := self._copies.get(store.name)) is None:
            return False
        if witnesses := self._witnesses(store, copy):
            self._world.fault("disk put back", store.name)
            self._destroys(store)
            store.put_back(copy, witnesses)
        return bool(witnesses)

    def _witnesses(self, store: StoreActor, copy: Snapshot) -> list[str]:
        """Who can tell that it is a copy: what nobody has seen since can not be told from what it
        was."""
        return [
            other.name
            for other in self._stores
            if other is not store
            and other.name not in self._checker.failed
            and other.remembers_more(store, copy)
        ]

    def reboot_host(self) -> None:
        """A host goes down; what its store had only in the page cache may be gone."""
        if (store := self._destroyable()) is not None and self._reboot(store):
            self._restart(store)

    def _reboot(self, store: StoreActor) -> bool:
        disk = store.disk
        if not isinstance(disk, CachedDisk):
            return False
        self._world.fault("host rebooted, page cache lost", store.name)
        self._destroys(store)
        if store.alive:
            store.crash()
        disk.reboot()
        return True

    def flip_bit(self) -> None:
        """A bit of a batch in some journal turns."""
        if (store := self._destroyable()) is None:
            return
        rows = store.disk.synced.scan(Table.JOURNAL, b"", b"\xff" * 8, 10_000)
        if rows:
            key, value = self._chooser.choice(rows)
            self._world.fault("bit flipped", store.name)
            self._destroys(store)
            store.disk.flip(key, self._chooser.randrange(8 * len(value)))

    def lose_batch(self) -> None:
        """Every copy of a batch turns that is stable: an operator will have to accept that."""
        checker = self._checker
        if checker.failed or checker.beyond or not checker.stable_contents:
            return
        sequence = self._chooser.randrange(len(checker.stable_contents))
        copies = [
            (store, key)
            for store in self._stores
            for key in store.journal_keys(checker.source, sequence)
        ]
        for store, key in copies:
            self._world.fault("every copy of a batch turned", "%s %s", store.name, sequence)
            self._destroys(store)
            value = store.disk.synced.get(Table.JOURNAL, [key])[0]
            store.disk.flip(key, 8 * len(value or b"") - 2)

    # The stream has left a store.

    def retire_stores(self) -> None:
        """The stream has moved, as the disks say: stores that it left go, or are used anew. Nobody
        runs an old configuration any more, and nobody has them for peers."""
        source, checker = self._source, self._checker
        to_come = {name for setup in source.to_come for name in setup.everyone}
        retired = [store for store in self._stores if store.name not in to_come]
        under_way = self._succession is not None and not self._succession.over
        if not retired or under_way or source.runs_an_old_configuration or checker.beyond:
            return
        if not checker.retires({store.name for store in retired}, source.to_come):
            return
        source.settles()
        for store in retired:
            self._world.fault("retired stores switched off", store.name)
            self.hung = None if store is self.hung else self.hung
            self.lagging = None if store is self.lagging else self.lagging
            if self._chooser.random() < 0.3:
                self._wipe(store)
                self._restart(store)
            else:
                self._switch_off(store)

    def _switch_off(self, gone: StoreActor) -> None:
        self._destroys(gone)
        gone.go()
        self._checker.switched_off(gone.name)
        self._stores.remove(gone)
        self._copies.pop(gone.name, None)
        for store in self._stores:
            # It is configured so from its next start on.
            store.peers -= {gone.name}
            self._world.later(self._chooser.uniform(0.0, 1.5), partial(self._start_again, store))

    def _start_again(self, store: StoreActor) -> None:
        if store.alive and store in self._stores:
            store.crash()
            self._restart(store)

    # The network.

    def _everyone(self) -> list[str]:
        return [
            *(store.name for store in self._stores),
            *(instance.process.name for instance in self._source.instances[-2:]),
            *(receiver.name for receiver in self._receivers),
        ]

    def partition(self) -> None:
        names, chooser = self._everyone(), self._chooser
        alone = chooser.sample(names, chooser.randint(1, len(names) - 1))
        self._world.fault("partition", "%s alone", alone)
        self._cut(alone, chooser.choice((0.1, 0.4, 1.5)))

    def _cut(self, alone: Sequence[str], seconds: float) -> None:
        """Part these from all others for so long."""
        others = [name for name in self._everyone() if name not in alone]
        pairs = [(one, other) for one in alone for other in others]
        free = self._network.block([*pairs, *((other, one) for one, other in pairs)])
        self._world.later(seconds, free)

    def part_for_long(self) -> None:
        """A store is cut off for about as long as state is kept, from all or only from some."""
        store, chooser = self._chooser.choice(self._stores).name, self._chooser
        others = [name for name in self._everyone() if name != store]
        if chooser.random() < 0.5:
            others = chooser.sample(others, chooser.randint(1, len(others)))
        self._world.fault("store cut off for long", "%s from %s", store, others)
        ways = [*((store, other) for other in others), *((other, store) for other in others)]
        free = self._network.block(ways)
        self._world.later(chooser.uniform(0.4, 1.8) * self._kept_for_seconds, free)

    def leave_behind(self) -> None:
        """One store misses so much that the source no longer has it when the store is back."""
        left = self._chooser.choice(self._stores).name
        self._world.fault("store left behind", left)
        self._cut([left], self._chooser.choice((0.7, 1.2)))

    def cut_one_way(self) -> None:
        sender, recipient = self._chooser.sample(self._everyone(), 2)
        self._world.fault("one-way partition", "from %s to %s", sender, recipient)
        free = self._network.block([(sender, recipient)])
        self._world.later(self._chooser.choice((0.2, 1.0, 2.5)), free)

    def reset_connections(self) -> None:
        name = self._chooser.choice(self._everyone())
        self._world.fault("connections reset", name)
        self._network.reset(name)

    # The source.

    def crash_source(self) -> None:
        source = self._source.current
        if source.process.alive:
            self._world.fault("source crash", source.process.name)
            source.kill()

    def strand_source(self) -> None:
        """The source reaches one store at most, but its receivers, and dies with that store."""
        source = self._source.current
        if not source.over and not source.process.paused:
            last = self._chooser.choice((None, *self._stores))
            self._strand(source, self._chooser.choice((0.05, 0.2, 0.5)), last)

    def rotate(self) -> None:
        """One store is away for a while, and the source ends with another one alone, in the midst
        of sending or just as it has decided. So tails and begins of minorities pile up."""
        source = self._source.current
        if source.over or source.process.paused or len(self._stores) < 2:
            return
        away, last = self._chooser.sample(self._stores, 2)
        self._world.fault("stores in rotation", "%s away, %s last", away.name, last.name)
        self._cut([away.name], 0.8)
        if self._chooser.random() < 0.4:
            self._strand(source, self._chooser.choice((0.05, 0.2)), last, crash=False)
            return

        def strand() -> None:
            source.on_decided = None
            if not self._stopped:
                self._strand(source, self._chooser.choice((0.01, 0.03, 0.1)), last, crash=False)

        source.on_decided = strand

    def strand_at_begin(self) -> None:
        """The same, as soon as the source has decided next: a minority begins its epoch."""
        source = self._source.current
        if source.over or source.process.paused:
            return

        def strand() -> None:
            source.on_decided = None
            if not self._stopped:
                last = self._chooser.choice((None, *self._stores))
                self._strand(source, self._chooser.choice((0.02, 0.05, 0.2)), last)

        source.on_decided = strand

    def succeed(self) -> None:
        """Sources follow each other, each without a store that the one before it ended with."""
        source = self._source.current
        if source.over or source.process.paused or len(self._stores) < 3:
            return
        if self._succession is not None and not self._succession.over:
            return  # one at a time: two would only cut each other short

        def wipe(store: StoreActor) -> None:
            if not self._stopped and self._checker.tolerates(store.name):
                self._world.fault("store wiped", store.name)
                self._wipe(store)
                self._world.later(0.01, store.start_if_down)

        self._succession = Succession(
            self._world, self._network, self._source, self._stores, wipe, lambda: self._stopped
        )
        self._succession.begin()

    def _strand(
        self, source: SourceInstance, seconds: float, last: StoreActor | None, crash: bool = True
    ) -> None:
        name = source.process.name
        self._world.fault("source stranded", "%s with %s", name, last and last.name)
        others = [store.name for store in self._stores if store is not last]
        ways = [*((name, other) for other in others), *((other, name) for other in others)]
        free = self._network.block(ways)

        def die() -> None:
            free()
            if self._stopped:
                return
            source.kill()
            if crash and last is not None and last.alive:
                last.crash()
                self._restart(last)

        self._world.later(seconds, die)

    def pause_source(self) -> None:
        chooser, source = self._chooser, self._source.current
        if source.over or source.process.paused:
            return
        if not self._source.may_run_twice or chooser.random() < 0.3:
            self._world.fault("source pause", source.process.name)
            source.process.pause()
            self._world.later(chooser.choice((0.1, 0.5, 1.5)), source.process.wake)
            return
        take_over = chooser.random() < 0.7
        self._world.fault("zombie", "%s, take_over=%s", source.process.name, take_over)
        zombie = self._source.replace_paused(take_over)
        self._zombies.append(zombie)

        def wake() -> None:
            self._world.note("%s wakes up", zombie.process.name)
            zombie.process.wake()

        self._world.later(chooser.choice((0.02, 0.2, 0.6, 1.5)), wake)

    def second_source(self) -> None:
        """The source is started once more while it goes on."""
        source, chooser = self._source, self._chooser
        instance, take_over = source.current, chooser.random() < 0.5
        if source.may_run_twice and not source.runs_twice and instance.owns:
            if instance.process.paused:
                return
            name = instance.process.name
            self._world.fault("source started twice", "%s, take_over=%s", name, take_over)
            source.start_second(take_over)

    def rest_source(self) -> None:
        """The source is away for about as long as its state is kept."""
        source = self._source.current
        if not source.over and not source.process.paused:
            seconds = self._chooser.uniform(0.4, 1.8) * self._kept_for_seconds
            self._world.fault("source away for long", "%s, %s s", source.process.name, seconds)
            source.kill()
            self._source.restart_after(seconds)

    def deregister_source(self) -> None:
        """The source has itself forgotten, and may die before all stores have heard it."""
        source = self._source.current
        if not source.owns or source.process.paused:
            return
        self._world.fault("source deregistered", source.process.name)
        source.deregister()
        if self._chooser.random() < 0.4:
            self._world.later(self._chooser.uniform(0.0, 0.02), source.kill)

    # Receivers.

    def rest_receiver(self) -> None:
        """A receiver is away for about as long as its position is kept."""
        receiver = self._chooser.choice(self._receivers)
        if receiver.instance.process.alive:
            self._world.fault("receiver away for long", receiver.name)
            receiver.restart_after(self._chooser.uniform(0.4, 1.8) * self._kept_for_seconds)

    def deregister_receiver(self) -> None:
        """A receiver has itself forgotten; later it comes back."""
        receiver = self._chooser.choice(self._receivers)
        is_alone = not receiver.former
        if is_alone and receiver.instance.registered and receiver.instance.process.alive:
            self._world.fault("receiver deregistered", receiver.name)
            receiver.instance.deregister()
            self._world.later(self._chooser.choice((0.005, 0.1, 1.0)), receiver.restart)

    def end_frozen_receiver(self) -> None:
        """A receiver is frozen; an operator has it forgotten, and it is started once more. At any
        time it wakes up."""
        chooser, receiver = self._chooser, self._chooser.choice(self._receivers)
        frozen = receiver.instance
        if receiver.former or not frozen.registered or frozen.over or frozen.process.paused:
            return
        self._world.fault("receiver deregistered while it is frozen", receiver.name)
        frozen.process.pause()

        def start() -> None:
            if receiver.instance is frozen and not frozen.over:
                receiver.start_second(take_over=True)

        at = chooser.uniform(0.05, 0.5)
        self._world.later(at, lambda: self._operator.deregister_receiver(frozen))
        at += chooser.choice((0.1, 1.0, 4.0))
        self._world.later(at, start)
        self._world.later(at + chooser.choice((0.0, 0.2, 1.0)), frozen.process.wake)

    def crash_receiver(self) -> None:
        receiver = self._chooser.choice(self._receivers)
        if receiver.instance.process.alive:
            self._world.fault("receiver crash", receiver.name)
            receiver.restart()

    def second_receiver(self) -> None:
        """A receiver is started once more while it goes on."""
        receiver, take_over = self._chooser.choice(self._receivers), self._chooser.random() < 0.5
        if receiver.instance.registered and not receiver.instance.over and not receiver.former:
            self._world.fault(
                "receiver started twice", "%s, take_over=%s", receiver.name, take_over
            )
            receiver.start_second(take_over=take_over)

    def pause_receiver(self) -> None:
        process = self._chooser.choice(self._receivers).instance.process
        self._world.fault("receiver pause", process.name)
        process.pause()
        self._world.later(self._chooser.choice((0.1, 0.5, 1.5)), process.wake)
