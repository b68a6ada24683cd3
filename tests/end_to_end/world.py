"""Stores, sources, receivers and an operator who looks at the stores, all processes, in a network.

What a story is told with: who is started, stopped, wiped, cut off, and what is waited for.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.end_to_end import checker
from tests.end_to_end.network import Network, Place, Proxies
from tests.end_to_end.processes import Line, Process, Progress, environment

from quorate.protocol.limits import NOTHING
from quorate.store.configuration import StoreConfiguration

SESSION = 7
"""Of a source, unless another is given."""
_APPLICATIONS = "tests.end_to_end.applications"
_Facts = dict[str, Any]


class Store(Process):
    """A store with a data directory that may be tampered with while it is stopped."""

    def __init__(self, name: str, world: World, place: Place, called: str = "") -> None:
        """called: what it calls itself, if that is the name of another one, too."""
        super().__init__(name, world.directory, world.progress, place.command)
        self.called = called or name
        self.place = place
        self.data = world.directory / name
        self.state_only = False
        """It is to take no messages, from its next start on."""
        self.group: Collection[str] | None = None
        """The stores that it is told of as its peers; None: all that there are when it starts."""
        self._world = world

    async def start(self, *options: str, until_ready: bool = True) -> None:
        await self.start_process(
            *("quorate.console.main", "store", "run", "--stop-with-parent", "-o", "json"),
            *("--name", self.called, "--data-directory", str(self.data)),
            *("--listen", self.place.listen, "--advertise", self.place.address),
            *self._peers(),
            *(("--durability", "state-only") if self.state_only else ()),
            *options,
        )
        if until_ready:
            await self.progress.until(f"{self.name} serves", lambda: self.said or not self.running)
            assert self.said, self.log()

    def _peers(self) -> list[str]:
        if "peers" not in StoreConfiguration.model_fields:
            return []
        return [
            argument
            for store in self._world.stores.values()
            if store.called != self.called and (self.group is None or store.name in self.group)
            for argument in ("--peer", store.place.address)
        ]

    async def kill(self) -> None:
        await super().kill()
        # What it said before says nothing about its next run, and may be on its way yet.
        await self._world.until_gone(self)

    def log(self) -> str:
        return (self.directory / f"{self.name}.log").read_text()

    def wipe(self) -> None:
        shutil.rmtree(self.data)

    def save(self) -> None:
        """Copy the data directory, as somebody might who thinks that this is a backup."""
        shutil.copytree(self.data, self.copy, symlinks=True)

    def roll_back(self) -> None:
        """Put the copy in its place."""
        self.wipe()
        self.copy.rename(self.data)

    @property
    def copy(self) -> Path:
        """What was saved."""
        return self.data.with_name(f"{self.name}.copy")

    @property
    def facts(self) -> _Facts:
        """What it says of itself; empty while it does not answer."""
        return self._world.facts.get(self.name, {})

    def of(self, session: int = SESSION) -> _Facts:
        """What it says of a source; empty if it knows none of that name."""
        facts: _Facts = self.facts.get("sources", {}).get(str(session), {})
        return facts

    def has_all(self, upto: int, session: int = SESSION) -> bool:
        """Whether it holds everything up to here that is not lost, and nothing more.

        If it takes no messages: whether it was told that everything up to here is stable.
        """
        if self.state_only:
            return bool(self.of(session).get("stable_upto", NOTHING) >= upto)
        held = [range(first, last + 1) for first, last, _ in self.of(session).get("held", [])]
        edges = [-1, *(edge for one in held for edge in (one.start, one.stop - 1)), upto + 1]
        between = [range(edges[at] + 1, edges[at + 1]) for at in range(0, len(edges), 2)]
        lacking = [one for one in between if one]
        return lacking == self._world.losses and edges[-2] <= upto

    async def until(self, what: str, happened: Callable[[_Facts], Any]) -> None:
        """Wait until this is so of what it says of the source."""
        await self.progress.until(f"{self.name}: {what}", lambda: self.of() and happened(self.of()))

    async def until_in_limbo(self, reason: str) -> None:
        """Wait until it says that it is in limbo as a whole, for this reason."""
        await self.progress.until(
            f"{self.name} is in limbo: {reason}",
            lambda: self.facts.get("limbo") and reason in self.facts["limbo_reason"],
        )

    async def until_it_vouches(self, *, other_than: str) -> None:
        """Wait until it is out of limbo, for all sources, with another incarnation than this."""
        await self.progress.until(
            f"{self.name} has left limbo",
            lambda: (
                self.facts.get("limbo") is False
                and self.facts["incarnation"] != other_than
                and not any(source["limbo"] for source in self.facts["sources"].values())
            ),
        )

    async def until_met(self) -> None:
        """Wait until all its peers have heard of this run."""
        others = {name: True for name in self._world.stores if name != self.name}
        await self.progress.until(
            f"{self.name} has met its peers", lambda: self.facts.get("peers") == others
        )

    async def until_it_has(self, upto: int) -> None:
        await self.progress.until(f"{self.name} has all up to {upto}", lambda: self.has_all(upto))


class SourceProcess(Process):
    """A source that does what it is told."""

    def __init__(self, name: str, world: World, place: Place, settings: _Facts) -> None:
        super().__init__(name, world.directory, world.progress, place.command)
        self._world = world
        self._settings: _Facts = {
            "options": {
                "listen": place.listen,
                "advertise": place.address,
                "registration_interval": 0.5,
                **settings.pop("options", {}),
            },
            **settings,
        }

    @property
    def session(self) -> int:
        session: int = self._settings["session"]
        return session

    async def start(self, *, until_open: bool = True, **changes: Any) -> None:
        tag = f"{self.name}{len(self.runs) + 1}"
        stores = self._world.addresses
        settings = {"stores": stores, **self._settings, "tag": tag, **changes}
        await self.start_process(_APPLICATIONS, "source", json.dumps(settings))
        if until_open:
            await self.until_said("opened")

    async def refused(self, error: str, *words: str, **changes: Any) -> None:
        """Have it try to open until it is refused with this error, for these reasons; kill it."""
        await self.start(until_open=False, take_over=True, persistent=True, timeout=1.0, **changes)
        await self.progress.until(
            f"{self.name} is refused with {error}: {' '.join(words)}",
            lambda: any(
                kind == error and all(word in text for word in words)
                for kind, text in self.lines("retried")
            ),
        )
        assert self.lines("opened") == []
        await self.kill()

    async def until_it_streams_again(self, store: Store) -> None:
        """Wait until it streams to a store that was away since this run has begun.

        The store says so itself a little earlier: what is killed between takes the quorum away. A
        source that opened while the store was away, and never had it, registers with it instead.
        """

        def said(kind: str) -> bool:
            events = self.lines("event")
            return any(one == kind and each.get("store") == store.name for one, each in events)

        def is_back() -> bool:
            missing = any(
                repr(store.name) in each.get("missing", "") for _, each in self.lines("event")
            )
            never_had = missing and not said("StoreUnresponsive")
            return said("StoreReturned") or (never_had and said("RegistrationSucceeded"))

        await self.progress.until(f"{self.name} streams to {store.name} again", is_back)

    async def send(self, count: int, size: int = 100) -> int:
        """Have it send so many messages; the last one's number, once it was accepted."""
        before = len(self.lines("accepted"))
        self.order("send", count, size)
        await self.progress.until(
            f"{self.name} sends {count}", lambda: len(self.lines("accepted")) > before
        )
        return self.accepted_upto

    async def send_stable(self, count: int, size: int = 100) -> int:
        """Have it send so many messages that become stable; the last one's number."""
        last = await self.send(count, size)
        self.order("flush")
        await self.until_said("stable", last)
        return last

    @property
    def accepted_upto(self) -> int:
        """The last number that it said was accepted, in this run."""
        return max((first + len(names) - 1 for first, names in self.lines("accepted")), default=-1)


