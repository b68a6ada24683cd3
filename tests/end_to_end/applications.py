"""A source, a receiver and an operator as users have them, each telling what it saw.

    python -m tests.end_to_end.applications source|receiver|operator SETTINGS-AS-JSON

Orders come in as lines of JSON, [name, arguments…]; what is seen goes out as lines of JSON, at
once, so that it is known even if the application is killed right after. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any

import grpc.aio

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import NotRegistered, NotYetStable, QuorateError
from quorate.protocol.wire import begun_epoch
from quorate.receiver import (
    Gap,
    Receiver,
    ReceiverOptions,
    RegistrationComplete,
    StartingPoint,
    Withdrawn,
)
from quorate.source import FilePublishStore, Layout, ReceiverPacing, Source, SourceOptions
from quorate.transport.status import read_status, status_request
from quorate.v1 import store_pb2 as v1
from quorate.v1.store_pb2_grpc import StoreStub

TOPIC = "history"
_LOOK_SECONDS = 0.05
_RETRY_SECONDS = 0.1
_CHAT_SECONDS = 0.05


def tell(kind: str, *facts: Any) -> None:
    """Say what was seen."""
    line = json.dumps([kind, *facts]).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def tell_error(error: QuorateError) -> None:
    tell("error", type(error).__name__, str(error))


def message(tag: str, number: int, size: int) -> bytes:
    return f"{tag}:{number}:".encode() + b"." * size


def name_of(payload: bytes) -> str:
    """What `message` was given, if the content is as it was made."""
    tag, number, rest = payload.split(b":", 2)
    assert rest == b"." * len(rest), payload
    return f"{tag.decode()}:{number.decode()}"


def _plain_options(given: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Callable[[Any], Any]] = {
        "receiver_pacing": lambda pacing: ReceiverPacing(**pacing),
        "consensus": Behaviour,
    }
    return {name: made.get(name, lambda plain: plain)(value) for name, value in given.items()}


def _layout(written: str) -> str | Layout:
    """A list of stores as it is; groups of them are written as in a file."""
    return Layout.from_toml(written) if "[[groups]]" in written else written


class Application:
    """Does what it is told; each order is a method of that name."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._orders: asyncio.Queue[list[Any] | None] = asyncio.Queue()
        self._beside: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is told to close, or an error ends it."""
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()
        try:
            await self.open()
            while (order := await self._orders.get()) is not None:
                name, *arguments = order
                await getattr(self, name)(*arguments)
                if name == "close":
                    tell("closed")
                    break
        except QuorateError as error:
            tell_error(error)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in iter(sys.stdin.readline, ""):
            loop.call_soon_threadsafe(self._orders.put_nowait, json.loads(line))
        # Whoever gives the orders is gone: so is this.
        os._exit(1)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it while other orders are followed."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class SourceApplication(Application):
    """Numbers its messages tag:1, tag:2, …"""

    source: Source
    longest = 0.0
    """The longest time in seconds from a publish to its receipt, since `measured`."""
    _sent = 0
    _chatting = False
    _loading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """settings: stores, session, tag; persistent: try again for as long as that may help."""
        given = self.settings
        path = given.get("publish")
        options = SourceOptions(**_plain_options(given.get("options", {})))
        while True:
            try:
                self.source = await Source.open(
                    TOPIC,
                    stores=_layout(given["stores"]),
                    previous_policies=[_layout(each) for each in given.get("previous", ())],
                    session_id=given["session"],
                    publish_store=FilePublishStore(path) if path else None,
                    take_over=given.get("take_over", False),
                    options=options,
                    timeout=given.get("timeout", 30.0),
                )
                break
            except QuorateError as error:
                if not error.retryable or not given.get("persistent"):
                    raise
                tell("retried", type(error).__name__, str(error))
                await asyncio.sleep(_RETRY_SECONDS)
        tell("opened", self.source.epoch, self.source.next_sequence)
        self.beside(self._watch())

    async def _watch(self) -> None:
        async for event in self.source.events():
            facts = {field.name: str(getattr(event, field.name)) for field in fields(event)}
            tell("event", type(event).__name__, facts)

    async def send(self, count: int, size: int = 100) -> None:
        """Send so many messages, in one go, once enough stores take the stream.

        On a busy machine a store that is up may be silent for a moment.
        """
        await self._send(count, size, wait_quorum=True)

    async def _send(self, count: int, size: int, *, wait_quorum: bool) -> None:
        before = self._sent + 1
        payloads = [self._made(size) for _ in range(count)]
        numbers = await self.source.send_many(payloads, wait_quorum=wait_quorum)
        self._accepted(numbers.start, range(before, self._sent + 1))

    async def try_to_send(self) -> None:
        """Send a message, and say so if it is refused."""
        try:
            await self._send(1, 100, wait_quorum=False)
        except QuorateError as error:
            tell_error(error)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until what was sent is stable."""
        upto = self.source.next_sequence - 1
        with contextlib.suppress(NotYetStable):
            await self.source.flush(timeout)
            tell("stable", upto)

    async def publish(self) -> None:
        """Send a message for a receipt; does not hold up what is ordered next."""
        self.beside(self._publish())

    async def _publish(self) -> None:
        payload = self._made(100)
        try:
            receipt = await self.source.publish(payload)
            self.longest = max(self.longest, receipt.seconds)
            tell("receipt", receipt.sequence, name_of(payload), receipt.epoch)
        except QuorateError as error:
            tell_error(error)

    async def chat(self) -> None:
        """Send in every way until told to be quiet."""
        self._chatting = True
        self.beside(self._chat())

    async def quiet(self) -> None:
        """Begin nothing new, and wait for the receipts of a load."""
        self._chatting = False
        if self._loading is not None:
            await self._loading

    async def load(self, every: float) -> None:
        """Publish a message every so many seconds until told to be quiet."""
        self._chatting = True
        self._loading = asyncio.create_task(self._load(every))

    async def _load(self, every: float) -> None:
        async with asyncio.TaskGroup() as publishing:
            while self._chatting:
                publishing.create_task(self._publish())
                await asyncio.sleep(every)

    async def _chat(self) -> None:
        choice = random.Random(self.settings["tag"])
        while self._chatting:
            size = choice.choice((10, 100, 100, 1000, 50_000))
            try:
                match choice.randrange(4):
                    case 0:
                        for _ in range(20):
                            number = await self.source.send(self._made(size))
                            self._accepted(number, range(self._sent, self._sent + 1))
                    case 1:
                        count = choice.randrange(1, 200)
                        await self._send(count, min(size, 1000), wait_quorum=False)
                    case 2:
                        self.beside(self._publish())
                    case 3:
                        await self.flush(1)
                tell("stable", self.source.stable_upto)
            except NotRegistered:
                pass
            except QuorateError as error:
                tell_error(error)
                os._exit(1)
            await asyncio.sleep(_CHAT_SECONDS)

    async def finish(self) -> None:
        """One message more, which becomes stable however long that takes."""
        while True:
            try:
                receipt = await self.source.publish(payload := self._made(100))
                tell("receipt", receipt.sequence, name_of(payload), receipt.epoch)
                tell("finished", receipt.sequence)
                return
            except NotRegistered:
                await asyncio.sleep(_RETRY_SECONDS)

    async def measured(self) -> None:
        """Tell the longest wait for a receipt since this was last asked."""
        tell("longest", self.longest)
        self.longest = 0.0

    async def close(self) -> None:
        await self.source.close()

    def _made(self, size: int) -> bytes:
        self._sent += 1
        return message(self.settings["tag"], self._sent, size)

    def _accepted(self, first: int, numbers: range) -> None:
        tell("accepted", first, [f"{self.settings['tag']}:{number}" for number in numbers])


