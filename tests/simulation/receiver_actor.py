"""A receiver of the simulated world: the production core, a thin shell, and what takes messages.

The shell does what quorate.receiver's session, registrar, live stream, fetching and acknowledger
do, in virtual time. Nothing here decides the order of messages, nor as what it is registered where,
nor who runs when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from tests.receiver.subscribed import to_all_of
from tests.simulation.acknowledging import Acknowledging
from tests.simulation.asks import AskedAcknowledge, AskedDeregister, Entry, answer_of
from tests.simulation.checker import Checker
from tests.simulation.content import handed
from tests.simulation.network import End, Network
from tests.simulation.receiver_checks import RegisteredAs
from tests.simulation.world import Event, Pending, Process, Task, World

from quorate.protocol.answers import AnswerReading, Corrupt, LargePiece, Piece
from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    FORMER_DIRECTORY,
    Closed,
    InLimbo,
    QuorateError,
    ReceiverActive,
    Unreachable,
)
from quorate.protocol.fragments import Batch
from quorate.protocol.framing import BatchHeader
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import Range
from quorate.receiver.cursor import Cursor
from quorate.receiver.io.fetch import take_answer
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.message import DeliveredBatch
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.consumed import Acknowledgements
from quorate.receiver.protocol.deregistration import Ending
from quorate.receiver.protocol.directory import (
    Directory,
    SourceRecord,
    record_from_wire,
)
from quorate.receiver.protocol.fetch_plan import (
    SOURCE,
    FetchPlan,
    Request,
)
from quorate.receiver.protocol.live_stream import (
    Detached,
    Following,
    Gone,
    Heard,
    NotAttached,
)
from quorate.receiver.protocol.registration import (
    Answered,
    Ask,
    Joined,
    OutdatedForgotten,
    Refused,
    Registration,
    Rest,
    Step,
    TooFewTake,
)
from quorate.receiver.protocol.start_position import (
    StartPosition,
    chosen_again,
    decide_start,
)
from quorate.receiver.protocol.stream import (
    BatchOutcome,
    Room,
    Stream,
)
from quorate.v1 import messages_pb2 as v1

REQUEST_SECONDS = 1.0
SILENCE_SECONDS = 3.0
REGISTRATION_SECONDS = 0.3
ACKNOWLEDGE_SECONDS = 0.1
REPEAT_SECONDS = 3.0
HOUSEKEEPING_SECONDS = 1.0
DEREGISTER_RETRY_SECONDS = 0.1
HOLD_SECONDS = 0.000_05
LIVE_BYTES_MAX = 1_500
FETCHED_BYTES_MAX = 4_000


class _Stream(Stream):
    """As it is, but notes a rare state."""

    reached: Callable[[], None]

    def live(self, header: BatchHeader, frame: bytes) -> BatchOutcome:
        verdict = super().live(header, frame)
        if verdict is BatchOutcome.NO_ROOM:
            self.reached()
        return verdict


class _Plan(FetchPlan):
    """As it is, but notes a rare state."""

    def __init__(self, stream: Stream, stores: Sequence[str], reached: Callable[[], None]) -> None:
        super().__init__(stream, stores)
        self._reached = reached

    def fetched(
        self, request: Request, header: BatchHeader, frame: Batch, first: int, last: int, now: float
    ) -> BatchOutcome:
        verdict = super().fetched(request, header, frame, first, last, now)
        if verdict is BatchOutcome.VOID:
            self._reached()
        return verdict


class ReceiverInstance:
    """One receiver in one process."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        name: str,
        source: SourceName,
        session_id: int,
        stores: Sequence[str],
        stable: bool,
        mode: Acknowledging,
        consensus: Behaviour,
        repeat_seconds: float,
        ends: Callable[[], None],
        number: int,
        take_over: bool,
    ) -> None:
        """ends: is called when it was fenced, or refused.

        number: which one it is of this receiver's instances, from 0 on.
        """
        self._ends = ends
        self._repeat_seconds = repeat_seconds
        self._take_over = take_over
        self.number = number
        self.world = world
        self.network = network
        self.checker = checker
        self._checks = checker.receivers
        self.name = name
        self.source = source
        self.session_id = session_id
        self.is_stable = stable
        self.mode = mode
        self.options = ReceiverOptions(consensus=consensus)
        self.process = Process(world, name)
        self.fenced = False
        self.refused = False
        """Another instance is protected."""
        self.record: SourceRecord
        self.registration: Registration
        self.stream: Stream
        self.plan: FetchPlan
        self.following: Following
        self._live_awaited_since: float | None = None
        """The time since which the next frame of the live stream is awaited; None: none is."""
        self.acknowledgements: Acknowledgements
        self.registered = False
        self.has_asked = False
        """The stores have answered, and it has registered nowhere."""
        self.holds_back = False
        """It does not register yet."""
        # As with the product, the order of two instances is no order in time.
        self._identity = blake2b(f"{name}, the {number}".encode(), digest_size=16).digest()
        self._directory = Directory()
        self._known = False
        self._inbox = Inbox(1 << 30)
        self._filled = Event(self.process)
        self._directory_changed = Event(self.process)
        self._lineage_changed = Event(self.process)
        self._wakes: dict[str, Event] = {}
        self._workers: dict[str, Task] = {}
        self._room = Room(LIVE_BYTES_MAX, FETCHED_BYTES_MAX)
        self._cursor = Cursor(mode.mode)
        for store in stores:
            self.process.start(self._watch(store))
        self.process.start(self._run())

    def kill(self) -> None:
        self.process.kill()
        self.network.killed(self.process)
        self._checks.ended(self.name, self.number)

    @property
    def over(self) -> bool:
        """It is dead, or another instance has fenced it."""
        return self.fenced or not self.process.alive

    @property
    def epoch(self) -> int:
        return self.registration.epoch

    def deregister(self) -> None:
        """Ask the stores to forget the receiver, as quorate.receiver.io.deregister does."""
        self.fenced = True
        for worker in self._workers.values():
            worker.cancel()
        ending = Ending()
        for store, _ in self.record.stores:
            self.process.start(self._deregister_at(store, ending))

    async def _deregister_at(self, store: str, ending: Ending, pause: float = 0.0) -> None:
        if pause:
            await self.process.sleep(pause)
        asked = AskedDeregister(self.source, self.session_id, self.epoch, self._identity)
        self.checker.endings.receiver_over(self.session_id, asked.epoch)
        while True:
            try:
                word = await self.network.call(self.process, store, "deregister", asked)
            except QuorateError as error:
                self.world.note("%s: deregistering at %s: %s", self.name, store, error)
                if not error.retryable:
                    return
                await self.process.sleep(DEREGISTER_RETRY_SECONDS)
            else:
                self.world.reach("receiver deregistered at a store", self.name)
                again = ending.answered(store, word)
                self.checker.endings.receiver_forgotten(self.name, store)
                self.checker.endings.receiver_not_forgotten(self.name, again)
                for each in sorted(again):
                    self.world.reach("end told to what a store was before", each)
                    self.process.start(self._deregister_at(each, ending, DEREGISTER_RETRY_SECONDS))
                return

    async def _run(self) -> None:
        while not self._known:
            await self._directory_changed.pause()
        start = await self._register()
        epoch = start.lineage.epoch
        self._checks.started_at(
            self.name, self.number, self._registered_as, start.first, epoch, is_new=start.says_start
        )
        self.world.note("%s starts at %s %s", self.name, start.first, start.point)
        self.stream = stream = _Stream(
            start.lineage,
            start.first,
            known_upto=start.high,
            stable_upto=start.stable_upto,
            hold_back=self.is_stable,
            room=self._room,
        )
        stream.reached = partial(self.world.reach, "live batch found no room")
        stream.heard_of_epoch(self.record.epoch)
        names = [name for name, _ in self.record.stores]
        void = "fetched batch of an outdated lineage"
        self.plan = _Plan(stream, names, partial(self.world.reach, void, self.name))
        self.plan.source_live = self.record.live
        self.plan.proxy = self.record.proxy
        self.following = Following(self.record, stream, self.plan)
        self.acknowledgements = Acknowledgements(start.first)
        if start.says_start or self.record.paced:
            self.acknowledgements.say_start()
        self.registered = True
        self._staff()
        self.process.start(self._acknowledge_all())
        self.process.start(self._follow())
        self.process.start(self._consume())
        await self._keep_house()

    # The directory.

    async def _watch(self, store: str) -> None:
        while True:
            end = self.network.connect(self.process, store, "watch")
            try:
                while True:
                    entry = await end.read()
                    assert isinstance(entry, Entry)
                    record = record_from_wire(entry.information, live=entry.live, proxy=entry.proxy)
                    if (merged := self._directory.heard(store, record)) is not None:
                        self._update(merged)
            except QuorateError:
                for changed in self._directory.lost(store):
                    self._update(changed)
            await self.process.sleep(self.world.chooser.uniform(0.05, 0.5))

    def _update(self, record: SourceRecord) -> None:
        if not self._known:
            self._known = True
            self.record = record
            self.registration = Registration(
                record.source,
                record.stores,
                record.policy,
                self.session_id,
                self._identity,
                REGISTRATION_SECONDS,
                take_over=self._take_over,
            )
            self._directory_changed.set()
            return
        before = self.record
        if record.order < before.order:
            live = record.live and record.epoch == before.epoch
            proxy = record.proxy if record.epoch == before.epoch else ""
            record = replace(before, live=live, proxy=proxy)
        self.record = record
        changed = (before.epoch, before.address, before.stores) != (
            record.epoch,
            record.address,
            record.stores,
        )
        self.registration.source_has(record.stores, record.policy)
        self._directory_changed.set()
        if not self.registered:
            return
        if record.paced:
            self.acknowledgements.say_start()
        self.following.source_is(record)
        self.plan.source_live = record.live
        self.plan.proxy = record.proxy
        if changed:
            self.stream.heard_of_epoch(record.epoch)
            self.plan.set_stores([name for name, _ in record.stores])
            self.plan.source_changed()
            self._staff()
        self._wake()

    def _staff(self) -> None:
        """One worker for each peer."""
        peers = [SOURCE, *self.plan.stores]
        for peer in [peer for peer in self._workers if peer not in peers]:
            self._workers.pop(peer).cancel()
            del self._wakes[peer]
        for peer in peers:
            if peer not in self._workers:
                self._wakes[peer] = Event(self.process)
                self._workers[peer] = self.process.start(self._work(peer))

    # Registration.

    async def _register(self) -> StartPosition:
        await self._hear_enough(self.registration.ask)
        before = self._decide_start(self.options)
        self.has_asked = True
        while self.holds_back:
            await self.process.sleep(HOLD_SECONDS)
        await self._hear_enough(self.registration.register)
        return self._decide_start(replace(self.options, choose_start=chosen_again(before)))

    async def _hear_enough(self, try_all: Callable[[], None]) -> None:
        while True:
            try_all()
            await self._carry_out()
            if self.registration.enough:
                return
            await self._directory_changed.pause(0.5)

    def _decide_start(self, options: ReceiverOptions) -> StartPosition:
        record, answers = self.record, self.registration.answers
        seen = to_all_of(record.source)
        return decide_start(record.source, record.policy, answers, options, seen)

    async def _keep_house(self) -> None:
        while not self.fenced:
            await self.process.sleep(HOUSEKEEPING_SECONDS)
            self.registration.keep_house()
            await self._carry_out()

    async def _carry_out(self) -> None:
        """Do what the registration asks for, as quorate.receiver.io.register."""
        while not self.fenced and (step := self._step()) is not None:
            match step:
                case Rest(delays):
                    await self.process.sleep(self.world.chooser.uniform(0, delays.first))
                    self.registration.rested()
                case Ask():
                    await self._ask_all(step)
        if self.over:
            await Pending[None]()  # for ever

    def _step(self) -> Step | None:
        registration = self.registration
        step = registration.step(self.world.now)
        told, registration.events = registration.events, []
        for event in told:
            match event:
                case OutdatedForgotten():
                    state = "store heard from its receiver that it had ended"
                    self.world.reach(state, self.name)
                case Answered(_, answer):
                    self._withdraw(self.stream.adopt(answer.lineage))
                case Refused(store, InLimbo(reason=reason)) if reason == FORMER_DIRECTORY:
                    self.world.reach("receiver heard of a replaced store", store)
                case TooFewTake():
                    self.world.reach("receiver finds too few that know it", self.name)
                case Joined():
                    self._checks.registered_anew(self.name, self.number, self._registered_as)
        self._end_if_over()
        return step

    async def _ask_all(self, ask: Ask) -> None:
        answered = Event(self.process)
        tasks = [self.process.start(self._ask(ask, store, answered)) for store in ask.stores]
        while not self.fenced and self._step() is ask:
            until = self.registration.wait_until()
            seconds = None if until is None else max(0.0, until - self.world.now) + 1e-6
            await answered.pause(seconds)
        for task in tasks:
            task.cancel()

    async def _ask(self, ask: Ask, store: str, answered: Event) -> None:
        asked = ask.request
        try:
            told = await self.network.call(self.process, store, "register_receiver", asked)
        except QuorateError as error:
            self.registration.failed(ask, store, error)
        else:
            if told.told.limbo and not asked.asks_only:
                self.world.reach("receiver registered with a store in limbo", store)
            self.registration.answered(ask, store, answer_of(told))
        answered.set()

    @property
    def _registered_as(self) -> RegisteredAs:
        return RegisteredAs(self.session_id, self.epoch, self.record.policy)

    def _end_if_over(self) -> None:
        """Its application is told why it can not go on."""
        error = self.registration.error
        if error is None or self.over:
            return
        if isinstance(error, ReceiverActive):
            self.refused = True
        else:
            self.fenced = True
            self.world.reach("receiver fenced", self.name)
        self.kill()
        self.world.later(0.0, self._ends)

    # The live stream.

    async def _follow(self) -> None:
        following = self.following
        while True:
            address = following.attach()
            end = self.network.connect(self.process, address, "attach", self.is_stable)
            watchdog = self.process.start(self._watch_live(end, address))
            try:
                while True:
                    self._live_awaited_since = self.world.now
                    frame = v1.Frame.FromString(await end.read())
                    self._live_awaited_since = None
                    await self._take_live(frame)
            except QuorateError as error:
                seconds = following.ended(error)
            watchdog.cancel()
            end.close(Closed("The live stream"))
            self._note_following()
            self._wake()
            if seconds is not None:
                await self._directory_changed.pause(seconds)

    async def _watch_live(self, end: End, address: str) -> None:
        why: QuorateError | None = None
        while why is None:
            await self._directory_changed.pause(1.0)
            if self._live_awaited_since is not None:
                silent_for = self.world.now - self._live_awaited_since
                if silent_for > SILENCE_SECONDS:
                    self.following.silent(address, Unreachable(address, "it said nothing"))
            why = self.following.why_leave()
        end.leave(why)

    async def _take_live(self, frame: v1.Frame) -> None:
        while (epoch := self.following.take(frame)) is not None:
            self._note_following()
            await self._learn_lineage(epoch)
        self._note_following()
        self._hand_on()

    def _note_following(self) -> None:
        told, self.following.events = self.following.events, []
        for event in told:
            match event:
                case Heard(record):
                    self._update(record)
                case Gone(last):
                    self.world.reach("source says goodbye", "%s up to %s", self.name, last)
                case Detached(error) | NotAttached(error):
                    self.world.note("%s: live stream: %s", self.name, error)

    async def _learn_lineage(self, epoch: int) -> None:
        self.stream.heard_of_epoch(epoch)
        while self.stream.lineage.epoch < epoch:
            self._lineage_changed.clear()
            self._wake()
            await self._lineage_changed.wait()

    def _withdraw(self, withdrawn: Range | None) -> None:
        self._lineage_changed.set()
        if withdrawn is None:
            return
        delivered = min(self._inbox.take_back(self.source, withdrawn.first), withdrawn.last)
        self.acknowledgements.withdraw(withdrawn.first, delivered)
        if delivered >= withdrawn.first:
            self.world.reach("delivered messages withdrawn", "%s %s", self.name, withdrawn)
            epoch = self.stream.lineage.epoch
            self._checks.withdrawn(self.name, self.number, withdrawn.first, delivered, epoch)

    def _hand_on(self) -> None:
        for piece in self.stream.take_ready():
            progress = self.acknowledgements.progress
            self._inbox.put(DeliveredBatch(piece, progress, lambda *_: None))
            self._filled.set()
        if self.stream.behind:
            self._wake()

    def _settle(self) -> None:
        self._hand_on()
        while (gap := self.plan.gap(self.world.now)) is not None:
            self.world.reach("gap", "%s [%s, %s]", self.name, gap.first, gap.last)
            self._checks.gap(self.name, self.number, gap, self.stream.lineage.epoch)
            self.acknowledgements.progress.skip(gap.first, gap.last)
            self.stream.skip(gap.last)
            self._hand_on()

    # Fetching.

    def _wake(self) -> None:
        for woken in self._wakes.values():
            woken.set()

    async def _work(self, peer: str) -> None:
        plan, world = self.plan, self.world
        while True:
            request = plan.request(peer, world.now)
            if request is None:
                wake_at = plan.wake_at(peer, world.now)
                seconds = None if wake_at is None else max(0.0, wake_at - world.now)
                await self._wakes[peer].pause(seconds)
                continue
            address = self.record.address if peer == SOURCE else peer
            wire = v1.FetchRequest(first=request.first, last=request.last)
            wire.source.topic, wire.source.session_id = self.source.topic, self.source.session_id
            end = self.network.connect(self.process, address, "fetch", wire)
            try:
                await self._fetch(end, request)
            except QuorateError:
                plan.failed(request, world.now)
            end.close(Closed("The fetch"))
            self._settle()
            self._wake()

    async def _fetch(self, end: End, request: Request) -> None:
        plan = self.plan
        reading = AnswerReading(request.peer, self.source, Range(request.first, request.last))
        while True:
            while plan.needs_room(request) and self._room.waiting_bytes > FETCHED_BYTES_MAX:
                if not plan.front_under_way():
                    # Not at once: of a peer that lacks the front the same would be asked again.
                    await self.process.sleep(0.1)
                    plan.given_back(request)
                    return
                await self._wakes[request.peer].pause(0.1)
            response = await end.read(REQUEST_SECONDS)
            for answer in reading.answers(response):
                withdrawn = take_answer(plan, self.source, request, answer, self.world.now)
                if isinstance(answer, Piece | LargePiece | Corrupt):
                    self._hand_on()
                elif isinstance(answer, v1.FetchEnd):
                    self._withdraw(withdrawn)
                else:
                    said = v1.Lookup.Name(answer.why).removeprefix("LOOKUP_").lower()
                    self.world.reach(f"store said {said}", "%s to %s", request.peer, self.name)
            if reading.is_over:
                return

    # The application.

    async def _consume(self) -> None:
        chooser = self.world.chooser
        held_back: list[tuple[DeliveredBatch, int]] = []
        while True:
            batch = self._inbox.take()
            if batch is None:
                # Nothing new is there: what was taken out of order is done with now.
                self._finish(held_back)
                if self.record.paced:
                    self._finish_last()
                self._filled.clear()
                await self._filled.wait()
                continue
            self._cursor.enter(batch)
            for sequence, content in enumerate(handed(batch), batch.first):
                self._checks.delivered(self.name, self.number, batch.epoch, sequence, content)
            if chooser.random() < 0.2:
                await self.process.sleep(chooser.uniform(0.0, 0.02))
            for sequence in range(batch.first, batch.last + 1):
                self._checks.consumed(self.name, self.number, batch.epoch, sequence)
            match self.mode:
                case Acknowledging.EACH:
                    held_back += [(batch, n) for n in range(batch.first, batch.last + 1)]
                    chooser.shuffle(held_back)
                    if len(held_back) > 6:
                        self._finish(held_back)
                case Acknowledging.ALL_BEFORE:
                    if chooser.random() < 0.5:
                        batch.acknowledge(all_before=True)
                case Acknowledging.AUTOMATIC:
                    pass

    def _finish_last(self) -> None:
        """More is wanted, and none may come before what was taken is acknowledged."""
        if self.mode is Acknowledging.ALL_BEFORE and self._cursor.batch is not None:
            self._cursor.batch.acknowledge(all_before=True)
        self._cursor.leave()

    @staticmethod
    def _finish(held_back: list[tuple[DeliveredBatch, int]]) -> None:
        for batch, sequence in held_back:
            batch._progress.consumed(sequence)
        held_back.clear()

    # Acknowledgements.

    async def _acknowledge_all(self) -> None:
        confirmed: dict[str, tuple[int, float]] = {}
        busy: set[str] = set()
        while not self.fenced:
            await self.process.sleep(ACKNOWLEDGE_SECONDS)
            self._cursor.count()
            position = self.acknowledgements.position(self.stream.stable_upto)
            if position is None:
                position = NOTHING
            for store, _ in self.record.stores:
                before, at = confirmed.get(store, (NOTHING, 0.0))
                if store not in self.registration.joined or store in busy:
                    continue
                if position > before or self.world.now - at >= self._repeat_seconds:
                    busy.add(store)
                    self.process.start(self._acknowledge(store, position, confirmed, busy))

    async def _acknowledge(
        self,
        store: str,
        position: int,
        confirmed: dict[str, tuple[int, float]],
        busy: set[str],
    ) -> None:
        source_epoch = self.stream.lineage.epoch
        self._checks.acknowledges(self.name, self.number, position, source_epoch)
        asked = AskedAcknowledge(
            self.source, self.session_id, self.epoch, position, source_epoch, self._identity
        )
        try:
            await self.network.call(self.process, store, "acknowledge", asked)
            confirmed[store] = position, self.world.now
        except Unreachable:
            pass
        except QuorateError as error:
            confirmed.pop(store, None)
            if not self.fenced:
                self.registration.acknowledgement_refused(store, error)
                self._end_if_over()
        busy.discard(store)
