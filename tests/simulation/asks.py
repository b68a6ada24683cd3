"""What the actors of the simulated world say to each other where no wire message is needed."""

from __future__ import annotations

from typing import NamedTuple

from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import Word
from quorate.receiver.protocol.start_position import StoreAnswer
from quorate.source.protocol.registration import (
    AskBegin,
    Grant,
)
from quorate.store.rpc.requests import AskedPromise as AskedPromise
from quorate.store.rpc.requests import RegisteredReceiver as RegisteredReceiver
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import StoreReplaced, WaitedFor


class Promised(NamedTuple):
    known: list[StoreReplaced]
    grant: Grant


class AskedBegin(NamedTuple):
    source: SourceName
    step: AskBegin
    instance: bytes


class Begun(NamedTuple):
    known: list[StoreReplaced]
    set_aside: int


class Registered(NamedTuple):
    told: RegisteredReceiver
    word: Word


def answer_of(registered: Registered) -> StoreAnswer:
    """What a store says that registered a receiver, as the receiver takes it."""
    told, answer = registered.told, registered.told.answer
    return StoreAnswer(
        answer.reg_id,
        answer.known,
        answer.acknowledged_upto,
        answer.high,
        answer.stable_upto,
        answer.lineage,
        limbo=told.limbo,
        low=answer.low,
        retained_from=answer.retained_from,
        told_ended=answer.ended_epoch,
        epoch=answer.epoch,
        word=registered.word,
    )


class AskedAcknowledge(NamedTuple):
    source: SourceName
    session_id: int
    epoch: int
    upto: int
    source_epoch: int
    instance: bytes


class AskedDeregister(NamedTuple):
    source: SourceName
    receiver: int
    """Its session ID; 0: the source itself."""
    epoch: int
    instance: bytes = b""
    unused_promise_to: bytes = b""


class AppendRequest(NamedTuple):
    instance: bytes


class Opened(NamedTuple):
    next_sequence: int
    durability: v1.Durability
    known: list[StoreReplaced]
    waited_for: WaitedFor | None = None


class Durable(NamedTuple):
    upto: int


class Entry(NamedTuple):
    """What a store's directory says of a source."""

    information: v1.SourceInformation
    live: bool
    proxy: str