class ReceiverProcess(Process):
    """A receiver that takes everything."""

    def __init__(self, name: str, world: World, place: Place, settings: _Facts) -> None:
        super().__init__(name, world.directory, world.progress, place.command)
        self.stable = settings["delivery"] == "stable"
        self._world = world
        self._settings = settings

    async def start(self, *, until_open: bool = True, **changes: Any) -> None:
        tag = f"{self.name}{len(self.runs) + 1}"
        stores = self._world.addresses
        settings = {"stores": stores, **self._settings, "tag": tag, **changes}
        await self.start_process(_APPLICATIONS, "receiver", json.dumps(settings))
        if until_open:
            await self.until_said("opened")

    @property
    def reached(self) -> int:
        """The last number that it was handed, or need not be handed, in this run."""
        for kind, *facts in reversed(self.said):
            if kind == "delivered":
                last: int = facts[0] + len(facts[1]) - 1
                return last
            if kind == "starts":
                starts: int = facts[0]
                return starts - 1
        return NOTHING

    async def until_reached(self, number: int) -> None:
        await self.progress.until(f"{self.name} is handed {number}", lambda: self.reached >= number)

    async def until_ended_at(self, number: int) -> None:
        """Wait until this is the last number that it was handed.

        It may have been handed higher ones before, and told since that they are withdrawn.
        """
        await self.progress.until(
            f"{self.name} is handed {number} at last", lambda: self.reached == number
        )