class ReceiverApplication(Application):
    """Takes everything as it comes."""

    receiver: Receiver

    async def open(self) -> None:
        """settings: stores, session, delivery; moody: stop for a moment every few seconds;
        request_maximum; start: where it wants to start, or "low" for what it is shown as such;
        takes: after so many batches it takes nothing more.
        """
        given = self.settings
        self.receiver = await Receiver.open(
            TOPIC,
            stores=given["stores"],
            session_id=given["session"],
            delivery=given["delivery"],
            options=ReceiverOptions(
                request_maximum=given.get("request_maximum"),
                choose_start=self._choose if "start" in given else None,
            ),
        )
        tell("opened")
        self.beside(self._watch())
        if self.settings.get("takes") != 0:
            self.beside(self._receive())

    def _choose(self, point: StartingPoint) -> int:
        wanted = self.settings["start"]
        chosen: int = point.low if wanted == "low" else wanted
        tell("chose", chosen, point.low, point.low_by_request_maximum, point.high)
        return chosen

    async def _receive(self) -> None:
        choice = random.Random(self.settings["tag"])
        next_mood = time.monotonic() + 1.0
        left = self.settings.get("takes", -1)
        try:
            async for batch in self.receiver.batches():
                names = [name_of(payload) for payload in batch.payloads]
                tell("delivered", batch.first, names, batch.epoch)
                if (left := left - 1) == 0:
                    return
                if self.settings.get("moody") and time.monotonic() > next_mood:
                    await asyncio.sleep(choice.uniform(0.1, 1.0))
                    next_mood = time.monotonic() + choice.uniform(1.0, 4.0)
                # It asks for the next one now, which acknowledges this one.
                tell("taken", batch.last)
        except QuorateError as error:
            tell_error(error)

    async def _watch(self) -> None:
        async for event in self.receiver.events():
            match event:
                case RegistrationComplete():
                    tell("starts", event.first_sequence, event.low, event.high)
                case Withdrawn():
                    tell("withdrawn", event.first, event.last)
                case Gap():
                    tell("gap", event.first, event.last, event.cause.name, repr(event))
                case _:
                    tell("event", type(event).__name__, repr(event))

    async def close(self) -> None:
        await self.receiver.close()


