"""What the tests of the core share: three stores a, b, c, played by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tests.whole import whole

from quorate.protocol.begin import BeginRecord
from quorate.protocol.ends import Position, Told
from quorate.protocol.errors import (
    Fenced,
    Unreachable,
)
from quorate.protocol.framing import check_batch, encode_batch, read_payloads
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Promise
from quorate.source.options import SourceOptions
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import Grant
from quorate.source.protocol.resend_plan import Kept
from quorate.v1.messages_pb2 import Frame

T = TypeVar("T")

NAME = SourceName("orders", 0x10)
STORES = tuple(StoreAddress(store, f"{store}:1") for store in "abc")
POLICY = Policy.majority_of("abc")
DOWN = Unreachable("x:1", "down")
FSYNC = 1


def new(options: SourceOptions | None = None, **remembered: Any) -> SourceCore:
    core = SourceCore(NAME, STORES, POLICY, options or SourceOptions(), b"me", **remembered)
    core.start(0.0)
    return core


def promise(core: SourceCore, promises: dict[str, Promise], now: float = 0.0) -> None:
    for store, answer in promises.items():
        core.promised(store, core.epoch, Grant(7, b"disk", answer), now)


def begin(core: SourceCore, stores: str, now: float = 0.0) -> None:
    for store in stores:
        core.begun(store, core.epoch, now)


def opened(
    core: SourceCore, store: str, epoch: int, next_sequence: int, durability: int, now: float
) -> bool:
    """The store's stream is opened, and answered at once."""
    core.open_frame(store)
    return core.opened(store, epoch, next_sequence, durability, now)


def positions(told: Mapping[int, int]) -> Told:
    """A store says so of receivers, all of them living."""
    return Told({receiver: Position(upto) for receiver, upto in told.items()})


def registered(options: SourceOptions | None = None) -> SourceCore:
    core = new(options)
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "abc")
    for store in "abc":
        core.receivers_told(store, positions({}))
        opened(core, store, core.epoch, 0, FSYNC, 0.0)
    assert core.complete
    return core


def send(core: SourceCore, *payloads: bytes, now: float = 0.0) -> bytes:
    """Pack these messages into one batch and release it; returns its frame."""
    core.window.add(payloads, [], sum(map(len, payloads)), 0)
    return whole(core.release(core.take(), now))


def frames(core: SourceCore, store: str, now: float = 0.0) -> list[Frame]:
    """Everything that this store's stream has to say."""
    said = []
    while (frame := core.next_frame(store, now)) is not None:
        said.append(Frame.FromString(frame))
    return said


def payloads(said: Sequence[Frame]) -> list[bytes]:
    return [
        payload
        for frame in said
        if frame.WhichOneof("kind") == "batch"
        for payload in read_payloads(frame.batch, check_batch(frame.batch))
    ]


def the(core: SourceCore, kind: type[T]) -> list[T]:
    return [event for event in core.events if isinstance(event, kind)]


def may_take(core: SourceCore) -> bool:
    return core.can_take


def earlier(upto: int, stable_upto: int = -1, epoch: int = 1) -> Promise:
    return Promise(
        BeginRecord(Lineage((Term(epoch, 0),)), Membership((POLICY,), (POLICY,))),
        (HeldRange(0, upto, epoch),) if upto >= 0 else (),
        stable_upto,
    )


def batch(first: int, *payloads: bytes, epoch: int = 1) -> bytes:
    return encode_batch(NAME, epoch, first, payloads, 0)


def kept(first: int, *payloads: bytes, store: str = "a") -> Kept:
    return Kept(first, first + len(payloads) - 1, batch(first, *payloads), store)


def resumed(promises: dict[str, Promise], **remembered: Any) -> SourceCore:
    """A source that has started again: decided, and begun on those that promised."""
    core = new(**remembered)
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, promises)
    core.tick(5.0)
    begin(core, "".join(promises), 5.0)
    return core


def answer_of(core: SourceCore, held_upto: int) -> Promise:
    """What a store says that has begun this core's epoch."""
    registration = core.registration
    return Promise(
        BeginRecord(registration.lineage, registration.membership),
        (HeldRange(0, held_upto, 1),) if held_upto >= 0 else (),
    )


def look(
    core: SourceCore, answers: dict[str, Promise | None], now: float, disk: bytes = b""
) -> None:
    """Answer all looks that are due."""
    epoch = core.epoch
    for store in core.looks_due(now):
        answer, grant = answers.get(store), core.registration.grant(store)
        if answer is not None:
            grant = Grant(7, disk or (grant.incarnation if grant else b""), answer)
        core.looked(store, epoch, grant if answer else None, now)


def streams(core: SourceCore, stores: str, now: float, upto: int = 3) -> None:
    for store in stores:
        assert opened(core, store, core.epoch, upto + 1, FSYNC, now)
