"""A registration of a source, with what stores say to it: no calls."""

from __future__ import annotations

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    Unreachable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Decision, Promise
from quorate.source.protocol.registration import (
    Grant,
    OwnKnowledge,
    Registration,
)

NAME = SourceName("orders", 0x10)
NOTHING_OWN = OwnKnowledge(-1, None)
DOWN = Unreachable("c:1", "down")


def registration(stores: str = "abc", policy: Policy | None = None) -> Registration:
    made = Registration(
        NAME, policy or Policy.majority_of(stores), tuple(stores), Behaviour.HIGHEST, 3.0
    )
    made.start(0.0)
    return made


def grant(promise: Promise | None = None, disk: str = "disk", name: str = "") -> Grant:
    return Grant(7, disk.encode(), promise or Promise(), name)


def held(upto: int, epoch: int = 1) -> Promise:
    policy = Policy.majority_of("abc")
    return Promise(
        begun=BeginRecord(Lineage((Term(epoch, 0),)), Membership((policy,), (policy,))),
        held=(HeldRange(0, upto, epoch),) if upto >= 0 else (),
    )


def promise_all(made: Registration, stores: str, promise: Promise | None = None) -> None:
    for store in stores:
        made.promised(store, made.epoch, grant(promise))


def decided(made: Registration, now: float = 0.0, own: OwnKnowledge = NOTHING_OWN) -> Decision:
    decision = made.decide(now, own)
    assert decision is not None
    return decision


def streaming(stores: str = "abc", policy: Policy | None = None) -> Registration:
    made = registration(stores, policy)
    promise_all(made, stores)
    decided(made)
    for store in stores:
        made.begun(store, made.epoch)
    made.streaming()
    return made


def begin_all(made: Registration, stores: str) -> None:
    for store in stores:
        made.begun(store, made.epoch)
