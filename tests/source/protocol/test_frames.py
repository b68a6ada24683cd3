import pytest

from quorate.protocol.fragments import encode_large, fragments_of
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import MESSAGE_BYTES_USUAL
from quorate.source.protocol import frames
from quorate.v1.messages_pb2 import Fragment, Frame


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


@pytest.mark.parametrize("stable_upto", [-1, 0, 2**62])
def test_a_fragment_frame_is_what_protobuf_would_read(stable_upto: int) -> None:
    batch = encode_large(SourceName("orders", 1), 1, 0, bytes(2 * MESSAGE_BYTES_USUAL), 0)
    for at, data in fragments_of(batch):
        frame = Frame.FromString(frames.fragment_frame(batch, at, stable_upto))
        fragment = Fragment(at=at, size=batch.size, data=data)
        assert frame == Frame(fragment=fragment, stable_upto=stable_upto)
    assert frames.batch_of(frames.framed(batch, stable_upto)) is batch
