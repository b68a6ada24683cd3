"""A source of the simulated world: the production core and a thin shell.

The shell does what quorate.source's engine, store sessions, packer and live server do, in virtual
time. Nothing here decides what is stable, nor who runs when.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tests.simulation.asks import (
    AppendRequest,
    AskedBegin,
    AskedDeregister,
    AskedPromise,
    Durable,
    Opened,
)
from tests.simulation.checker import Checker
from tests.simulation.content import attributes_for, content, contents_of
from tests.simulation.network import End, Network
from tests.simulation.publish_store import PublishStore
from tests.simulation.rules import Setup
from tests.simulation.world import Event, Pending, Process, WallClock, World
from tests.whole import whole

from quorate.protocol.answers import AnswerReading
from quorate.protocol.attributes import NO_ATTRIBUTES, has_any
from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    Deregistered,
    Fenced,
    QuorateError,
    SourceActive,
    UnknownTopic,
    Unreachable,
)
from quorate.protocol.fragments import header_of
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.protocol.stream_end import AskBegin as EndBegin
from quorate.protocol.stream_end import StreamEnd
from quorate.protocol.wire import source_to_wire
from quorate.source import events
from quorate.source.io.fetch_kept import (
    collect,
    fetch_all,
)
from quorate.source.options import SourceOptions
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.fetch_answers import answers
from quorate.source.protocol.frames import (
    information_frame,
    keepalive_frame,
)
from quorate.source.protocol.receiver_pacing import told_from_wire
from quorate.source.protocol.registration import (
    AskBegin,
    AskPromise,
    Hold,
    OpenStream,
    Phase,
)
from quorate.source.protocol.resend_plan import Kept
from quorate.transport.fetch import FetchCall
from quorate.transport.stream_end import note_answer, request_for
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import DeregisterRequest, StoreReplaced, WaitedFor

SILENCE_SECONDS = 3.0
KEEPALIVE_SECONDS = 0.5
TICK_SECONDS = 0.1
REGISTRATION_SECONDS = 0.3
BACKUP_SECONDS = 0.4
PATIENCE_SECONDS = 0.005
PATIENCE_WITH_OTHERS_SECONDS = 1.5
LIVE_FRAMES_MAX = 8
DEREGISTER_SECONDS = 2.0
DEREGISTER_RETRY_SECONDS = 0.1
DEREGISTER_STEP_SECONDS = 0.005
RETENTION_BYTES_MAX = 3_000


class _Overtaken(Exception):
    """Another epoch is under way."""


class _Attached:
    """One receiver's live stream: the frames that wait for it."""

    def __init__(self, end: End, wants_stable: bool, process: Process) -> None:
        self.end = end
        self.wants_stable = wants_stable
        self.told_stable_upto = NOTHING
        self.keepalive_due = False
        self.ended = False
        """Nothing follows what waits."""
        self.frames: deque[bytes] = deque()
        self.news = Event(process)


def _addresses(setup: Setup) -> tuple[StoreAddress, ...]:
    return tuple(StoreAddress(store, store) for store in setup.everyone)


