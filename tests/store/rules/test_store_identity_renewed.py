"""Directories that are copied, put back and renewed, and peers that tell each other of them: who is
found out, compared with what really became of each directory."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from quorate.store.rules.store_identity import (
    Standing,
    started,
)
from quorate.store.storage.records import StoreRecord, StoreRun
from quorate.v1.store_pb2 import Greeting

_EVENTS = (
    *("commit", "sync", "greet", "greet", "greet and hear", "tell", "tell", "copy"),
    *("start", "start doubted", "start doubted", "put back", "put back doubted"),
)


@dataclass(frozen=True)
class _Directory:
    """What is in a data directory; a copy of it is the same object."""

    record: StoreRecord
    history: tuple[str, ...] = ()
    """Its starts, commits and incarnations."""
    synced: int = 0
    """So many of these outlive a crash."""

    @property
    def commits(self) -> int:
        return sum(each.startswith("commit") for each in self.history[: self.synced])


class _World:
    """A store c with its directory, and its peers a and b."""

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.drawn = 0
        self.peers = {name: Standing(name, StoreRecord(name.encode()), {}) for name in "ab"}
        self.met: dict[str, tuple[str, ...]] = {}
        """What had become of the directory that each peer has met, when it did."""
        self.start(_Directory(StoreRecord(b"first"), ("is first",), 1), doubted=False)
        self.copies = [self.directory]
        self.found_out = self.believed = 0

    def draw(self) -> str:
        self.drawn += 1
        return str(self.drawn)

    def start(self, found: _Directory, *, doubted: bool) -> None:
        """Doubted: it lost what was not synced."""
        kept = self.chooser.randint(found.synced, len(found.history)) if doubted else None
        found = replace(found, history=found.history[:kept], synced=len(found.history[:kept]))
        run = StoreRun(self.draw().encode(), found.commits)
        record = started("c", found.record, ("a", "b"), lambda: b"", run)
        self.standing = Standing("c", record, {})
        history = found.history
        if doubted:
            self.standing.renew(self.draw().encode())
            history += (self.incarnation,)
        self.become(*history, f"start {self.draw()}")

    @property
    def incarnation(self) -> str:
        return f"is {self.standing.record.incarnation.decode()}"

    def become(self, *history: str) -> None:
        self.directory = _Directory(self.standing.record, history, len(history))

    def do(self, event: str) -> None:
        match event.split():
            case ["commit"]:
                history = (*self.directory.history, f"commit {self.draw()}")
                self.directory = replace(self.directory, history=history)
            case ["sync"]:
                self.become(*self.directory.history)
            case ["copy"]:
                self.copies.append(self.directory)
            case ["start", *doubted]:
                self.start(self.directory, doubted=bool(doubted))
            case ["put", "back", *doubted]:
                self.start(self.chooser.choice(self.copies), doubted=bool(doubted))
            case ["greet", *heard]:
                self.greet(self.chooser.choice("ab"), heard=bool(heard))
            case ["tell"]:
                self.tell(*self.chooser.sample("ab", 2))

    def greet(self, name: str, *, heard: bool) -> None:
        """C asks a peer, and hears its answer or does not."""
        is_it = self.is_what_was_met(name)
        remembered = self.ask(name)
        peer = self.peers[name].peers["c"]
        is_noted = peer.incarnation == self.standing.record.incarnation
        assert (is_noted and peer.run.drawn == self.standing.run.drawn) == is_it
        if remembered is None or not heard:
            return
        self.standing.learn_former(remembered)
        assert bool(self.standing.check_remembered(remembered)) == (not is_it)
        self.found_out += not is_it
        self.believed += is_it
        if not is_it:
            self.leave_limbo()

    def is_what_was_met(self, name: str) -> bool:
        """A peer may know an incarnation also by what it was told, and how it came to that not."""
        met, known = self.met.get(name, ()), self.peers[name].peers.get("c")
        history = self.directory.history
        is_named = known is None or f"is {known.incarnation.decode()}" in history
        return is_named and history[: len(met)] == met

    def ask(self, name: str) -> Greeting | None:
        was = self.peers[name].peers.get("c")
        greeting = self.standing.greeting("c:1", self.directory.commits)
        remembered = self.peers[name].met(greeting).remembered
        if (now := self.peers[name].peers["c"]) is not was or now.run == greeting.run:
            self.met[name] = self.directory.history[: self.directory.synced]
        return remembered

    def leave_limbo(self) -> None:
        """It was found out, and its peers make up for what it lacks."""
        self.standing.enter_limbo("why", self.draw().encode())
        # None of what it was before may tell any more; how many commits it has stays.
        commits = [f"commit {self.draw()}" for _ in range(self.directory.commits)]
        self.become(self.incarnation, *commits)
        for name in (*self.peers, *self.peers):
            if (remembered := self.ask(name)) is not None:
                assert not self.standing.check_remembered(remembered)
        self.standing.leave_limbo()
        self.become(*self.directory.history)

    def tell(self, name: str, other: str) -> None:
        """One peer hears of c from the other; it goes by what it has met itself, unless c was found
        out since."""
        told = self.peers[other].peers.get("c")
        if told is None:
            return
        was = self.peers[name].peers.get("c")
        self.peers[name].heard_of(told)
        now, met = self.peers[name].peers["c"], self.met[other]
        if was is None or (now.incarnation != was.incarnation and met[0] != self.met[name][0]):
            self.met[name] = met


@pytest.mark.parametrize("seed", range(20))
def test_it_is_found_out_if_and_only_if_it_was_put_back(seed: int) -> None:
    """By any peer that has met what it has not been through, whatever others have met."""
    found_out = believed = 0
    for number in range(200):
        world = _World(200 * seed + number)
        for event in world.chooser.choices(_EVENTS, k=30):
            world.do(event)
        found_out += world.found_out
        believed += world.believed
    assert min(found_out, believed) > 100
