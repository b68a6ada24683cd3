"""A store under the fuzzer: its service behind its guard, over RocksDB, without a network.

A round makes a new store, calls it with changed requests, and then looks whether it is well: it
serves a lawful source, its tasks run, and it starts again from its disk with the same state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.message import Message
from tests.fuzz import corpus
from tests.fuzz.judge import HELD_UP_SECONDS_MAX, Finding, memory_bytes, told
from tests.fuzz.mutation import Mutator
from tests.fuzz.watching import complaints
from tests.store.support import ORDERS, Client, batch, configuration

from quorate.protocol.access import EVERY_VERB, Access
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import FRAME_BYTES_MAX, NOTHING, PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.wire import source_to_wire
from quorate.store.node import StoreNode
from quorate.store.rpc.guard import SERVICE, Admission, guarded
from quorate.store.rules.source_state import SourceState
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

CALLS = 300
"""Calls of one round."""
_GROWTH_BYTES_MAX = 256 * 1024 * 1024
"""Bytes by which a round may make the process grow."""
_LAWFUL = SourceName("a lawful topic", 0x99)
_SERVICE = store_v1.DESCRIPTOR.services_by_name["Store"]
_WAITS_SECONDS = 0.02
"""Seconds for which a stream is read that may wait for news."""
_ANSWERS_SECONDS = 10.0
"""Seconds within which any call has an answer."""
_RESPONSES_MAX = 50
_TOPICS = [
    {"pattern": "orders", "keys": ["$key"]},
    {"pattern": "trades", "durability": "memory", "keys": ["id"]},
]


class Refused(Exception):
    """A call ended with an error that is one of Quorate's."""


_BUNDLED = {
    "promise": "PromiseRequest",
    "begin": "BeginRequest",
    "register_receiver": "RegisterReceiverRequest",
    "acknowledge": "AcknowledgeRequest",
    "watch": "WatchRequest",
}
"""The calls of a bundle: the field of each, and its kind."""


def _field(name: str, request: Message) -> dict[str, Any]:
    return {name: request}


class Call:
    """The context of one call: its client sends these frames, and hangs up."""

    def __init__(self, frames: Iterable[Message] = ()) -> None:
        self._frames = iter(frames)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:9"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_common_name": [b"stranger"]}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    async def read(self) -> Any:
        await asyncio.sleep(0)
        return next(self._frames, grpc.aio.EOF)

    async def write(self, message: Message | bytes) -> None:
        if isinstance(message, Message):
            message.SerializeToString()

    async def abort(self, code: grpc.StatusCode, details: str, metadata: Any) -> None:
        del code, metadata
        details.encode()
        raise Refused(details)

    async def frames(self) -> AsyncIterator[Any]:
        while (frame := await self.read()) is not grpc.aio.EOF:
            yield frame


