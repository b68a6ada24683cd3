"""The parts of a bundle are what protobuf reads as AppendFrames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.lanes import LANES_MAX, lane_end, lane_frame
from quorate.v1.messages_pb2 import Frame
from quorate.v1.store_pb2 import AppendFrames, LaneFrame

LANES = st.integers(1, LANES_MAX * 1000)
FRAMES = st.binary(max_size=5000).map(lambda batch: Frame(batch=batch, stable_upto=7))


@given(st.lists(st.tuples(LANES, st.none() | FRAMES), max_size=5))
def test_a_bundle_is_what_protobuf_writes(sent: list[tuple[int, Frame | None]]) -> None:
    parts = [
        lane_end(lane) if frame is None else lane_frame(lane, frame.SerializeToString())
        for lane, frame in sent
    ]
    bundle = AppendFrames(frames=[LaneFrame(lane=lane, frame=frame) for lane, frame in sent])
    assert AppendFrames.FromString(b"".join(parts)) == bundle


@pytest.mark.parametrize("size", [0, 2047, 2048, 300_000])
def test_a_frame_of_any_size_travels(size: int) -> None:
    frame = Frame(batch=bytes(size))
    (read,) = AppendFrames.FromString(lane_frame(1, frame.SerializeToString())).frames
    assert read == LaneFrame(lane=1, frame=frame)
