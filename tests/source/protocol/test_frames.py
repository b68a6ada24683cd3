import pytest

from quorate.source.protocol import frames
from quorate.v1.messages_pb2 import Frame


@pytest.mark.parametrize("stable_upto", [-1, 0, 1, 63, 64, 2**40, 2**62])
@pytest.mark.parametrize("size", [1, 127, 128, 300_000])
def test_a_batch_frame_is_what_protobuf_would_make(stable_upto: int, size: int) -> None:
    batch = b"x" * size
    frame = frames.batch_frame(batch, stable_upto)
    assert frame == Frame(batch=batch, stable_upto=stable_upto).SerializeToString() or (
        # Protobuf leaves out a zero, which means the same.
        stable_upto == 0 and Frame.FromString(frame) == Frame(batch=batch)
    )
    assert frames.batch_of(frame) == batch
