"""Application markers at a store: as durable, and as much part of the stream, as their message."""

from __future__ import annotations

import pytest
from tests.store.support import ORDERS, World, payload

from quorate.protocol.framing import encode_batch
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.protocol.recovery import Marker
from quorate.store.rules.source_state import AppendStream
from quorate.store.storage.interface import Table


@pytest.fixture
def world() -> World:
    return World()


def marked(first: int, last: int, marker: str, epoch: int = 1) -> bytes:
    payloads = [payload(sequence) for sequence in range(first, last + 1)]
    return encode_batch(ORDERS, epoch, first, payloads, 7, marker.encode())


def append(
    world: World, stream: AppendStream, first: int, marker: str, stable_upto: int = -1
) -> None:
    writes = world.core.streams.append(stream, marked(first, first, marker), stable_upto)
    assert writes is not None
    world.write(writes)


def markers(world: World) -> list[tuple[int, str]]:
    """What the next promise says."""
    state = world.core.sources[ORDERS]
    promised = world.promise(state.registration.promised_epoch + 1)
    return [(marker.sequence, marker.value.decode()) for marker in promised.markers]


def test_all_that_may_count_are_kept_over_a_restart_and_no_more(world: World) -> None:
    stream = world.stream()
    for sequence in range(6):
        append(world, stream, sequence, f"done {sequence}", stable_upto=sequence - 3)
    # 2 is stable: what was committed before it can not be the newest any more.
    expected = [(2, "done 2"), (3, "done 3"), (4, "done 4"), (5, "done 5")]
    assert markers(world) == expected
    assert len(world.storage.scan(Table.MARKERS, b"", b"\xff" * 16, 100)) == len(expected)
    assert markers(world.restarted()) == expected


def test_one_that_is_set_aside_with_its_message_is_gone(world: World) -> None:
    stream = world.stream()
    for sequence in range(4):
        append(world, stream, sequence, f"done {sequence}")
    world.promise(2)
    world.begin(Lineage((Term(1, 0), Term(2, 2))))
    assert markers(world) == [(0, "done 0"), (1, "done 1")]
    assert markers(world.restarted()) == [(0, "done 0"), (1, "done 1")]


def test_a_peers_batch_brings_its_marker_only_with_its_last_message(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.keepalive(stream, 9))
    world.write(world.core.streams.skip(stream, 0, 9))
    frame = marked(0, 9, "done")
    world.fill(frame, Range(0, 4))
    assert markers(world) == []
    world.fill(frame, Range(5, 9))
    assert markers(world) == [(9, "done")]


def test_the_same_batch_again_changes_nothing(world: World) -> None:
    stream = world.stream()
    append(world, stream, 0, "done")
    stream = world.open()
    assert (
        world.core.streams.append(stream, marked(0, 0, "done"), -1) is None or stream.expected == 1
    )
    assert markers(world) == [(0, "done")]
    assert world.core.sources[ORDERS].markers == (Marker(0, 1, b"done"),)