class OperatorApplication(Application):
    """Looks at the stores again and again and tells what changed."""

    async def open(self) -> None:
        pass

    async def look(self, name: str, address: str) -> None:
        """Look at this store, too, from now on."""
        self.beside(self._look(name, address))

    async def _look(self, name: str, address: str) -> None:
        request = status_request()
        options = [
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 1000),
            ("grpc.max_reconnect_backoff_ms", 50),
            ("grpc.dns_min_time_between_resolutions_ms", 50),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        before: dict[str, Any] | None = None
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            while True:
                try:
                    answer = await read_status(StoreStub(channel).Status(request, timeout=1))
                    now = _store_facts(answer)
                except grpc.aio.AioRpcError:
                    now = {}
                if now != before:
                    before = now
                    tell("store", name, now)
                await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        pass


def _store_facts(answer: v1.StatusResponse) -> dict[str, Any]:
    return {
        "limbo": answer.limbo,
        "limbo_reason": answer.limbo_reason,
        "incarnation": answer.incarnation.hex(),
        "peers": {peer.store_name: peer.reachable for peer in answer.peers},
        "sources": {
            str(source.information.source.session_id): {
                "promised": source.promised_epoch,
                "begun": begun_epoch(source.begun),
                "live": source.live,
                "held": [[held.first, held.last, held.epoch] for held in source.held],
                "holes": [[hole.first, hole.last] for hole in source.holes],
                "stable_upto": source.stable_upto,
                "limbo": source.limbo,
                "proxy": source.proxy,
                "receivers": {
                    str(receiver.session_id): receiver.acknowledged_upto
                    for receiver in source.receivers
                },
            }
            for source in answer.sources
        },
    }


_ROLES = {
    "source": SourceApplication,
    "receiver": ReceiverApplication,
    "operator": OperatorApplication,
}

if __name__ == "__main__":
    asyncio.run(_ROLES[sys.argv[1]](json.loads(sys.argv[2])).run())
    # What still waits for stdin must not hold this up.
    os._exit(0)
