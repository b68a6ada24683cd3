"""The shell of a registration: it calls stores, and limits the time they may take.

The protocol folder decides which stores to ask, and what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf

from quorate.protocol.errors import QuorateError
from quorate.protocol.incarnations import Word
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.wire import lineage_from_wire, source_to_wire
from quorate.receiver.io.channels import (
    CALL_SECONDS,
    Peers,
)
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.registration import (
    Ask,
    Event,
    Registration,
    RegistrationRequest,
    Rest,
    Step,
)
from quorate.receiver.protocol.start_position import StoreAnswer
from quorate.transport.delays import delay
from quorate.transport.epochs import in_steps
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY, Lifetimes


def answer_from_wire(answer: store_v1.RegisterReceiverResponse) -> StoreAnswer:
    """Return the answer. Raise InvalidArgument if the store sent an impossible one."""
    return StoreAnswer(
        answer.reg_id,
        answer.known,
        max(answer.acknowledged_upto, NOTHING),
        answer.high,
        answer.stable_upto,
        lineage_from_wire(answer.lineage),
        limbo=answer.limbo,
        source_reg_id=answer.source_reg_id,
        low=answer.low,
        retained_from=answer.retained_from,
        state_only=answer.durability == DURABILITY_STATE_ONLY,
        told_ended=answer.ended_epoch,
        epoch=answer.epoch,
        alive_for=min(
            answer.lifetimes.activity_timeout_seconds or inf,
            answer.lifetimes.state_lifetime_seconds or inf,
        ),
        word=_word(
            answer.incarnation, tuple([each.SerializeToString() for each in answer.known_stores])
        ),
    )


# Cached: a store says the same to all receivers. Each message that is kept also keeps the frame in
# which it came.
@lru_cache(maxsize=256)
def _word(incarnation: bytes, known: tuple[bytes, ...]) -> Word:
    return Word(incarnation, tuple(map(store_v1.StoreReplaced.FromString, known)))


class Registrar:
    """The registrar: registers one receiver of one source with its stores."""

    def __init__(
        self,
        registration: Registration,
        peers: Peers,
        reg_ids: Mapping[str, int],
        options: ReceiverOptions,
        tell: Callable[[Event], None],
    ) -> None:
        """Begin unregistered.

        reg_ids: the RegIDs that the application chose, by store address. tell: gets each event.
        """
        self._registration = registration
        self._peers = peers
        self._reg_ids = reg_ids
        self._lifetimes = Lifetimes(
            activity_timeout_seconds=options.activity_timeout or 0.0,
            state_lifetime_seconds=options.state_lifetime or 0.0,
        )
        self._waited_for = options.waited_for
        self._tell = tell

    async def ask(self) -> None:
        """Ask the stores without registering. Raise ReceiverActive or RegIdInUse."""
        self._registration.ask()
        await self._carry_out()

    async def register(self) -> None:
        """Register with the stores. Raise ReceiverActive or RegIdInUse."""
        self._registration.register()
        await self._carry_out()

    async def keep_house(self) -> None:
        """Register with stores that were away. Raise Fenced if another instance has replaced this
        one, and Deregistered."""
        self._registration.keep_house()
        await self._carry_out()

    async def _carry_out(self) -> None:
        while (step := self._step()) is not None:
            match step:
                case Rest(delays):
                    await asyncio.sleep(delay(delays, 1))
                    self._registration.rested()
                case Ask():
                    await self._ask_all(step)
        if self._registration.error is not None:
            raise self._registration.error

    def _step(self) -> Step | None:
        registration = self._registration
        step = registration.step(asyncio.get_running_loop().time())
        told, registration.events = registration.events, []
        for event in told:
            self._tell(event)
        return step

    async def _ask_all(self, ask: Ask) -> None:
        loop = asyncio.get_running_loop()
        addresses = self._registration.stores
        asked = {asyncio.ensure_future(self._ask(ask, s, addresses[s])) for s in ask.stores}
        try:
            while self._step() is ask:
                until = self._registration.wait_until()
                done, _ = await asyncio.wait(
                    {task for task in asked if not task.done()},
                    timeout=None if until is None else max(0.0, until - loop.time()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    task.result()
        finally:
            for task in asked:
                task.cancel()

    async def _ask(self, ask: Ask, store: str, address: str) -> None:
        async def register(epoch: int) -> StoreAnswer:
            asked = ask.request
            ended_epoch = min(asked.ended_epoch, epoch - 1)
            if (asked.epoch, asked.ended_epoch) != (epoch, ended_epoch):
                asked = replace(asked, epoch=epoch, ended_epoch=ended_epoch)
            request = self._request(asked, address)
            with errors_of(address):
                answer = await self._peers.bundle(address).register_receiver(request, CALL_SECONDS)
            return answer_from_wire(answer)

        try:
            taken = await in_steps(ask.request.epoch, register)
        except QuorateError as error:
            self._registration.failed(ask, store, error)
        else:
            self._registration.answered(ask, store, taken)

    def _request(
        self, asked: RegistrationRequest, address: str
    ) -> store_v1.RegisterReceiverRequest:
        return store_v1.RegisterReceiverRequest(
            source=source_to_wire(asked.source),
            session_id=asked.session_id,
            reg_id=self._reg_ids.get(address, 0),
            epoch=asked.epoch,
            instance=asked.instance,
            take_over=asked.take_over,
            lifetimes=self._lifetimes,
            not_waited_for=not self._waited_for,
            ended_epoch=asked.ended_epoch,
            asks_only=asked.asks_only,
            is_open=asked.is_open,
            protocol_version=PROTOCOL_VERSION,
            application=self._peers.application,
        )
