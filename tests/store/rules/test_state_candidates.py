"""The candidates of batches, made of columns, are those that one message after another makes."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import seams

from quorate.protocol.attributes import Attributes
from quorate.protocol.columns import before_payload
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import body_of, encode_batch, head_bytes, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import KEY_BYTES_MAX, Keying, Missing
from quorate.protocol.ranges import Range
from quorate.store.rules.state_candidates import Candidates
from quorate.store.storage.state_records import (
    NEVER,
    Candidate,
    RowKeys,
    leaves_no_row,
    pack_candidate,
    row_key,
    rows_to_write,
    topic_prefix,
)

SOURCE = SourceName("orders", 7)
PREFIX = topic_prefix("orders", "keys")
ROW_KEYS = RowKeys(PREFIX, SOURCE.session_id)
KEYINGS = st.sampled_from(
    [
        Keying(["$key"], Missing.DROP),
        Keying(["$key"], Missing.NULL),
        Keying(["$key"], Missing.DROP, expires_seconds=0.000_000_05),
        Keying(["id"], Missing.NULL),
        Keying(["$key", "$properties.p"], Missing.DROP),
    ]
)
FEW_KEYS = st.sampled_from([b"", b"a", b"ab", b"a\0", b"\xff", b"k" * 300])
ANY_KEYS = FEW_KEYS | st.none() | st.just(b"l" * (KEY_BYTES_MAX + 1))
PAYLOADS = st.sampled_from([b"", b'{"id": 1}', b'{"id": 1.0}', b'{"id": "x"}', b"[]", b"x" * 200])


class Message(NamedTuple):
    payload: bytes
    attributes: Attributes
    later: int


class Sent(NamedTuple):
    """A batch, and the part of it that belongs to the stream."""

    messages: list[Message]
    skipped: int
    timestamp_ns: int


def messages(attributes: st.SearchStrategy[Attributes]) -> st.SearchStrategy[list[Message]]:
    return st.lists(
        st.builds(Message, PAYLOADS, attributes, st.integers(0, 9)), min_size=1, max_size=8
    )


KEYS_ALONE = st.builds(Attributes, FEW_KEYS, st.just({}), st.just(False), st.none())
ANY = st.builds(
    Attributes,
    ANY_KEYS,
    st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from([b"", b"1"]), max_size=2),
    st.booleans(),
    st.none() | st.integers(0, 99),
)
BATCHES = st.lists(
    st.builds(Sent, messages(KEYS_ALONE) | messages(ANY), st.integers(0, 2), st.integers(0, 99)),
    max_size=4,
)


def frames_of(batches: list[Sent]) -> list[tuple[bytes, Range]]:
    frames, first = [], 10
    for own, skipped, timestamp_ns in batches:
        later = [each.later - min(one.later for one in own) for each in own]
        frame = encode_batch(
            SOURCE, 5, first, [each.payload for each in own], timestamp_ns, b"",
            [each.attributes for each in own], later,
        )  # fmt: skip
        frames.append((frame, Range(first + min(skipped, len(own) - 1), first + len(own) - 1)))
        first += len(own)
    return frames


def one_by_one(keying: Keying, frames: list[tuple[bytes, Range]]) -> tuple[dict[bytes, bytes], int]:
    """Take one message after the other: each is the candidate of its key until the next one is."""
    found: dict[bytes, bytes] = {}
    left_out = 0
    for frame, part in frames:
        header = read_header(frame)
        body = body_of(frame, header)
        payloads, times = body.read_payloads(), body.read_times(header.timestamp_ns)
        expiries = keying.expiries_of(body, times)
        for number in range(part.first, part.last + 1):
            row = number - header.first
            (key,) = keying.keys_of(header, payloads, body, number, number)
            if key is None:
                left_out += 1
                continue
            own = body.read_every_attributes()[row]
            before = before_payload(own.key, own.properties, expiries[row])
            expires_ns = expiries[row]
            found[row_key(PREFIX, key, SOURCE.session_id)] = pack_candidate(
                Candidate(
                    SOURCE.session_id,
                    header.epoch,
                    number,
                    times[row],
                    NEVER if expires_ns is None else expires_ns,
                    0 if own.deleted else len(before),
                    b"" if own.deleted else before + payloads[row],
                )
            )
    return found, left_out


@given(KEYINGS, BATCHES)
def test_columns_make_the_rows_that_single_messages_make(
    keying: Keying, batches: list[Sent]
) -> None:
    frames = frames_of(batches)
    made = Candidates(keying, ROW_KEYS)
    for frame, part in frames:
        made.add(frame, read_header(frame), part)
    _, keys, values = made.rows()
    assert (dict(zip(keys, values, strict=True)), made.left_out) == one_by_one(keying, frames)
    assert list(keys) == sorted(set(keys))
    assert len(made) == len(keys)
    assert made.hides == any(map(leaves_no_row, values))


@given(KEYINGS, BATCHES, st.sampled_from([0, 30, 100, 250]))
def test_rows_that_are_too_large_are_named(
    keying: Keying, batches: list[Sent], body_bytes_max: int
) -> None:
    made = Candidates(keying, ROW_KEYS)
    for frame, part in frames_of(batches):
        made.add(frame, read_header(frame), part)
    whole = body_bytes_max + head_bytes(SOURCE)
    with pytest.MonkeyPatch.context() as patches:
        seams.STATE_CANDIDATES_BYTES_MAX.replace(patches, whole)
        _, keys, values = made.rows()
    large = [key for key, row in zip(keys, values, strict=True) if len(row) > 36 + body_bytes_max]
    assert made.large == set(large)


@given(st.lists(FEW_KEYS, unique=True))
def test_the_keys_of_rows_are_in_the_order_of_the_keys(keys: list[bytes]) -> None:
    made = ROW_KEYS.of(keys)
    assert made == [row_key(PREFIX, key, 7) for key in keys]
    assert ROW_KEYS.of(keys, b"k") == [row_key(PREFIX, b"k" + key, 7) for key in keys]
    assert sorted(made) == ROW_KEYS.of(sorted(keys))
    _, stored, values = rows_to_write(PREFIX, 7, {key: b"row of " + key for key in keys})
    assert list(stored) == made
    assert values == [b"row of " + key for key in keys]


def test_a_batch_that_cannot_be_read_leaves_everything_as_it_was() -> None:
    made = Candidates(Keying(["$key"], Missing.DROP), ROW_KEYS)
    own = [Attributes(b"a", {}, False, None)]
    good = encode_batch(SOURCE, 5, 0, [b"x"], 1, b"", own)
    made.add(good, read_header(good), Range(0, 0))
    before = made.rows()
    bad = encode_batch(
        SOURCE, 5, 1, [b"y", b"z"], 2**63 - 10, b"", [*own, Attributes(None, {}, False, None)],
        [0, 100],
    )  # fmt: skip
    with pytest.raises(CorruptBatch):
        made.add(bad, read_header(bad), Range(1, 2))
    assert (made.rows(), made.left_out) == (before, 0)
