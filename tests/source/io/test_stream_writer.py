"""The writer of a stream: one frame at a time, and a goodbye at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from quorate.source.io.stream_writer import StreamWriter


class Lane:
    """A lane whose frames a test lets gRPC take."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.taken: list[Callable[[], None]] = []
        self.is_ended = False

    def write(self, frame: bytes, written: Callable[[], None] = lambda: None) -> None:
        self.frames.append(frame)
        self.taken.append(written)

    def end(self) -> None:
        self.is_ended = True


class Core:
    """A core with frames for one store."""

    def __init__(self) -> None:
        self.streams = self
        self.frames: list[bytes] = []
        self.is_held_back = False
        self.closing = False

    def next_frame(self, store: str, _: float) -> bytes | None:
        assert store == "a"
        if self.frames == [b"broken"]:
            raise ValueError("broken")
        return self.frames.pop(0) if self.frames else None

    def holds_back(self, _: str) -> bool:
        return self.is_held_back

    def goodbye_frame(self) -> bytes:
        return b"goodbye"


class Owner:
    """An owner of the writer, and the calls that it got."""

    def __init__(self) -> None:
        self.idle = 0
        self.failures: list[Exception] = []

    def note_idle(self) -> None:
        self.idle += 1


@pytest.fixture
def lane() -> Lane:
    return Lane()


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
async def writer(lane: Lane, core: Core, owner: Owner) -> StreamWriter:
    return StreamWriter(
        "a", cast(Any, core), cast(Any, lane), owner.note_idle, owner.failures.append
    )


async def test_the_next_frame_waits_until_the_last_one_was_taken(
    writer: StreamWriter, lane: Lane, core: Core, owner: Owner
) -> None:
    core.frames = [b"0", b"1"]
    writer.write()
    writer.write()
    assert (lane.frames, owner.idle) == ([b"0"], 0)
    lane.taken[0]()
    assert lane.frames == [b"0", b"1"]
    lane.taken[1]()
    assert (len(lane.frames), owner.idle) == (2, 1)
    core.frames = [b"2"]
    writer.write()
    assert lane.frames == [b"0", b"1", b"2"]


async def test_a_store_that_writes_fragments_is_not_idle(
    writer: StreamWriter, core: Core, owner: Owner
) -> None:
    core.is_held_back = True
    writer.write()
    assert owner.idle == 0


async def test_the_goodbye_comes_behind_all_frames_and_is_the_last(
    writer: StreamWriter, lane: Lane, core: Core
) -> None:
    core.frames, core.closing = [b"0"], True
    writer.write()
    assert not writer.said_goodbye.done()
    lane.taken[0]()
    await asyncio.wait_for(writer.said_goodbye, 60)
    assert (lane.frames, lane.is_ended) == ([b"0", b"goodbye"], True)
    core.frames = [b"1"]
    writer.write()
    assert lane.frames == [b"0", b"goodbye"]


async def test_a_writer_that_was_stopped_writes_nothing(
    writer: StreamWriter, lane: Lane, core: Core
) -> None:
    core.frames = [b"0", b"1"]
    writer.write()
    writer.stop()
    lane.taken[0]()
    writer.write()
    assert lane.frames == [b"0"]


async def test_an_error_is_handed_to_who_asked_for_it(
    writer: StreamWriter, core: Core, owner: Owner
) -> None:
    core.frames = [b"broken"]
    writer.write()
    assert [str(each) for each in owner.failures] == ["broken"]
