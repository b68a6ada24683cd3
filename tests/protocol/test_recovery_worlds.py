"""Whole lives of a stream on a model of the stores: nothing stable is ever lost or overwritten.

Sources register, begin on some stores only, send, stall for ever or come back as zombies; stores
miss messages, are rolled back or wiped (and then answer from limbo); the policy may change. The
model has the rules of DESIGN 4.2 that are not in quorate.protocol.recovery: promise, fencing by
it, begin as truncation, and that only stores which have begun the epoch count.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from tests.held import merge_held

from quorate.protocol.consensus import Behaviour
from quorate.protocol.lineage import NO_LINEAGE, Lineage
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Decision, Promise, decide

Content = tuple[int, int]
"""Epoch in which a message was first sent, and a serial number: no two contents are equal."""


@dataclass
class Store:
    promised: int = 0
    begun: int = 0
    lineage: Lineage = NO_LINEAGE
    membership: Membership | None = None
    held: dict[int, Content] = field(default_factory=dict)
    stable_upto: int = -1
    limbo: bool = False

    def promise(self, epoch: int) -> Promise:
        if not self.limbo:
            assert epoch > self.promised
            self.promised = epoch
        held = merge_held(HeldRange(n, n, content[0]) for n, content in self.held.items())
        return Promise(
            self.begun, self.lineage, self.membership, held, self.stable_upto, self.limbo
        )

    def begin(self, epoch: int, lineage: Lineage, membership: Membership) -> bool:
        if self.limbo or self.promised > epoch:
            return False
        self.promised = self.begun = epoch
        self.lineage, self.membership = lineage, membership
        self.held = {n: c for n, c in self.held.items() if lineage.epoch_at(n) == c[0]}
        return True

    def roll_back(self, chooser: random.Random) -> None:
        """Lose the newest messages, or everything; what is lost is not known, hence limbo."""
        if chooser.random() < 0.5:
            self.__init__()  # type: ignore[misc]
        else:
            cut = chooser.randrange(max(self.held, default=0) + 1)
            self.held = {n: content for n, content in self.held.items() if n < cut}
        self.limbo = True


@dataclass
class Source:
    """One instance, once it has decided."""

    epoch: int
    lineage: Lineage
    membership: Membership
    messages: dict[int, Content]
    kept_upto: int
    stable_upto: int
    begun: set[str] = field(default_factory=set)
    acknowledged: dict[str, int] = field(default_factory=dict)

    @property
    def may_send(self) -> bool:
        return all(policy.stable(self.begun) for policy in self.membership.policies)


class World:
    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.own = self._policy("abcd"[: self.chooser.choice((3, 3, 4))])
        self.changes = self.chooser.random() < 0.4
        self.stores = {name: Store() for name in "abcdef"}
        self.sources: list[Source] = []
        self.stable: dict[int, Content] = {}
        self.serial = 0
        self.registrations = 0
        self.losses_left = self.chooser.choice((0, 1, 1, 2))

    def _policy(self, names: str) -> Policy:
        split = self.chooser.choice((0, 0, 1, 2))
        parts = [part for part in (names[:split], names[split:]) if part]
        return Policy(
            tuple(
                Group(part, tuple(part), self.chooser.choice(list(IntragroupRule)))
                for part in parts
            ),
            self.chooser.choice(list(IntergroupRule)),
        )

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.chooser.random()
            if step < 0.06 or not self.sources:
                self.register()
            elif step < 0.075 and self.losses_left:
                self.losses_left -= 1
                self.chooser.choice(list(self.stores.values())).roll_back(self.chooser)
            elif step < 0.09 and self.changes:
                self.own = self._policy("".join(self.chooser.sample("abcdef", 3)))
            else:
                # Mostly the newest source, sometimes one that does not know it is a zombie.
                source = self.sources[-1 if self.chooser.random() < 0.8 else 0]
                self.chooser.choice((self.begin, self.send, self.deliver, self.deliver, self.tell))(
                    source
                )

    def register(self) -> None:
        answering = [name for name in self.stores if self.chooser.random() < 0.75]
        if not answering:
            return
        epoch = 1 + max(self.stores[name].promised for name in answering)
        promises = {name: self.stores[name].promise(epoch) for name in answering}
        decision = decide(self.own, promises, self.chooser.choice(list(Behaviour)))
        if not isinstance(decision, Decision):
            return
        self.registrations += 1
        messages: dict[int, Content] = {}
        for name, held in decision.holders.items():
            for number, content in self.stores[name].held.items():
                if number in held and number <= decision.kept_upto:
                    assert messages.setdefault(number, content) == content, "two contents"
        for number, content in self.stable.items():
            assert number <= decision.kept_upto, f"{number} was stable and is not kept"
            assert messages.get(number) == content, f"{number} was stable and is lost"
        lineage = decision.lineage.extended(decision.kept_upto, epoch)
        in_force = decision.policies or (self.own,)
        settled = decision.stable_upto >= decision.kept_upto and self.own in in_force
        to = (self.own,) if settled else (*in_force, self.own)
        self.sources.append(
            Source(
                epoch,
                lineage,
                Membership(in_force, to),
                messages,
                decision.kept_upto,
                decision.stable_upto,
            )
        )
        self.begin(self.sources[-1])

    def begin(self, source: Source) -> None:
        for name, store in self.stores.items():
            if self.chooser.random() < 0.7 and store.begin(
                source.epoch, source.lineage, source.membership
            ):
                source.begun.add(name)

    def send(self, source: Source) -> None:
        if source.may_send:
            for _ in range(self.chooser.randrange(1, 4)):
                self.serial += 1
                next_number = max(source.messages, default=-1) + 1
                source.messages[next_number] = (source.epoch, self.serial)

    def deliver(self, source: Source) -> None:
        for name in source.begun:
            store = self.stores[name]
            if store.promised != source.epoch or store.limbo or self.chooser.random() < 0.4:
                continue
            for _ in range(self.chooser.randrange(4)):
                number = next((n for n in sorted(source.messages) if n not in store.held), None)
                if number is not None:
                    store.held[number] = source.messages[number]
            upto = -1
            while upto + 1 in store.held:
                upto += 1
            source.acknowledged[name] = upto
        self._advance(source)

    def _advance(self, source: Source) -> None:
        while source.stable_upto + 1 in source.messages:
            number = source.stable_upto + 1
            holders = {name for name, upto in source.acknowledged.items() if upto >= number}
            if not all(policy.stable(holders) for policy in source.membership.policies):
                return
            source.stable_upto = number
            content = source.messages[number]
            assert self.stable.setdefault(number, content) == content, f"{number} stable twice"

    def tell(self, source: Source) -> None:
        for name in source.begun:
            store = self.stores[name]
            if store.promised == source.epoch and self.chooser.random() < 0.5:
                store.stable_upto = max(store.stable_upto, source.stable_upto)


@pytest.mark.parametrize("block", range(10))
def test_nothing_stable_is_lost_or_overwritten(block: int) -> None:
    registrations = stable = 0
    for seed in range(block * 150, block * 150 + 150):
        world = World(seed)
        try:
            world.run(150)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        registrations += world.registrations
        stable += len(world.stable)
    # The worlds are worth something: sources come back, and things become stable.
    assert registrations > 300
    assert stable > 500
