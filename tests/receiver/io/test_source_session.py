"""What a receiver takes of what it is told of its source."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from tests.receiver.fakes import NAME
from tests.receiver.subscribed import to_all_of

from quorate.protocol.delivery import Delivery
from quorate.protocol.policy import Policy
from quorate.receiver import RegistrationChanged, SourceChanged
from quorate.receiver.events import Event
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.io.redelivery import Redelivery
from quorate.receiver.io.source_session import Session
from quorate.receiver.options import AcknowledgeMode, ReceiverOptions
from quorate.receiver.protocol.directory import SourceRecord
from quorate.receiver.protocol.stream import Room
from quorate.transport.event_log import EventLog

HERE, THERE = "here:1", "there:1"
OLD_STORES, NEW_STORES = (
    tuple((name, f"{name}:1") for name in names) for names in (("a", "b", "c"), ("a", "b", "d"))
)
POLICY = Policy.majority_of("abc")
RECORD = SourceRecord(NAME, HERE, 1, 2, POLICY, OLD_STORES, live=True)


def session() -> Session:
    """One that is still registering."""
    peers: Any = None
    acknowledging: Any = None
    inbox = Inbox(1 << 20)
    return Session(
        RECORD,
        peers=peers,
        session_id=0x20,
        reg_ids={},
        take_over=False,
        delivery=Delivery.LIVE,
        options=ReceiverOptions(),
        inbox=inbox,
        redelivery=Redelivery(inbox, AcknowledgeMode.EXPLICIT),
        room=Room(live_bytes_max=1 << 20, fetched_bytes_max=1 << 20),
        events=EventLog(),
        stores_changed=lambda: None,
        subscribed=AsyncMock(return_value=to_all_of(NAME)),
        may_register=asyncio.Event(),
        acknowledging=acknowledging,
        patience=0.0,
    )


def told(subject: Session) -> list[Event]:
    return list(subject.events.kept())


@pytest.mark.parametrize(("live", "proxy"), [(True, ""), (False, "a")])
async def test_a_directory_that_is_an_epoch_behind_says_nothing(live: bool, proxy: str) -> None:
    """Not even who serves the source: that is of an epoch that is over."""
    subject = session()
    said = replace(
        RECORD,
        epoch=2,
        address=THERE,
        policy=Policy.majority_of("abd"),
        stores=NEW_STORES,
        paced=True,
    )
    subject.update(said)
    subject.update(replace(RECORD, version=3, live=live, proxy=proxy))
    assert subject.record == replace(said, live=False, proxy="")
    assert told(subject) == [
        SourceChanged(NAME, 2, THERE, ("a", "b", "d")),
        RegistrationChanged(NAME, added=("d",), removed=("c",)),
    ]


async def test_a_directory_that_is_a_version_behind_says_only_who_serves_the_source() -> None:
    subject = session()
    said = replace(RECORD, version=3, address=THERE, stores=NEW_STORES)
    subject.update(said)
    subject.update(replace(RECORD, live=False, proxy="a"))
    assert subject.record == replace(said, live=False, proxy="a")
    assert [type(event) for event in told(subject)] == [SourceChanged, RegistrationChanged]
