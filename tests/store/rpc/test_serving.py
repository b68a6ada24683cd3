"""From when to when a store answers: not before it has heard its peers, nor when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any
from unittest.mock import Mock

import pytest

from quorate.protocol.errors import StoreStopping
from quorate.store.rpc.service import Service
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

UNARY = {
    "Promise": store_v1.PromiseRequest(),
    "Begin": store_v1.BeginRequest(),
    "RegisterReceiver": store_v1.RegisterReceiverRequest(),
    "Acknowledge": store_v1.AcknowledgeRequest(),
    "Locate": store_v1.LocateRequest(),
    "Digest": store_v1.DigestRequest(),
    "DigestState": store_v1.DigestStateRequest(),
    "Archived": store_v1.ArchivedRequest(),
    "AcceptLoss": store_v1.AcceptLossRequest(),
    "SettleConflict": store_v1.SettleConflictRequest(),
    "Deregister": store_v1.DeregisterRequest(),
}
STREAMS = {
    "Status": store_v1.StatusRequest(),
    "Journal": store_v1.JournalRequest(),
    "Release": store_v1.ReleaseRequest(),
    "Fetch": v1.FetchRequest(),
    "Subscribe": store_v1.SubscribeRequest(),
    "QueryState": store_v1.QueryStateRequest(),
    "WatchState": store_v1.WatchStateRequest(),
    "StateCandidates": store_v1.StateCandidatesRequest(),
    "Watch": store_v1.WatchRequest(),
    "Repair": store_v1.RepairRequest(),
    "Restore": None,
    "Backup": store_v1.BackupRequest(),
}
OTHERS = {"Inventory", "Append", "Bundle"}


class Aborted(Exception):
    """As grpc ends a call."""


class Context:
    """Of a call; every one is refused once it is served, as it asks for nothing."""

    def __init__(self) -> None:
        self.why = ""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, _: object, why: str, __: object) -> None:
        self.why = why
        raise Aborted

    async def read(self) -> None:
        raise Aborted


class HungUp:
    """The requests of who says nothing any more."""

    def __aiter__(self) -> AsyncIterator[store_v1.RestoreRequest]:
        return self

    async def __anext__(self) -> store_v1.RestoreRequest:
        raise Aborted


def service() -> Service:
    engine: Any = Mock(rejected=0)
    upkeep: Any = Mock()
    keeper: Any = Mock()
    executor: Any = Mock()
    status: Any = Mock()
    return Service(
        engine,
        keeper,
        executor,
        Mock(),
        "s1:1",
        status,
        Mock(),
        upkeep,
        Mock(),
        Mock(),
        Mock(),
        Mock(),
        Mock(),
        Mock(),
        Mock(),
        Mock(),
    )


def called(of: Service, method: str, context: Context) -> Awaitable[object]:
    """The first answer."""
    given: Any = context
    match method:
        case "Append":
            return of.Append(None, given)
        case "Bundle":
            return of.Bundle(None, given)
        case "Restore":
            return anext(of.Restore(HungUp(), given))
        case _ if method in STREAMS:
            return anext(getattr(of, method)(STREAMS[method], given))
    answer: Awaitable[object] = getattr(of, method)(UNARY[method], given)
    return answer


async def refused(of: Service, method: str, context: Context) -> None:
    """Return when it is."""
    with pytest.raises(Aborted):
        await called(of, method, context)


def test_every_call_is_tried() -> None:
    named = {name for name in vars(Service) if name[0].isupper()}
    assert named == UNARY.keys() | STREAMS.keys() | OTHERS


@pytest.mark.parametrize("method", [*UNARY, *STREAMS, "Append", "Bundle"])
async def test_nothing_is_answered_before_the_peers_were_heard(method: str) -> None:
    """It may be a copy, and what it says not be so any more."""
    store, context = service(), Context()
    asked = asyncio.create_task(refused(store, method, context))
    await asyncio.sleep(0)  # it comes as far as it can
    assert not asked.done()
    store.serve_all()
    await asked


@pytest.mark.parametrize("method", [*UNARY, *STREAMS, "Append", "Bundle"])
async def test_nothing_is_answered_by_a_store_that_stops(method: str) -> None:
    store, context = service(), Context()
    asked = asyncio.create_task(refused(store, method, context))
    await asyncio.sleep(0)
    store.stop(StoreStopping("s1"))
    await asked
    assert context.why == str(StoreStopping("s1"))
    later = Context()
    await refused(store, method, later)
    assert later.why == context.why
