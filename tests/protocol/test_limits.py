"""The bounds fit one another: the worst batch that a source may close still travels."""

from __future__ import annotations

from quorate.protocol import limits
from quorate.protocol.attributes import Attributes
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.v1.messages_pb2 import Frame


def test_the_largest_batch_fits_a_frame() -> None:
    source = SourceName("t" * limits.TOPIC_BYTES_MAX, limits.SESSION_ID_MAX)
    short = (limits.BATCH_BYTES_TARGET - 1) // (limits.BATCH_MESSAGES_MAX - 1)
    payloads = [b"x" * short] * (limits.BATCH_MESSAGES_MAX - 1)
    payloads.append(b"x" * limits.MESSAGE_BYTES_USUAL)
    batch = encode_batch(source, 1, limits.SEQUENCE_MAX - len(payloads), payloads, 0)
    frame = Frame(batch=batch, stable_upto=limits.SEQUENCE_MAX)
    assert frame.ByteSize() <= limits.FRAME_BYTES_MAX


def test_so_it_does_if_every_byte_of_it_is_an_attribute() -> None:
    source = SourceName("t" * limits.TOPIC_BYTES_MAX, limits.SESSION_ID_MAX)
    short = (limits.BATCH_BYTES_TARGET - 1) // (limits.BATCH_MESSAGES_MAX - 1)
    distinct = short - limits.ATTRIBUTE_BYTES_MORE  # no two are equal, so that none is left out
    attributes = [
        Attributes(b"%0*d" % (distinct, number)) for number in range(limits.BATCH_MESSAGES_MAX - 1)
    ]
    attributes.append(Attributes(bytes(limits.MESSAGE_BYTES_USUAL - limits.ATTRIBUTE_BYTES_MORE)))
    counted = sum(own.size for own in attributes[:-1])
    assert counted > limits.BATCH_BYTES_TARGET - limits.BATCH_MESSAGES_MAX
    assert counted < limits.BATCH_BYTES_TARGET
    marker = b"m" * limits.MARKER_BYTES_MAX
    batch = encode_batch(source, 1, 0, [b""] * len(attributes), 0, marker, attributes)
    assert Frame(batch=batch, stable_upto=limits.SEQUENCE_MAX).ByteSize() <= limits.FRAME_BYTES_MAX


def test_numbers_fit_their_fields() -> None:
    assert limits.SESSION_ID_MAX < 2**64 - 1
    assert limits.SEQUENCE_MAX < 2**63
    assert limits.NOTHING + 1 == 0