class World:
    """Nothing runs in it any more once it is left."""

    def __init__(self, directory: Path, network: Network | None = None) -> None:
        self.directory = directory
        self.network: Network = network or Proxies()
        self.progress = Progress()
        self.stores: dict[str, Store] = {}
        self.facts: dict[str, _Facts] = {}
        """What each store said of itself last."""
        self.losses: list[range] = []
        """What an operator has accepted as lost."""
        self.copies: list[Store] = []
        """Stores that run beside others under their names."""
        self.sources: list[SourceProcess] = []
        self.receivers: list[ReceiverProcess] = []
        self._operator: _Operator | None = None

    async def __aenter__(self) -> Self:
        await self.network.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for process in self._processes:
                process.kill_soon()
            for process in self._processes:
                await process.kill()
        finally:
            await self.network.__aexit__(kind, error, trace)

    @property
    def _processes(self) -> list[Process]:
        operator = [self._operator] if self._operator else []
        stores = [*self.stores.values(), *self.copies]
        return [*self.receivers, *self.sources, *operator, *stores]

    @property
    def addresses(self) -> str:
        return self.addresses_of(*self.stores)

    def addresses_of(self, *names: str) -> str:
        return ",".join(f"{name}={self.stores[name].place.address}" for name in names)

    async def add_stores(self, *names: str) -> list[Store]:
        """Stores that are not started."""
        for name in names:
            place = await self.network.place(name)
            self.stores[name] = Store(name, self, place)
            if self._operator is not None:
                self._operator.order("look", name, place.listen)
        return [self.stores[name] for name in names]

    async def copy_of(self, store: Store) -> Store:
        """One that is not started, on what was saved of this one, under its name and elsewhere."""
        name = store.copy.name
        copy = Store(name, self, await self.network.place(name), store.name)
        self.copies.append(copy)
        if self._operator is not None:
            self._operator.order("look", name, copy.place.listen)
        return copy

    async def founded(self, *names: str, state_only: Collection[str] = ()) -> list[Store]:
        """Stores that run and vouch for what they do not have: there never was any.

        state_only: of these, those that take no messages.
        """
        stores = await self.add_stores(*names)
        for store in stores:
            store.state_only = store.name in state_only
            await store.start(until_ready=False)
        await self.look_at_stores()
        await self.until_founded()
        return stores

    async def look_at_stores(self) -> None:
        """Have the operator look at them from now on."""
        self._operator = _Operator(self, await self.network.place("operator"))
        await self._operator.start()
        for store in self.stores.values():
            self._operator.order("look", store.name, store.place.listen)

    async def until_gone(self, store: Store) -> None:
        """Wait until the operator, if there is one, has seen that this store does not run."""
        if self._operator is not None and self._operator.running:
            await self.progress.until(
                f"the operator misses {store.name}", lambda: self.facts.get(store.name) == {}
            )

    async def until_founded(self) -> None:
        await self.progress.until(
            "the stores found a group",
            lambda: all(store.facts.get("limbo") is False for store in self.stores.values()),
        )

    async def source(
        self, name: str = "source", *, session: int = SESSION, durable: bool = False, **more: Any
    ) -> SourceProcess:
        """A source that is not started. durable: with a publish store on disk."""
        settings = {"session": session, **more}
        if durable:
            settings["publish"] = str(self.directory / f"{name}.publish")
        source = SourceProcess(name, self, await self.network.place(name), settings)
        self.sources.append(source)
        return source

    async def receiver(
        self, name: str, *, session: int, delivery: str = "live", **more: Any
    ) -> ReceiverProcess:
        """A receiver that is not started."""
        settings = {"session": session, "delivery": delivery, **more}
        receiver = ReceiverProcess(name, self, await self.network.place(name), settings)
        self.receivers.append(receiver)
        return receiver

    async def streaming(
        self, messages: int, **more: Any
    ) -> tuple[SourceProcess, ReceiverProcess, int]:
        """A source that runs, a receiver that has so many of its messages, and the last's number.

        The receiver is handed what is stable. more: of the source.
        """
        source = await self.source(**more)
        await source.start()
        receiver = await self.receiver("receiver", session=21, delivery="stable")
        await receiver.start()
        last = await source.send_stable(messages)
        await receiver.until_reached(last)
        return source, receiver, last

    async def quorate(self, *arguments: str, fails: bool = False, code: int | None = None) -> str:
        """What the command says that an operator gives; it must succeed, or fail.

        code: the exit code that it must have.
        """
        place = await self.network.place("operator")
        process = await asyncio.create_subprocess_exec(
            *(*place.command, sys.executable, "-m", "quorate.console.main", *arguments),
            *("--stores", self.addresses),
            env=environment(),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        said, complained = await process.communicate()
        if code is None:
            assert bool(process.returncode) == fails, complained.decode()
        else:
            assert process.returncode == code, complained.decode()
        return said.decode()

    async def retire(self, *stores: Store) -> None:
        """Kill these; they are not asked for what they have any more."""
        for store in stores:
            await store.kill()
            del self.stores[store.name]

    async def end(self, source: SourceProcess) -> checker.Summary:
        """Let everything become whole, stop everyone, and hold against each other what they saw."""
        source.order("finish")
        (last,) = await source.until_said("finished")
        for receiver in self.receivers:
            if receiver.running:
                await receiver.until_ended_at(last)
        for store in self.stores.values():
            await store.until_it_has(last)
        await self.close(source, *self.receivers)
        return await self.examine(last)

    async def close(self, *applications: Process) -> None:
        """Have those of them that run close."""
        for application in applications:
            if application.running:
                application.order("close")
                await application.until_said("closed")
                assert await application.ended() == 0

    async def examine(self, last: int) -> checker.Summary:
        """Stop the stores and hold what they have against what applications saw."""
        for store in self.stores.values():
            if store.running:
                store.signal(signal.SIGTERM)
                assert await store.ended() == 0, store.log()
        held = {
            name: checker.stored(store.data, SESSION)
            for name, store in self.stores.items()
            if not store.state_only
        }
        return checker.check(
            held,
            last,
            {source.name: source.runs for source in self.sources},
            {
                receiver.name: checker.Receiver(receiver.runs, receiver.stable)
                for receiver in self.receivers
            },
            self.losses,
        )


class _Operator(Process):
    """Tells the world what stores say of themselves."""

    def __init__(self, world: World, place: Place) -> None:
        super().__init__("operator", world.directory, world.progress, place.command)
        self._world = world

    async def start(self) -> None:
        await self.start_process(_APPLICATIONS, "operator", "{}")

    def heard(self, line: Line) -> None:
        _, store, facts = line
        self._world.facts[store] = facts
