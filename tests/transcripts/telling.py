"""A world that tells its story: who says what to whom, what is durable where, what people see.

Nothing in it is random: delays are the same for all, and what happens at one time happens in the
order in which it was asked for. The actors are the simulation's; nothing here decides anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.asks import Entry
from tests.simulation.checker import Checker
from tests.simulation.network import Handler, Network
from tests.simulation.receiver_checks import ReceiverChecks, RegisteredAs
from tests.simulation.rules import Setup
from tests.simulation.world import Pending, Process, World
from tests.transcripts import words

from quorate.protocol.errors import QuorateError
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.receiver.protocol.fetch_plan import ProvenGap
from quorate.source import events
from quorate.store.rules.identity_records import (
    ENDED_KEYS,
    unpack_end,
)
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryRows
from quorate.store.storage.records import (
    STORE_KEY,
    Held,
    Registration,
    StoreRecord,
    unpack_held,
    unpack_receiver,
    unpack_registration,
    unpack_store,
)

APPLICATION = "its application"
DELAY_SECONDS = 0.001
_AFTER_ALL_KEYS = b"\xff" * 32
_ROWS_MAX = 1000


@dataclass
class _Line:
    """One line; several that say the same at one time become one."""

    at: float
    who: list[str]
    whom: list[str]
    says: str

    def actors(self) -> list[str]:
        return [_actor(name) for name in (*self.who, *self.whom)]

    def joined_by(self, who: str, whom: list[str]) -> bool:
        """Have it tell also of somebody else who says the same, or is told the same."""
        if self.who == [who] and whom and self.whom:
            self.whom += [name for name in whom if name not in self.whom]
        elif self.whom == whom:
            self.who.append(who)
        else:
            return False
        return True

    def __str__(self) -> str:
        whom = f" -> {', '.join(self.whom)}" if self.whom else ""
        if self.whom == [APPLICATION] and len(self.who) > 1:
            whom = " -> their applications"
        who = f"{', '.join(self.who)}{whom}"
        return f"{self.at:6.2f}  {who}: {self.says}" if who else f"\n# {self.says}"


def _actor(name: str) -> str:
    """Whose disk it is."""
    return name.removesuffix("'s disk")


@dataclass
class Story:
    """The lines so far."""

    now: Callable[[], float] = lambda: 0.0
    silent: bool = False
    """Nothing is told: what happens now is told elsewhere."""
    _lines: list[_Line] = field(default_factory=list)
    _asked: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _said: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """The narrator speaks."""
        self._lines.append(_Line(self.now(), [], [], text))

    def tell(self, who: str, whom: str, says: str) -> None:
        for asked in [each for each in self._asked if each[:2] == (whom, who)]:
            del self._asked[asked]
        if self.silent:
            return
        at = round(self.now(), 2)
        to = [whom] if whom else []
        for line in reversed(self._lines):
            if not line.who or line.at != at:
                break
            if line.says == says and line.joined_by(who, to):
                return
            # Nobody may seem to have said something before what moved them to say it.
            if _actor(who) in line.actors() or whom in line.who:
                break
        self._lines.append(_Line(at, [who], to, says))

    def ask(self, who: str, whom: str, kind: str, says: str) -> None:
        """As tell; but not again what was asked already and was not answered."""
        if self._asked.get((who, whom, kind)) != says:
            self._asked[who, whom, kind] = says
            self.tell(who, whom, says)

    def once(self, who: str, whom: str, kind: str, says: str) -> None:
        """As tell; but not again what was said last, however often it is asked."""
        if self._said.get((who, whom, kind)) != says:
            self._said[who, whom, kind] = says
            self.tell(who, whom, says)

    def __str__(self) -> str:
        return "\n".join(map(str, self._lines)) + "\n"


class _Calm(random.Random):
    """Chance that is always about the middle."""

    def random(self) -> float:
        return 0.49


class TellingWorld(World):
    def __init__(self, story: Story) -> None:
        super().__init__(0)
        self.chooser = _Calm(0)
        self.story = story
        story.now = lambda: self.now

    def note(self, text: str, *arguments: object) -> None:
        super().note(text, *arguments)
        for told in arguments:
            if type(told).__module__ == events.__name__:
                self.story.tell(str(arguments[0]), APPLICATION, words.event(told))


class TellingNetwork(Network):
    """The network, with somebody who listens."""

    def __init__(self, world: TellingWorld) -> None:
        super().__init__(world)
        self._story = world.story
        self.in_limbo: Callable[[str], bool] = lambda _: False
        """Whether this store is; only then it is worth telling what its peers tell it."""
        self.unchecked: Callable[[str], bool] = lambda _: False
        """Whether it is only because it was just started."""

    def _delay(self) -> float:
        return DELAY_SECONDS

    async def call(
        self, client: Process, server: str, method: str, request: Any, seconds: float = 10.0
    ) -> Any:
        if method == "inventory" and self.in_limbo(client.name):
            who = "was just started" if self.unchecked(client.name) else "am in limbo"
            what = "remember of me" if request.without_sources else "know"
            self._story.once(client.name, server, method, f"I {who}; what do you {what}?")
        elif (says := words.request(method, request)) is not None:
            self._story.ask(client.name, server, method, says)
        return await super().call(client, server, method, request, seconds)

    async def _answer(
        self, server: Process, client: Process, handler: Handler, request: Any, answer: Pending[Any]
    ) -> None:
        async def told(request: Any) -> Any:
            try:
                value = await handler(request)
            except QuorateError as error:
                self._story.ask(server.name, client.name, "refusal", words.error(error))
                raise
            if isinstance(value, list) and self.in_limbo(client.name):
                self._story.once(server.name, client.name, "knows", words.inventory(value, request))
            elif (says := words.answer(value)) is not None:
                self._story.tell(server.name, client.name, says)
            return value

        await super()._answer(server, client, told, request, answer)

    def connect(self, client: Process, server: str, method: str, request: Any = None) -> Any:
        if (says := words.request(method, request)) is not None:
            self._story.ask(client.name, server, method, says)
        return super().connect(client, server, method, request)

    def carries(self, sender: str, recipient: str, item: Any) -> None:
        if isinstance(item, Entry):
            self._story.once(sender, recipient, "directory", words.entry(item))
        elif (says := words.item(item)) is not None:
            self._story.tell(sender, recipient, says)

    def ends(self, sender: str, recipient: str, error: QuorateError) -> None:
        if type(error).__name__ not in ("Closed", "Unreachable"):
            self._story.tell(sender, recipient, words.error(error))


class TellingChecker(Checker):
    """Checks as always, and tells what becomes durable and what applications see."""

    def __init__(self, world: TellingWorld, source: SourceName, setups: Sequence[Setup]) -> None:
        super().__init__(world, source, setups, honest=True)
        self.receivers: TellingReceiverChecks = TellingReceiverChecks(world, self)
        self._story = world.story
        self._registrations: dict[tuple[str, bytes], Registration] = {}
        self._held: dict[tuple[str, bytes], Held] = {}
        self._standing: dict[str, StoreRecord] = {}
        self.when_decided: dict[int, Callable[[], None]] = {}
        """By epoch: what happens the moment that it is decided, before anybody hears of it."""

    def lost_disk(self, store: str) -> None:
        """Whatever is durable there from now on is news."""
        for rows in (self._registrations, self._held):
            for row in [row for row in rows if row[0] == store]:
                rows.pop(row)

    def put_back(self, store: str, rows: MemoryRows) -> None:
        """What these rows say of the store is known, and nothing else."""
        self.lost_disk(store)
        for table in (Table.REGISTRATIONS, Table.HELD, Table.META):
            for key, value in rows.scan(table, b"", _AFTER_ALL_KEYS, _ROWS_MAX):
                self._made_durable(store, table, key, value)

    def synced(self, store: str, writes: Sequence[Write]) -> None:
        super().synced(store, writes)
        parts: list[str] = []
        for write in writes:
            if write.value is not None:
                parts += self._made_durable(store, write.table, write.key, write.value)
        if parts:
            self._story.tell(f"{store}'s disk", "", "; ".join(parts))

    def _made_durable(self, store: str, table: Table, key: bytes, value: bytes) -> list[str]:
        match table:
            case Table.JOURNAL:
                header = check_batch(value)
                return [f"{words.numbers(header.first, header.last)} of epoch {header.epoch}"]
            case Table.REGISTRATIONS:
                before = self._registrations.get((store, key))
                now = self._registrations[store, key] = unpack_registration(value)
                return words.registered(before, now)
            case Table.RECEIVERS:
                record = unpack_receiver(value)
                position = words.upto(record.acknowledged_upto)
                return [f"receiver of epoch {record.epoch} has consumed {position}"]
            case Table.META if key == STORE_KEY:
                was = self._standing.get(store)
                standing = self._standing[store] = unpack_store(value)
                return words.store_record(was, standing)
            case Table.META if ENDED_KEYS[0] <= key <= ENDED_KEYS[1]:
                end = unpack_end(value)
                over = f"receiver is over up to epoch {end.epoch}"
                return [f"every store knows that the {over}" if end.settled else over]
            case Table.HELD:
                had = self._held.get((store, key))
                held = self._held[store, key] = unpack_held(value)
                if had is not None and held.set_aside > had.set_aside:
                    return [f"{held.set_aside - had.set_aside} set aside"]
        return []

    def decided(self, epoch: int, lineage: Lineage, who: str, setups: Sequence[Setup]) -> None:
        first = lineage.terms[-1].first
        self._story.tell(who, "", f"decides that epoch {epoch} is in force from {first} on")
        super().decided(epoch, lineage, who, setups)
        self.when_decided.pop(epoch, lambda: None)()

    def accepted(self, instance: int, sequence: int, payload: bytes) -> None:
        super().accepted(instance, sequence, payload)
        self._story.tell(f"source{instance}", "", f"is given {payload.decode()!r}: {sequence}")

    def stable(
        self,
        instance: int,
        setups: Sequence[Setup],
        epoch: int,
        upto: int,
        active: Collection[str],
    ) -> None:
        super().stable(instance, setups, epoch, upto, active)
        self._story.tell(f"source{instance}", APPLICATION, f"stable up to {upto}")


class TellingReceiverChecks(ReceiverChecks):
    """The same of receivers."""

    def __init__(self, world: TellingWorld, checker: Checker) -> None:
        super().__init__(world, checker)
        self._story = world.story
        self._names: dict[tuple[str, int], str] = {}

    def called(self, name: str, instance: int, called: str) -> None:
        """An instance that is told of under a name of its own."""
        self._names[name, instance] = called

    def _tell(self, name: str, instance: int, says: str) -> None:
        self._story.tell(self._names.get((name, instance), name), APPLICATION, says)

    def started_at(
        self,
        name: str,
        instance: int,
        registered_as: RegisteredAs,
        first: int,
        epoch: int = 0,
        *,
        is_new: bool = False,
    ) -> None:
        had = self.running(name, instance, epoch).had
        # An application may start further on, on purpose.
        had.done_upto = max(had.done_upto, first - 1)
        super().started_at(name, instance, registered_as, first, epoch, is_new=is_new)
        self._tell(name, instance, f"registered; {first} comes first")

    def delivered(
        self, name: str, instance: int, epoch: int, sequence: int, content: bytes
    ) -> None:
        super().delivered(name, instance, epoch, sequence, content)
        self._tell(name, instance, f"{sequence}, {content.decode()!r}")

    def withdrawn(self, name: str, instance: int, first: int, last: int, epoch: int = 0) -> None:
        super().withdrawn(name, instance, first, last, epoch)
        self._tell(name, instance, f"{words.numbers(first, last)} withdrawn")

    def gap(self, name: str, instance: int, gap: ProvenGap, epoch: int = 0) -> None:
        """No violation here: a scenario may lose something on purpose."""
        # What comes before may still be on its way to the application.
        running = self.running(name, instance, epoch)
        running.had.skipped.update(range(gap.first, gap.last + 1))
        self._tell(name, instance, f"gap: {words.numbers(gap.first, gap.last)}")