class SourceInstance:
    """One source in one process."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        name: SourceName,
        number: int,
        setup: Setup,
        previous: Sequence[Setup],
        options: SourceOptions,
        publish_store: PublishStore,
        take_over: bool,
        *,
        sends_attributes: bool = False,
    ) -> None:
        self.world = world
        self.network = network
        self.checker = checker
        self.number = number
        self.take_over = take_over
        self.process = Process(world, f"source{number}")
        self.clock = WallClock(world)
        self.publish_store = publish_store
        self.identity = self.process.name.encode()
        self.core = SourceCore(
            name,
            _addresses(setup),
            setup.policy(),
            options,
            self.identity,
            stable_upto=publish_store.stable_upto,
            unstable=publish_store.batches,
            previous=[Layout(each.policy(), _addresses(each)) for each in previous],
        )
        if publish_store.batches:
            world.reach("publish store sent again", self.process.name)
        self.core.address = self.process.name
        self.setup = setup
        self._news: dict[str, Event] = {}
        self.on_decided: Callable[[], None] | None = None
        """For faults that strike between decision and begin."""
        self.on_end: Callable[[], object] | None = None
        """For faults that strike when it has decided to end, and no store has begun that."""
        self._goes_to: list[Setup] = []
        """Which rules make its messages stable now."""
        self._taking: dict[str, int] = {}
        self._over: dict[str, Pending[None]] = {}
        self._failures: dict[str, int] = {}
        self._stores_version = 0
        self._attached: list[_Attached] = []
        self._scheduled = False
        self._late = False
        self._loading = 0
        self._epoch = 0
        self._decided = 0
        self._version = (0, 0, 0)
        self._phase = self.core.registration.phase
        self._settled_upto = publish_store.stable_upto
        self._became_stable: tuple[int, list[Setup], list[str]] = (self._settled_upto, [], [])
        """How far everything is stable, by whose rules and among which active stores."""
        self._sent = 0
        self._sends_attributes = sends_attributes
        self._was_complete = False
        self._is_closed = False
        """It has said goodbye: nobody can attach to it, and what it hears has no effect."""
        self.leaving = False
        """It has stores forget it, and is not done with that."""
        checker.opened(number, setup)
        network.serve(self.process, self)
        world.note("%s starts, knows stable %s", self.process.name, publish_store.stable_upto)
        self.core.start(world.now, world.now + PATIENCE_WITH_OTHERS_SECONDS)
        self._sync_stores()
        self.process.start(self._tick())

    # The application.

    @property
    def over(self) -> bool:
        """It can not go on, or is dead."""
        return self.core.error is not None or not self.process.alive

    @property
    def owns(self) -> bool:
        """It is in the epoch that it decided last: it may have itself forgotten."""
        registration = self.core.registration
        return not self.over and 0 < registration.decided_epoch == self.core.epoch

    @property
    def in_force(self) -> Setup:
        """The source's own, in which backups may stand in."""
        return Setup.of(self.core.registration.policy)

    def send(self) -> bool:
        """Send one message, if one is accepted now."""
        core, window = self.core, self.core.window
        if core.refusal() is not None or window.full or window.blocked:
            core.note_lag()
            return False
        self._sent += 1
        payload = f"{self.process.name} says {self._sent}".encode()
        attributes = attributes_for(self._sent) if self._sends_attributes else NO_ATTRIBUTES
        core.note_exceeded()
        what = content(payload, attributes)
        self.checker.accepted(self.number, window.next_sequence, what)
        given = (attributes,) if has_any((attributes,)) else ()
        now = int(self.clock.seconds() * 1e9)
        window.add((payload,), given, len(payload) + attributes.size, now)
        window.gather()
        self._soon()
        return True

    def deregister(self) -> None:
        """End this identity for good, as quorate.source.io.deregister."""
        core, epoch = self.core, self.core.registration.decided_epoch
        stores = list(core.stores)
        self.leaving = True
        self.checker.deregisters(epoch)
        core.end(Deregistered(f"Source {core.name}"))
        for over in self._over.values():
            over.fail(Closed("The source"))
        self._wake()
        self._say_goodbye()
        end = StreamEnd(str(core.name), stores, core.registration.membership.policies)
        self._asked_to_end: set[str] = set()
        self._ask_to_end(end, epoch)
        self.process.later(DEREGISTER_SECONDS, self._left)

    def _ask_to_end(self, end: StreamEnd, epoch: int) -> None:
        """Ask every store of the end that is not asked yet."""
        for store in end.stores:
            if store not in self._asked_to_end:
                self._asked_to_end.add(store)
                self.process.start(self._end_at(end, store, epoch))

    async def _end_at(self, end: StreamEnd, store: str, epoch: int) -> None:
        while self.leaving:
            step = end.step(store)
            if step is None:
                await self.process.sleep(DEREGISTER_STEP_SECONDS)
                continue
            request = DeregisterRequest(
                source=source_to_wire(self.core.name),
                epoch=epoch + 1,
                instance=self.identity,
                decided_epoch=epoch,
            )
            try:
                answer = await self.network.call(
                    self.process, store, "end_source", request_for(step, request)
                )
            except QuorateError as error:
                self.world.note("%s: ending at %s: %s", self.process.name, store, error)
                end.failed(store, error)
                if not error.retryable:
                    return
                await self.process.sleep(DEREGISTER_RETRY_SECONDS)
                continue
            was_done, was_decided = end.done, end.membership is not None
            note_answer(end, store, step, answer)
            if not isinstance(step, EndBegin):
                if end.membership is not None and not was_decided and self.on_end is not None:
                    self.on_end()
                self._ask_to_end(end, epoch)
            if end.done and not was_done:
                self.world.reach("deregistered for good", self.process.name)
                self.publish_store.forget()
                self.checker.forgets()
            if end.everywhere:
                self.world.reach("deregistered everywhere", self.process.name)
                self._left()

    def _left(self) -> None:
        self.leaving = False

    def give_up(self) -> None:
        """It ends before anything was sent: stores need to remember nothing of it."""
        registration = self.core.registration
        asked = AskedDeregister(
            self.core.name, 0, registration.epoch, unused_promise_to=self.identity
        )
        for store in sorted(registration.unused_promises()):
            self.process.start(self._take_back(store, asked))

    async def _take_back(self, store: str, asked: AskedDeregister) -> None:
        with contextlib.suppress(QuorateError):
            await self.network.call(self.process, store, "deregister", asked)
            self.world.reach("promise taken back", "%s from %s", self.process.name, store)

    def kill(self) -> None:
        registration = self.core.registration
        if registration.phase is Phase.STREAMING and not registration.final:
            self.world.reach("bringing-up interrupted", self.process.name)
        self.leaving = False
        self.process.kill()
        self.network.killed(self.process)

    # What follows from inputs.

    def _after_input(self) -> None:
        if self._is_closed:
            return  # Its calls, and what they tell, have ended with its streams.
        core = self.core
        self._sync_stores()
        if self._goes_to and core.tracker.stable_upto > self._became_stable[0]:
            # The application may be told later, when other rules are in force already.
            active = [store for store, epoch in self._taking.items() if epoch == self._decided]
            self._became_stable = core.tracker.stable_upto, self._goes_to, active
        if core.registration.phase is not Phase.PROMISING and core.epoch != self._decided:
            self._decided = core.epoch
            policies = core.registration.membership.policies
            setups = [Setup.of(policy) for policy in policies]
            if any(
                store in self.checker.wiped and core.registration.expected(store)
                for store in core.stores
            ):
                self.world.reach("wiped store in quorum", self.process.name)
            lineage = core.registration.lineage
            self.checker.decided(core.epoch, lineage, self.process.name, setups)
            self.checker.sends_again(self.number, self.publish_store.batches)
            to_policies = core.registration.membership.to_policies
            self._goes_to = [Setup.of(policy) for policy in to_policies]
            if self.on_decided is not None:
                self.on_decided()
        if core.stable_upto > self._settled_upto:
            upto, setups, active = self._became_stable
            upto = min(upto, core.stable_upto)
            if self._settled_upto < upto:
                self.checker.stable(self.number, setups, core.epoch, upto, active)
            if upto < core.stable_upto:
                active = [store for store, epoch in self._taking.items() if epoch == core.epoch]
                self.checker.stable(
                    self.number, self._goes_to, core.epoch, core.stable_upto, active
                )
            self._settled_upto = core.stable_upto
            self.publish_store.settle(core.stable_upto)
            self._stable_advanced()
        if core.registration.phase is not self._phase:
            self._phase = core.registration.phase
            self._wake()
        if core.events:
            told, core.events = core.events, []
            for event in told:
                self._note(event)
            self._wake()
        if core.version != self._version:
            self._version = core.version
            if core.epoch != self._epoch:
                self._epoch = core.epoch
                for store, over in self._over.items():
                    over.fail(Unreachable(store, "a newer epoch begins"))
            self._wake()
            self._publish(information_frame(core.information(), core.stable_upto))
        if core.loading and self._loading != core.epoch:
            self._loading = core.epoch
            self.process.start(self._load(core.epoch))
        self._soon()

    def _note(self, event: events.Event) -> None:
        self.world.note("%s: %s %s", self.process.name, type(event).__name__, event)
        match event:
            case events.QuorumLost():
                self.world.reach("quorum lost", self.process.name)
            case events.RegistrationComplete():
                if self._was_complete:
                    self.world.reach("quorum regained", self.process.name)
                self._was_complete = True
            case events.SourceFailed(error):
                if isinstance(error, ContentConflict):
                    self.checker.conflict(error)
                if isinstance(error, Fenced):
                    self.world.reach("source fenced", self.process.name)
                    self.checker.fenced(self.number)
                if isinstance(error, SourceActive):
                    self.world.reach("refused as another is active", self.process.name)
            case events.BackupSteppedIn():
                self.world.reach("backup steps in", self.process.name)
            case events.BackupSteppedBack():
                self.world.reach("backup steps back", self.process.name)
            case events.MembershipChanged():
                self.world.reach("membership changed", self.process.name)
            case events.StoreKeepsState(store):
                self.world.reach("registered with a store that takes no messages", store)
            case events.ReceiversLag():
                self.world.reach("source held up by receivers", self.process.name)
            case events.StoreCaughtUp():
                self.world.reach("store caught up")

    def _wake(self) -> None:
        for news in self._news.values():
            news.set()

    # One task a store.

    def _sync_stores(self) -> None:
        """A task for each store that the core deals with now; those of others end by themselves."""
        if self.core.roster.version != self._stores_version:
            self._stores_version = self.core.roster.version
            for store in self.core.stores:
                if store not in self._news:
                    self._news[store] = Event(self.process)
                    self._failures[store] = 0
                    self.process.start(self._run(store))
            for store in [store for store in self._news if store not in self.core.stores]:
                self._news.pop(store).set()
                if (over := self._over.get(store)) is not None:
                    over.fail(Unreachable(store, "it is not needed any more"))

    async def _run(self, store: str) -> None:
        core, news = self.core, self._news[store]
        while core.error is None and self._news.get(store) is news:
            step = core.step(store)
            try:
                await self._take(store, step)
            except QuorateError as error:
                if self._news.get(store) is not news:
                    return  # In production it is cancelled; another one deals with the store.
                if isinstance(error, Fenced) and core.registration.phase in (
                    Phase.BEGINNING,
                    Phase.LOADING,
                ):
                    self.world.reach("fenced in mid-recovery", self.process.name)
                core.failed(store, error, self.world.now)
            self._after_input()
            if core.step(store) == step and not isinstance(step, Hold):
                delay = min(2.0, 0.05 * 2 ** min(self._failures[store], 10))
                self._failures[store] += 1
                await self.process.sleep(delay * self.world.chooser.uniform(0.5, 1.0))

    async def _take(self, store: str, step: object) -> None:
        core, network = self.core, self.network
        match step:
            case AskPromise(epoch):
                asked = self._asked(epoch)
                answer = await network.call(self.process, store, "promise", asked)
                self._hear(answer.known, store)
                core.promised(store, epoch, answer.grant, self.world.now)
            case AskBegin():
                begin = AskedBegin(core.name, step, self.identity)
                answer = await network.call(self.process, store, "begin", begin)
                self._hear(answer.known, store)
                core.begun(store, step.begin.epoch, self.world.now, step.begin.membership)
            case OpenStream(epoch):
                await self._stream(store, epoch)
            case Hold():
                if (news := self._news.get(store)) is not None:
                    news.clear()
                    await news.wait()

    def _hear(self, known: Iterable[StoreReplaced], teller: str) -> None:
        """A store says which incarnations it knows of."""
        for said in known:
            gone = self.core.known(
                said.store_name, said.incarnation, said.former, self.world.now, teller
            )
            for store in gone:
                self._taking.pop(store, None)
            for store in gone:
                self.world.reach("source heard of a replaced store", store)
                if (over := self._over.get(store)) is not None:
                    over.fail(Unreachable(store, "it came back without its data"))
                self._after_input()

    async def _stream(self, store: str, epoch: int) -> None:
        over = self._over[store] = Pending()
        end = self.network.connect(self.process, store, "append", AppendRequest(self.identity))
        await end.write(self.core.open_frame(store))
        opened = await end.read(SILENCE_SECONDS)
        assert isinstance(opened, Opened)
        self._hear(opened.known, store)
        if opened.waited_for is not None:
            self.core.receivers_told(store, told_from_wire(opened.waited_for))
        if not self.core.opened(
            store, epoch, opened.next_sequence, opened.durability, self.world.now
        ):
            end.close(Closed("The stream"))
            raise Unreachable(store, "a newer epoch begins")
        if opened.durability != v1.DURABILITY_STATE_ONLY:
            self._taking[store] = epoch
        self._after_input()
        tasks = [
            self.process.start(self._read(store, end, over)),
            self.process.start(self._write(store, end)),
        ]
        try:
            await over
        except QuorateError:
            self._taking.pop(store, None)
            for task in tasks:
                task.cancel()
            end.close(Closed("The stream"))
            raise

    async def _read(self, store: str, end: End, over: Pending[None]) -> None:
        try:
            while True:
                said = await end.read()
                if isinstance(said, Durable):
                    self._failures[store] = 0
                    self.core.acknowledged(store, said.upto, self.world.now)
                    self._after_input()
                elif isinstance(said, WaitedFor):
                    self.core.receivers_told(store, told_from_wire(said))
                    self._after_input()
                else:
                    self._hear([said], store)
        except QuorateError as error:
            over.fail(error)

    async def _write(self, store: str, end: End) -> None:
        news = self._news[store]
        while True:
            news.clear()
            frame = self.core.next_frame(store, self.world.now)
            if frame is None:
                self._soon()
                await news.wait()
            else:
                await end.write(frame)

    def _asked(self, epoch: int) -> AskedPromise:
        decided_epoch = self.core.registration.decided_epoch
        return AskedPromise(self.core.name, epoch, self.identity, self.take_over, decided_epoch)

    async def _look(self, store: str) -> None:
        """Ask a store what it holds, while the stream moves to others."""
        core, epoch, grant = self.core, self.core.epoch, None
        asked = self._asked(epoch)
        try:
            answer = await self.network.call(self.process, store, "promise", asked)
            grant = answer.grant
        except QuorateError as error:
            self.world.note("%s: asking %s what it holds: %s", self.process.name, store, error)
        core.looked(store, epoch, grant, self.world.now)
        self._after_input()

    # What was kept of the last epoch.

    async def _load(self, epoch: int) -> None:
        core = self.core
        load = core.load()
        assert load is not None

        async def fetch_from(store: str, wanted: Range, kept: list[Kept]) -> int:
            if core.epoch != epoch:
                raise _Overtaken
            return await self._fetch_kept(store, load.lineage, wanted, kept)

        try:
            kept = await fetch_all(load, fetch_from, lambda: self.process.sleep(0.2))
        except _Overtaken:
            return
        if core.loading and core.epoch == epoch:
            if any(item.last > core.stable_upto for item in kept):
                self.world.reach("kept but unstable sent again", self.process.name)
            for item in kept:
                term = header_of(item.batch).epoch
                self.checker.loaded(self.number, term, item.first, item.last)
            core.loaded(kept, self.world.now)
            self._after_input()
            self._wake()

    async def _fetch_kept(
        self, store: str, lineage: Lineage, wanted: Range, kept: list[Kept]
    ) -> int:
        request = v1.FetchRequest(first=wanted.first, last=wanted.last)
        name = self.core.name
        request.source.topic, request.source.session_id = name.topic, name.session_id
        end = self.network.connect(self.process, store, "fetch", request)
        call = FetchCall(
            AnswerReading(store, name, wanted),
            lambda: end.read(SILENCE_SECONDS),
            lambda: end.close(Closed("The fetch")),
        )
        try:
            return await collect(call, store, lineage, wanted.first, kept)
        except QuorateError as error:
            self.world.note("%s: fetching what was kept: %s", self.process.name, error)
            return NOTHING

    # Packing.

    def _soon(self) -> None:
        if not self._scheduled and self.core.window.payloads:
            self._scheduled = True
            self.process.later(0.0, self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if not self.core.can_take:
            return
        if self.core.window.full or self.core.idle_quorum():
            self.process.start(self._pack())
        elif not self._late:
            self._late = True
            self.process.later(PATIENCE_SECONDS, self._pack_late)

    def _pack_late(self) -> None:
        self._late = False
        if self.core.can_take:
            self.process.start(self._pack())

    async def _pack(self) -> None:
        packed = self.core.take()
        if self.publish_store.outlives:
            await self.process.sleep(self.world.chooser.uniform(0.0, 0.002))
        batch = whole(packed.batch)
        self.publish_store.append(batch)
        contents = contents_of(batch, check_batch(batch))
        self.checker.released(
            self.number,
            self.core.epoch,
            packed.first,
            contents,
            remembered=self.publish_store.outlives,
        )
        frame = whole(self.core.release(packed, self.world.now))
        self._wake()
        self._publish(frame)
        self._soon()

    async def _tick(self) -> None:
        keepalive_at = self.world.now
        while self.core.error is None:
            await self.process.sleep(TICK_SECONDS)
            now = self.world.now
            if now >= keepalive_at:
                keepalive_at = now + KEEPALIVE_SECONDS
                # They stand for heartbeats, too: an actor has no connection but the stream's.
                for cursor in self.core.streams.cursors.values():
                    cursor.keepalive_due = True
                for attached in self._attached:
                    attached.keepalive_due = True
                    attached.news.set()
                self._wake()
            for store in self.core.streams.silent(now, SILENCE_SECONDS):
                self._over[store].fail(Unreachable(store, "it acknowledged nothing"))
            epoch = self.core.epoch
            started = self.core.started
            self.core.tick(now)
            if self.core.streams.stable_news(self.core.stable_upto):
                self._wake()
            for store in self.core.looks_due(now):
                self.process.start(self._look(store))
            if started and self.core.epoch != epoch:
                self.world.reach("promise that went nowhere overtaken", self.process.name)
            self._after_input()

    # Receivers.

    def _publish(self, frame: bytes) -> None:
        for attached in self._attached:
            if len(attached.frames) >= LIVE_FRAMES_MAX:
                self.world.reach("live stream overrun")
                attached.frames.clear()
            attached.frames.append(frame)
            attached.news.set()

    def _say_goodbye(self) -> None:
        self._publish(self.core.goodbye_frame())
        self._is_closed = True
        for attached in self._attached:
            attached.ended = True

    def _stable_advanced(self) -> None:
        if not self.core.window.payloads:
            for attached in self._attached:
                if attached.wants_stable:
                    attached.news.set()

    async def attach(self, end: End, wants_stable: bool) -> None:
        core = self.core
        if self._is_closed:
            raise Unreachable(self.process.name, "nobody listens")
        if not core.started:
            raise UnknownTopic(core.name.topic, "it is still registering")
        wants_stable = wants_stable or core.pacing.waits
        attached = _Attached(end, wants_stable, self.process)
        self._attached = [one for one in self._attached if one.end.error is None]
        self._attached.append(attached)
        hello = v1.Attached(information=core.information(), next_sequence=core.packed_upto + 1)
        attached.told_stable_upto = core.stable_upto
        await end.write(v1.Frame(attached=hello, stable_upto=core.stable_upto).SerializeToString())
        while end.error is None:
            attached.news.clear()
            stable_upto = core.stable_upto
            if attached.frames:
                attached.keepalive_due = False
                await end.write(attached.frames.popleft())
            elif attached.ended:
                return
            elif attached.keepalive_due or (
                attached.wants_stable and attached.told_stable_upto < stable_upto
            ):
                attached.keepalive_due = False
                attached.told_stable_upto = stable_upto
                await end.write(keepalive_frame(stable_upto))
            else:
                await attached.news.wait()

    async def fetch(self, end: End, request: v1.FetchRequest) -> None:
        for response in answers(self.core, request.first, request.last):
            await end.write(response)