class Round:
    """One round with a store of its own."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Begin with this seed. directory: is made for the store."""
        self._directory = directory
        self._seed = seed
        self._mutator = Mutator(seed)
        self._epoch = 1
        self.findings: list[Finding] = []

    async def run(self, calls: int = CALLS) -> list[Finding]:
        """Make so many calls, and return what is wrong."""
        had = memory_bytes()
        with complaints() as complained:
            node = await self._started()
            await self._prepare(node)
            for _ in range(calls):
                await self._one(node)
                if node._failure is not None:
                    self._found("the store", f"it stops: {node._failure!r}")
                    break
            else:
                await self._look(node)
            before = _states(node)
            await node.stop()
            await self._start_again(before)
        for complaint in complained:
            self._found("inside", complaint)
        if (grew := memory_bytes() - had) > _GROWTH_BYTES_MAX:
            self._found("memory", f"it grew by {grew:,} bytes")
        return self.findings

    def _found(self, where: str, what: object, data: bytes = b"") -> None:
        self.findings.append(Finding("store", self._seed, f"{where}: {what}"[:1500], data))

    async def _started(self) -> StoreNode:
        node = StoreNode(
            configuration(
                self._directory,
                topic=_TOPICS,
                new_identities_per_second=0,
                disk_free_min_bytes=0,
                disk_free_warning_bytes=0,
            )
        )
        await node.start()
        assert node._service is not None
        access = Access((EVERY_VERB,))
        self._calls = guarded(node._service, Admission(lambda: access, None), SERVICE)
        return node

    async def _prepare(self, node: StoreNode) -> None:
        """Give the store some lawful content."""
        async with Client(node.address) as client:
            for source in (ORDERS, SourceName("trades", 0x11)):
                stream = await client.stream(source=source)
                await stream.append(0, 4, source=source, key=b"a")
                await stream.append(5, 9, source=source, key=b"b")
                await stream.close()

    async def _look(self, node: StoreNode) -> None:
        """Find out whether the store is well."""
        for task in node._tasks:
            if task.done():
                self._found("a task of the store", f"it has ended: {task!r}")
        async with Client(node.address) as client:
            async with asyncio.timeout(_ANSWERS_SECONDS * 3):
                stream = await client.stream(source=_LAWFUL)
                await stream.append(0, 9, source=_LAWFUL)
                await stream.close()
                fetched = await client.fetch(0, 9, _LAWFUL)
                assert set(fetched.messages) == set(range(10))
                await self._fetch_all(node, client)

    async def _fetch_all(self, node: StoreNode, client: Client) -> None:
        """Fetch what the store has of each source: all of it has its checksum and its number."""
        assert node._engine is not None
        for source, state in list(node._engine.core.sources.items()):
            for problem in _impossible(state):
                self._found(f"the state of {source}", problem)
            for part in state.held.ranges:
                request = v1.FetchRequest(
                    source=source_to_wire(source),
                    first=part.first,
                    last=min(part.last, part.first + 1000),
                    protocol_version=PROTOCOL_VERSION,
                )
                async for response in client.stub.Fetch(request):
                    for answer in response.answers:
                        self._check_fetched(source, answer)

    def _check_fetched(self, source: SourceName, answer: v1.FetchAnswer) -> None:
        if answer.WhichOneof("kind") != "fetched" or answer.fetched.HasField("fragment"):
            return
        try:
            header = check_batch(answer.fetched.batch)
        except CorruptBatch as error:
            self._found("a batch that was taken", error)
            return
        if header.source != source or header.last > SEQUENCE_MAX:
            self._found("a batch that was taken", f"{header} of {source}")

    async def _start_again(self, before: dict[SourceName, Any]) -> None:
        """Start the store again. It has the state that it had."""
        try:
            node = await self._started()
        except Exception as error:
            self._found("the next start", f"{type(error).__name__}: {error}")
            return
        after = _states(node)
        for source in before.keys() | after.keys():
            if before.get(source) != after.get(source):
                what = f"{before.get(source)} became {after.get(source)}"
                self._found(f"the next start, {source}", what)
        await node.stop()

    # -- calls --------------------------------------------------------------------------------

    async def _one(self, node: StoreNode) -> None:
        method = self._mutator.random.choice(_SERVICE.methods)
        serve = getattr(self._calls, method.name)
        if method.name == "Append":
            requests = self._append(node)
        elif method.name == "Bundle":
            requests = self._bundle(node)
        elif method.client_streaming:
            requests = self._restore()
        else:
            requests = [self._request(node, method.input_type.name)]
        call, began = Call(requests), time.thread_time()
        try:
            async with asyncio.timeout(_ANSWERS_SECONDS):
                if method.name in ("Append", "Bundle"):
                    await serve(None, call)
                elif method.server_streaming:
                    given = call.frames() if method.client_streaming else requests[0]
                    await read(serve(given, call))
                else:
                    (await serve(requests[0], call)).SerializeToString()
        except Refused:
            pass
        except Exception as error:
            self._report(method.name, requests, told(error))
        if (took := time.thread_time() - began) > HELD_UP_SECONDS_MAX:
            self._report(method.name, requests, f"it took {took:.1f} s of CPU")

    def _report(self, method: str, requests: list[Any], what: str) -> None:
        self._found(method, what, repr([str(each) for each in requests]).encode())

    def _request(self, node: StoreNode, kind: str) -> Message:
        message = corpus.kinds()[kind].FromString(
            self._mutator.random.choice(corpus.inputs(kind) or (b"",))
        )
        self._make_current(node, message)
        return self._maybe_changed(message)

    def _maybe_changed(self, message: Message, probability: float = 0.8) -> Message:
        """Return the message or a changed one, as it comes out of a decoder."""
        if self._mutator.chance(probability):
            changed = self._mutator.message(message)
            message = changed if changed.ByteSize() <= FRAME_BYTES_MAX else message
        if getattr(message, "wait_seconds", 0.0) > 0:
            setattr(message, "wait_seconds", _WAITS_SECONDS)  # noqa: B010 - other kinds have none
        return type(message).FromString(message.SerializeToString())

    def _make_current(self, node: StoreNode, message: Any) -> None:
        """Let a request be about what the store has, so that it is not refused at once."""
        assert node._engine is not None
        names = message.DESCRIPTOR.fields_by_name
        if "protocol_version" in names:
            message.protocol_version = PROTOCOL_VERSION
        if "incarnation" in names and self._mutator.chance(0.8):
            message.incarnation = node._engine.core.standing.record.incarnation
        if "source" in names and self._mutator.chance(0.7):
            message.source.CopyFrom(source_to_wire(self._known(node)))
        if "topic" in names and self._mutator.chance(0.7):
            message.topic = self._known(node).topic
        if "epoch" in names and self._mutator.chance(0.5):
            message.epoch = self._mutator.random.choice((1, 2, self._epoch, self._epoch + 1))
        for _, value in message.ListFields():
            if isinstance(value, store_v1.Position):
                for place in value.places:
                    place.source.CopyFrom(source_to_wire(self._known(node)))

    def _known(self, node: StoreNode) -> SourceName:
        assert node._engine is not None
        known = [each for each in node._engine.core.sources if each != _LAWFUL]
        return self._mutator.random.choice(known or [ORDERS])

    def _append(self, node: StoreNode) -> list[Message]:
        """Return the frames of a stream: its source registers first, mostly lawfully."""
        assert node._engine is not None
        source, standing = self._known(node), node._engine.core.standing
        state = node._engine.core.sources.get(source)
        if state is not None and self._mutator.chance(0.9):
            self._epoch = state.registration.begun.epoch
        information = v1.SourceInformation(
            source=source_to_wire(source), address="127.0.0.1:9", epoch=self._epoch, version=1
        )
        if self._mutator.chance(0.3):
            information.receiver_pacing.messages = 5
        instance = state.registration.promised_to if state is not None else b"a"
        opening = v1.AppendOpen(
            information=information,
            instance=instance,
            protocol_version=PROTOCOL_VERSION,
            incarnation=standing.record.incarnation,
        )
        frames: list[Message] = [v1.Frame(open=opening, stable_upto=NOTHING)]
        at = 0 if state is None else state.held.next_sequence
        for _ in range(self._mutator.random.randint(0, 6)):
            frames.append(self._frame(source, at, information))
            at += 3
        changed = [self._maybe_changed(frame, 0.25) for frame in frames]
        return [self._on_lanes(frame) for frame in changed]

    def _on_lanes(self, frame: Any) -> Message:
        """Return a message with a frame, mostly on the first lane."""
        lane = 1 if self._mutator.chance(0.95) else self._mutator.random.randrange(3)
        sent = store_v1.LaneFrame(lane=lane, frame=frame)
        return store_v1.AppendFrames(frames=[sent])

    def _frame(self, source: SourceName, at: int, information: v1.SourceInformation) -> v1.Frame:
        frame = batch(at, at + 2, self._epoch, source, key=b"k") if at < SEQUENCE_MAX - 9 else b""
        match self._mutator.random.randrange(8):
            case 0:
                return v1.Frame(skip=v1.Skip(first=at, last=at + 2))
            case 1:
                return v1.Frame(keepalive=v1.Keepalive(), stable_upto=at - 1)
            case 2:
                return v1.Frame(information=information)
            case 3:
                return v1.Frame(fragment=v1.Fragment(at=0, size=len(frame), data=frame))
            case 4:
                return v1.Frame(goodbye=v1.Goodbye(last_sequence=at))
            case _:
                return v1.Frame(batch=frame, stable_upto=at - 1)

    def _bundle(self, node: StoreNode) -> list[Message]:
        """Return bundles of calls, some of which are given up."""
        calls = [
            store_v1.BundledCall(id=number, **_field(field, self._request(node, kind)))
            for number, (field, kind) in enumerate(_BUNDLED.items(), 1)
        ]
        first = store_v1.BundleRequest(protocol_version=PROTOCOL_VERSION, calls=calls[:3])
        second = store_v1.BundleRequest(calls=calls[3:], given_up=[2, 4])
        return [self._maybe_changed(each, 0.3) for each in (first, second)]

    def _restore(self) -> list[Message]:
        recorded = map(store_v1.RestoreRequest.FromString, corpus.inputs("RestoreRequest"))
        openings = [each for each in recorded if each.HasField("open")]
        opening: Any = self._mutator.random.choice(openings)
        opening.open.protocol_version = PROTOCOL_VERSION
        source = SourceName(opening.open.source.topic, opening.open.source.session_id)
        frames = [store_v1.RestoreRequest(batch=batch(at, at + 2, 1, source)) for at in (0, 3, 6)]
        return [self._maybe_changed(each, 0.3) for each in (opening, *frames)]


