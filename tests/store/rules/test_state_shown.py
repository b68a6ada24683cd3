"""Filters see a row as they see its message in a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.store.state import A

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.filters.messages import BatchMessages
from quorate.protocol.filters.syntax import About
from quorate.protocol.framing import body_of, check_batch, encode_batch, read_header
from quorate.protocol.keying import Keying, Missing
from quorate.protocol.payloads import PayloadFormat, reader_of
from quorate.protocol.ranges import Range
from quorate.store.rules.state_candidates import Candidates
from quorate.store.rules.state_rows import frame_of
from quorate.store.rules.state_shown import ShownRows, StoredRows, large_alone
from quorate.store.storage.state_records import (
    LARGE,
    NEVER,
    PACKED_BYTES,
    Candidate,
    RowKeys,
    topic_prefix,
    unpack_candidate,
)

READER = reader_of(PayloadFormat.JSON)
KEYING = Keying(["$key"], Missing.NULL)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b'{"a": 1}', b"no JSON", b""]),
        st.builds(
            Attributes,
            st.none() | st.binary(max_size=1),
            st.dictionaries(st.sampled_from(["a", "b"]), st.binary(max_size=3)),
            st.just(False),
            st.none() | st.integers(-9, 9),
        ),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=9,
)


@given(MESSAGES)
def test_a_row_is_seen_as_its_message_is(messages: list[tuple[bytes, Attributes, int]]) -> None:
    payloads, attributes, later = zip(*messages, strict=True)
    frame = encode_batch(A, 3, 7, payloads, 100, attributes=attributes, later=later)
    header = read_header(frame)
    body = body_of(frame, header)
    batch, shown = BatchMessages(header, payloads, body, READER), ShownRows(A.topic, READER)
    made = Candidates(KEYING, RowKeys(topic_prefix(A.topic, KEYING.text), A.session_id))
    made.add(frame, header, Range(7, header.last))
    found = made.rows()
    assert found.keys
    assert made.left_out == 0
    stored = list(zip(found.keys, found.values, strict=True))
    rows = [unpack_candidate(*each) for each in stored]
    places = [row.sequence - 7 for row in rows]
    shown.at(rows)
    for about in About:
        assert shown.facts(about, range(len(rows))) == batch.facts(about, places)
    for name in ("a", "b", "c"):
        assert shown.properties(name, range(len(rows))) == batch.properties(name, places)
    assert shown.documents(range(len(rows))) == batch.documents(places)
    payloads_at = [PACKED_BYTES + row.payload_at for row in rows]
    as_stored = StoredRows(A.topic, READER, stored, payloads_at)
    for about in About:
        assert as_stored.facts(about, range(len(rows))) == shown.facts(about, range(len(rows)))
    for name in ("a", "b", "c"):
        assert as_stored.properties(name, range(len(rows))) == batch.properties(name, places)
    assert as_stored.documents(range(len(rows))) == batch.documents(places)
    for row, place in zip(rows, places, strict=True):
        given_as = frame_of(A.topic, row)
        alone = check_batch(given_as)
        assert (alone.source, alone.epoch, alone.first) == (A, 3, row.sequence)
        own = body_of(given_as, alone)
        assert own.read_payloads() == [payloads[place]]
        assert own.read_times(alone.timestamp_ns) == [100 + later[place]]
        assert (own.read_attributes() or [NO_ATTRIBUTES]) == [attributes[place]]


def test_each_large_row_is_looked_at_alone() -> None:
    small = Candidate(1, 1, 0, 0, NEVER, 3, b"abc{}")
    large = small._replace(payload_at=small.payload_at + LARGE)
    assert list(large_alone([small, small])) == [[small, small]]
    given = [large, small, small, large, large, small]
    parts = list(large_alone(given))
    assert parts == [[large], [small, small], [large], [large], [small]]
