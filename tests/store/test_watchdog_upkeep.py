"""No request of an operator or of another store holds up a store's event loop for over 10 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.hostile import (
    Hostile,
    append_open,
    hold_up_nobody,
    named,
    registers,
    slow_patterns,
)
from tests.store.support import MEMBERSHIP, batch

from quorate.protocol.limits import LINEAGE_TERMS_MAX, RANGES_MAX, SEQUENCE_MAX
from quorate.protocol.wire import membership_to_wire, source_from_wire
from quorate.store.node import StoreNode
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

SOURCES = 300
RESTORED = v1.SourceName(topic="orders", session_id=0x10)


async def make_sources(node: StoreNode) -> None:
    """Register sources, and send a message of each."""

    def send(client: Hostile) -> None:
        incarnation = registers(client, SOURCES)
        for number in range(SOURCES):
            source = named(number)
            content = batch(0, 9, source=source_from_wire(source))
            frames = [append_open(source, incarnation), v1.Frame(batch=content, stable_upto=-1)]
            client.append(frames)

    with Hostile(node.address) as client:
        await asyncio.to_thread(send, client)


def compares(client: Hostile) -> None:
    """Ask for digests of everything, in the smallest blocks."""
    for block in (1, 7, 2**40):
        for source in (named(1), named(10**6)):
            request = store_v1.DigestRequest(
                source=source, first=0, last=SEQUENCE_MAX, block=block, protocol_version=1
            )
            client.call("Digest", request)


def archives(client: Hostile) -> None:
    """Say of each source how far it is archived."""
    told = [
        store_v1.ArchivedSource(source=named(number), upto=number % 11)
        for number in range(2 * SOURCES)
    ]
    requests = [
        store_v1.ArchivedRequest(sources=told[at : at + 1000], protocol_version=1)
        for at in range(0, len(told), 1000)
    ]
    client.calls("Archived", requests)


def accepts_losses(client: Hostile) -> None:
    """Accept the loss of each source."""
    requests = [
        store_v1.AcceptLossRequest(
            source=named(number), first=100, last=2**40, reason="x" * 1000, protocol_version=1
        )
        for number in range(SOURCES)
    ]
    client.calls("AcceptLoss", requests)
    client.read("Status", store_v1.StatusRequest(protocol_version=1))


def settles_conflicts(client: Hostile) -> None:
    """Settle conflicts that are none, in very many ranges."""
    for count in (RANGES_MAX, 10 * RANGES_MAX):
        ranges = [v1.HeldRange(first=2 * at, last=2 * at) for at in range(count)]
        request = store_v1.SettleConflictRequest(
            source=named(1), keep="s1", ranges=ranges, reason="x", protocol_version=1
        )
        client.call("SettleConflict", request)


def repairs(client: Hostile) -> None:
    """Read everything again, twice."""
    for is_thorough in (False, True):
        request = store_v1.RepairRequest(thorough=is_thorough, protocol_version=1)
        client.read("Repair", request)


def copies_everything(client: Hostile) -> None:
    """Take a backup, and half of another one."""
    client.read("Backup", store_v1.BackupRequest(protocol_version=1))
    client.read("Backup", store_v1.BackupRequest(protocol_version=1), 3)


def removes_everything(client: Hostile) -> None:
    """Let go of all messages, and end all sources."""
    for pattern in ("", *slow_patterns()):
        request = store_v1.ReleaseRequest(
            topic_pattern=pattern, before_ns=2**62, unread_too=True, protocol_version=1
        )
        client.read("Release", request)
    ends = [
        store_v1.DeregisterRequest(source=named(number), epoch=2, instance=b"e", protocol_version=1)
        for number in range(2 * SOURCES)
    ]
    client.calls("Deregister", ends)


def opening(terms: int, losses: int, last: int) -> store_v1.RestoreRequest:
    """Return the first request of a restore, with a long lineage and many losses."""
    lineage = [v1.LineageEntry(epoch=1 + at, first_sequence=at) for at in range(terms)]
    return store_v1.RestoreRequest(
        open=store_v1.RestoreOpen(
            source=RESTORED,
            lineage=lineage,
            membership=membership_to_wire(MEMBERSHIP),
            first=0,
            last=last,
            accepted_losses=[v1.HeldRange(first=2 * at, last=2 * at) for at in range(losses)],
            protocol_version=1,
        )
    )


def restores(client: Hostile) -> None:
    """Give back histories: too long ones, nonsense, and one of many batches."""

    def batches() -> Iterator[store_v1.RestoreRequest]:
        yield opening(1, 0, 40_959)
        for first in range(0, 40_960, 4096):
            yield store_v1.RestoreRequest(batch=batch(first, first + 4095))

    client.stream("Restore", [opening(2 * LINEAGE_TERMS_MAX, 0, 10)])
    client.stream("Restore", [opening(1, 10 * RANGES_MAX, 10)])
    client.stream("Restore", [store_v1.RestoreRequest(batch=b"x" * 2_000_000)])
    client.stream("Restore", [opening(LINEAGE_TERMS_MAX, RANGES_MAX, LINEAGE_TERMS_MAX)])
    client.stream("Restore", batches())


@pytest.mark.expects_log("by an operator|is deregistered")
@pytest.mark.long
async def test_upkeep_of_many_sources_holds_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(
        tmp_path,
        compares,
        archives,
        settles_conflicts,
        repairs,
        copies_everything,
        accepts_losses,
        removes_everything,
        prepare=make_sources,
    )


async def test_a_restore_holds_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, restores)
