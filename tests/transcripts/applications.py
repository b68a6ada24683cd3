"""The applications of a story. Each has a source or a receiver, and tells what that tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.transcripts import words
from tests.transcripts.telling import GETS, HEARS, PUBLISHES, Story
from tests.world.world import Process, World

from quorate.client import ReceiverOptions, SourceOptions, connect, replay
from quorate.client import receiver_events as of_receivers
from quorate.client import source_events as of_sources
from quorate.client.settings import Stores
from quorate.errors import QuorateError
from quorate.receiver.receiver import Receiver
from quorate.source.source import Source

TOPIC = "orders"
SOURCE_SESSION = 1
RECEIVER_SESSION = 2


@dataclass
class Application:
    """The part that all applications of a story share."""

    world: World
    story: Story
    name: str
    stores: Stores
    previous: tuple[Stores, ...] = ()
    error: QuorateError | None = None
    """The error that the application got; None: none."""

    def start(self) -> Process:
        """Start its process."""
        return self.world.start(self.name, self._run)

    async def _run(self) -> None:
        try:
            async with connect(self.stores, previous_policies=self.previous) as client:
                await self._use(client)
        except QuorateError as error:
            self.error = error
            self._tell(f"the end, {words.error(error)}")

    async def _use(self, client: Any) -> None:
        raise NotImplementedError

    def _do(self, act: Callable[[], Any]) -> None:
        """Let the application call something, now."""
        self.world.processes[self.name].loop.create_task(self._done(act))

    async def _done(self, act: Callable[[], Any]) -> None:
        try:
            await act()
        except QuorateError as error:
            self._tell(f"refused, {words.error(error)}")

    def _tell(self, says: str) -> None:
        self.story.tell(self.name, HEARS, "", says)


@dataclass
class SourceApplication(Application):
    """An application that publishes."""

    take_over: bool = False
    options: SourceOptions | None = None
    source: Source | None = None
    """The source that it publishes with; None: it is not open."""

    async def _use(self, client: Any) -> None:
        async with client.source(
            TOPIC,
            session_id=SOURCE_SESSION,
            take_over=self.take_over,
            options=self.options,
            timeout=None,
            on_event=self._note,
        ) as self.source:
            await asyncio.Event().wait()

    def publish(self, *payloads: str) -> None:
        """Publish messages, all at once."""
        for payload in payloads:
            self.story.tell(self.name, PUBLISHES, "", f"'{payload}'")
            self._do(partial(self._publish, payload))

    async def _publish(self, payload: str) -> None:
        assert self.source is not None
        await self.source.send(payload.encode())

    def deregister(self) -> None:
        """End the source."""
        assert self.source is not None
        self._do(self.source.deregister)

    @property
    def is_registered(self) -> bool:
        """True if it may publish."""
        return self.source is not None and self.source.registered

    @property
    def stable_upto(self) -> int:
        """The number up to which all its messages are stable."""
        return self.source.stable_upto if self.source is not None else -1

    def _note(self, event: object) -> None:
        match event:
            case of_sources.RegistrationComplete():
                stores = ", ".join(sorted(event.stores))
                self._tell(f"registered with {stores}, the next message is {event.first_sequence}")
            case of_sources.MessageStable():
                self._tell(f"{words.numbers(event.first, event.last)} stable")
            case of_sources.QuorumLost():
                self._tell("too few stores take messages")
            case of_sources.NotStable():
                self._tell(f"{words.numbers(event.first, event.last)} may never be stable")
            case of_sources.SourceFailed():
                self.error = event.error
                self._tell(f"the end, {words.error(event.error)}")
            case of_sources.DeregistrationComplete():
                self._tell("deregistered")
            case of_sources.BackupSteppedIn():
                self._tell(f"{event.backup} has taken the place of {event.member}")
            case of_sources.BackupSteppedBack():
                self._tell(f"{event.member} has its place back from {event.backup}")


@dataclass
class ReceiverApplication(Application):
    """An application that takes messages."""

    delivery: str = "stable"
    take_over: bool = False
    options: ReceiverOptions | None = None
    receiver: Receiver | None = None
    """The receiver that hands it messages; None: it is not open."""
    taken_upto: int = -1
    """The last message that it was handed."""

    async def _use(self, client: Any) -> None:
        async with client.receiver(
            TOPIC,
            session_id=RECEIVER_SESSION,
            start="earliest",
            delivery=self.delivery,
            take_over=self.take_over,
            options=self.options,
            timeout=None,
            on_event=self._note,
        ) as self.receiver:
            async for message in self.receiver:
                text = f"{message.sequence} '{message.payload.decode()}'"
                self.story.tell(self.name, GETS, "", text)
                self.taken_upto = message.sequence

    def deregister(self) -> None:
        """End the receiver."""
        assert self.receiver is not None
        self._do(self.receiver.deregister)

    def _note(self, event: object) -> None:
        match event:
            case of_receivers.RegistrationComplete():
                self._tell(f"registered, {event.first_sequence} comes first")
            case of_receivers.Withdrawn():
                self._tell(f"{words.numbers(event.first, event.last)} withdrawn")
            case of_receivers.Gap():
                why = event.cause.name.lower()
                self._tell(f"a gap, {words.numbers(event.first, event.last)} ({why})")


@dataclass
class SubscriberApplication(Application):
    """An application that replays what stores have."""

    given_upto: int = -1
    """The last message that it was given."""

    async def _use(self, client: Any) -> None:
        async with client.subscriber(TOPIC, chooser=replay.in_order, timeout=None) as subscriber:
            async for item in subscriber:
                if isinstance(item, replay.ReplayedMessage):
                    text = f"{item.sequence} '{item.payload.decode()}'"
                    self.story.tell(self.name, GETS, "", text)
                    self.given_upto = item.sequence
