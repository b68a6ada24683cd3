"""What `quorate status -o json` says of a store, a source and a loss, word for word.

No two numbers are alike, so that none can stand in the place of another.
"""

from __future__ import annotations

from tests.begun import begun_in

from quorate.console.group.status import compare
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.wire import source_to_wire
from quorate.v1.messages_pb2 import (
    DURABILITY_OS,
    HeldRange,
    LineageEntry,
    SourceInformation,
)
from quorate.v1.store_pb2 import (
    LossRecord,
    PeerStatus,
    RepairStatus,
    RetentionStatus,
    ScrubStatus,
    SourceStatus,
    StatusResponse,
)

ORDERS = SourceName("orders", 0x10)

SOURCE = SourceStatus(
    information=SourceInformation(source=source_to_wire(ORDERS)),
    reg_id=3,
    promised_epoch=6,
    begun=begun_in(5),
    held=[HeldRange(first=20, last=29), HeldRange(first=40, last=98)],
    holes=[HeldRange(first=30, last=34)],
    unreadable=[HeldRange(first=35, last=36)],
    accepted_losses=[HeldRange(first=37, last=38), HeldRange(first=39, last=39)],
    stable_upto=99,
    set_aside=12,
    limbo=True,
    limbo_reason="waits for c",
    proxy="b",
    inactive_seconds=7.26,
    retained_from=19,
    archived_upto=18,
    journal_bytes=4_000,
    released_bytes=2_000,
    kept_because="nobody has archived it",
)

STORE = StatusResponse(
    store_name="a",
    version="1.2.3",
    incarnation=b"\xab\xcd",
    limbo=True,
    limbo_reason="new",
    uptime_seconds=61.24,
    durability=DURABILITY_OS,
    data_directory="/data/a",
    disk_free_bytes=1_001,
    disk_free_warning_bytes=1_000,
    source_count=1_020,
    messages=1_002,
    bytes=1_003,
    syncs=4,
    sync_seconds=0.01,
    rejected=1_005,
    starts=1_006,
    sources=[SOURCE],
    accepted_losses=[
        LossRecord(
            source=source_to_wire(ORDERS),
            first=37,
            last=38,
            reason="burnt; Ada",
            time_ns=1_700_000_000_900_000_000,
            lineage=[
                LineageEntry(epoch=2, first_sequence=0),
                LineageEntry(epoch=4, first_sequence=33),
            ],
        ),
        LossRecord(first=-1, last=-1, reason="gone; Bob", time_ns=1_600_000_000_000_000_000),
    ],
    peers=[
        PeerStatus(address="h:2", store_name="b", reachable=True),
        PeerStatus(address="h:3", store_name="c"),
    ],
    repair=RepairStatus(
        messages=1_007,
        bytes=1_008,
        bytes_per_second=1_009.4,
        lacking=1_010,
        compared=1_011,
        divergent=1_012,
        now="fetching",
        scrub=ScrubStatus(
            messages=1_013, bytes=1_014, part=0.12345, passes=1_015, unreadable=1_016
        ),
    ),
    retention=RetentionStatus(messages=1_017, batches=1_018, bytes=1_019, held_up="can not read"),
)

ANSWERS: dict[StoreAddress, StatusResponse | QuorateError] = {StoreAddress("s1", "h:1"): STORE}


def test_everything_that_a_store_says_of_itself() -> None:
    (row,) = compare(ANSWERS, 0).stores
    assert row == {
        "store": "a",
        "address": "h:1",
        "state": "limbo",
        "version": "1.2.3",
        "uptime_seconds": 61.2,
        "durability": "os",
        "role": "member",
        "lag": 1,
        "sources": 1_020,
        "messages": 1_002,
        "bytes": 1_003,
        "syncs": 4,
        "sync_milliseconds": 2.5,
        "rejected": 1_005,
        "starts": 1_006,
        "limbo": "new",
        "peers_away": ["h:3"],
        "disk_free_bytes": 1_001,
        "disk_free_warning_bytes": 1_000,
        "lacking": 9,
        "repair": "fetching",
        "repair_bytes_per_second": 1_009,
        "repaired_messages": 1_007,
        "divergent": 1_012,
        "checked": 0.123,
        "checked_passes": 1_015,
        "found_unreadable": 1_016,
        "released_messages": 1_017,
        "released_bytes": 1_019,
        "release_held_up": "can not read",
        "capacity": {
            "bytes_max": 0,
            "bytes": 0,
            "sources_max": 0,
            "receivers_max": 0,
            "receivers": 0,
            "refused": 0,
            "kept_because": "",
        },
        "incarnation": "abcd",
        "data_directory": "/data/a",
    }


def test_everything_that_is_said_of_a_source() -> None:
    (row,) = compare(ANSWERS, 0).sources
    assert row == {
        "topic": "orders",
        "session_id": "0x10",
        "state": "away",
        "proxy": "b",
        "rows": {},
        "epoch": 5,
        "first": 20,
        "newest": 98,
        "stable_upto": 99,
        "stores": ["a"],
        "reg_ids": {"a": 3},
        "silent_seconds": 7.3,
        "limbo": {"a": "waits for c"},
        "lag": {"a": 1},
        "lacking": {"a": 9},
        "state_only": [],
        "replicas": [],
        "holes": {"a": ["[30, 34]"]},
        "unreadable": {"a": ["[35, 36]"]},
        "lost": {"a": ["[37, 38]", "[39, 39]"]},
        "retained_from": {"a": 19},
        "archived_upto": {"a": 18},
        "journal_bytes": {"a": 4_000},
        "released_bytes": {"a": 2_000},
        "kept_because": {"a": "nobody has archived it"},
        "set_aside": {"a": 12},
    }


def test_everything_that_is_said_of_what_an_operator_accepted() -> None:
    loss, limbo = compare(ANSWERS, 0).losses
    assert loss == {
        "store": "a",
        "source": "orders/0x10",
        "lost": "[37, 38]",
        "reason": "burnt; Ada",
        "time": "2023-11-14T22:13:20+00:00",
        "epoch": 4,
    }
    assert limbo == {
        "store": "a",
        "source": None,
        "lost": "left limbo",
        "reason": "gone; Bob",
        "time": "2020-09-13T12:26:40+00:00",
        "epoch": 0,
    }
