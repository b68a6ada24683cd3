"""A registration of a receiver, with what stores say to it: no calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tests.receiver.fakes import NAME

from quorate.protocol.delays import Delays
from quorate.protocol.errors import (
    Fenced,
    QuorateError,
    ReceiverActive,
    StoreStopping,
)
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Policy
from quorate.receiver.protocol.registration import (
    Ask,
    Registration,
    Rest,
)
from quorate.receiver.protocol.start_position import StoreAnswer

POLICY = Policy.majority_of("abc")
INTERVAL = 1.0
ONE = Lineage((Term(1, 0),))
YES = StoreAnswer(100, True, 7, 9, 9, ONE)
NEW = replace(YES, known=False, acknowledged_upto=NOTHING)
AWAY = StoreStopping("it")

Said = StoreAnswer | QuorateError | int
"""An epoch: the store holds that one against what is asked."""
E = TypeVar("E")


class Registering:
    """A registration, and the time; says to it what stores say."""

    def __init__(
        self,
        stores: str = "abc",
        policy: Policy = POLICY,
        *,
        take_over: bool = False,
        drawn: bool = False,
    ) -> None:
        addresses = [(store, f"{store}:1") for store in stores]
        self.core = Registration(
            NAME,
            addresses,
            policy,
            0x20,
            b"this",
            INTERVAL,
            take_over=take_over,
            drawn=drawn,
        )
        self.now = 0.0

    @property
    def step(self) -> object:
        return self.core.step(self.now)

    @property
    def ask(self) -> Ask:
        step = self.step
        assert isinstance(step, Ask)
        return step

    def said(self, **said: Said) -> None:
        """Give the present question the answers of these stores."""
        ask = self.ask
        assert set(said) <= set(ask.stores)
        for store, what in said.items():
            if isinstance(what, StoreAnswer):
                self.core.answered(ask, store, what)
            elif isinstance(what, int):
                self.core.failed(ask, store, Fenced("it", ask.request.epoch, what))
            else:
                self.core.failed(ask, store, what)

    def rests(self, delays: Delays) -> None:
        step = self.step
        assert isinstance(step, Rest)
        assert step.delays is delays
        self.core.rested()

    def is_done(self) -> bool:
        return self.step is None

    def registered(self, **said: Said) -> None:
        """It is, as far as these stores say."""
        self.core.register()
        self.said(**said or dict.fromkeys("abc", YES))
        self.now += INTERVAL
        assert self.is_done()
        self.core.events.clear()

    def enough(self) -> bool:
        return self.core.enough

    def error(self) -> QuorateError | None:
        return self.core.error

    def fenced(self) -> tuple[int, int]:
        """Its own epoch, and the one that ended it."""
        error = self.core.error
        assert isinstance(error, Fenced)
        return error.epoch, error.promised

    def told(self, kind: type[E]) -> list[E]:
        return [each for each in self.core.events if isinstance(each, kind)]


def asked(ask: Ask) -> tuple[Sequence[str], int]:
    return ask.stores, ask.request.epoch


def active(seconds: float) -> ReceiverActive:
    return ReceiverActive("receiver 0x20", "c", int(seconds * 1000))