async def read(responses: AsyncIterator[Any]) -> None:
    """Read a stream, but not for longer than it has something to say."""
    count = 0
    async with aclosing(responses):  # type: ignore[type-var]
        while count < _RESPONSES_MAX:
            # A stream that waits for news is cancelled, as if its client had left.
            reading = asyncio.ensure_future(anext(responses, None))
            done, _ = await asyncio.wait((reading,), timeout=_WAITS_SECONDS)
            if not done:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                return
            if (response := reading.result()) is None:
                return
            response.SerializeToString()
            count += 1


def _impossible(state: SourceState) -> Iterator[str]:
    """Yield what no source can be like."""
    held, lineage = state.held, state.lineage
    if held.ranges.high > SEQUENCE_MAX or not -1 <= held.stable_upto <= SEQUENCE_MAX:
        yield f"numbers {held}"
    terms = lineage.terms
    if any(not (a.epoch < b.epoch and a.first < b.first) for a, b in pairwise(terms)):
        yield f"lineage {lineage}"
    if state.registration.begun.epoch > state.registration.promised_epoch:
        yield f"epochs {state.registration}"


def _states(node: StoreNode) -> dict[SourceName, Any]:
    """Return what a store knows of its sources, and what its disk must have."""
    assert node._engine is not None
    return {
        source: (
            list(state.held.ranges),
            state.held.next_sequence,
            state.registration.promised_epoch,
            state.registration.begun.epoch,
            state.lineage,
            state.registration.begun.membership,
        )
        for source, state in node._engine.core.sources.items()
    }


def rounds(
    directory: Path, first: int, count: int, calls: int = CALLS
) -> tuple[list[Finding], int]:
    """Run rounds with consecutive seeds. Return what is wrong, and the number of inputs."""
    found: list[Finding] = []
    for seed in range(first, first + count):
        found += asyncio.run(Round(directory / str(seed), seed).run(calls))
    return found, count * calls
