"""Filters see a row as they see its message in a batch."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tests.store.state import A

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.filters.messages import Shown
from quorate.protocol.framing import body_of, check_batch, encode_batch, read_header
from quorate.protocol.keying import Keying, Missing
from quorate.protocol.payloads import PayloadFormat, document_of
from quorate.protocol.ranges import Range
from quorate.store.rules.state_candidates import candidates_of
from quorate.store.rules.state_rows import frame_of
from quorate.store.rules.state_shown import ShownRow, document_reader, quick_document_of
from quorate.store.storage.state_records import unpack_candidate

SEEN = (
    "topic", "session", "sequence", "epoch", "time", "size", "key", "deleted", "expires",
    "properties", "document",
)  # fmt: skip
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
    shown, shown_row = Shown(header, payloads, body), ShownRow(A.topic)
    found, left_out = candidates_of(KEYING, frame, header, Range(7, header.last))
    assert found
    assert left_out == 0
    for packed in found.values():
        row = unpack_candidate(A.session_id.to_bytes(8, "big"), packed)
        place = row.sequence - 7
        shown.at(place, row.sequence)
        shown_row.at(row)
        assert [getattr(shown_row, name) for name in SEEN] == [
            getattr(shown, name) for name in SEEN
        ]
        given_as = frame_of(A.topic, row)
        alone = check_batch(given_as)
        assert (alone.source, alone.epoch, alone.first) == (A, 3, row.sequence)
        own = body_of(given_as, alone)
        assert own.read_payloads() == [payloads[place]]
        assert own.read_times(alone.timestamp_ns) == [100 + later[place]]
        assert (own.read_attributes() or [NO_ATTRIBUTES]) == [attributes[place]]


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ODD = [
    b"", b" 1 ", b"-0", b"-0.0", b"01", b"1.", b".5", b"1e400", b"NaN", b"nan", b"-Infinity",
    b'{"a":1,"a":2}', b"[1,]", b"1 2", b"1" * 5000, b"123456789012345678901234567890",
    b'"\\ud800"', b'"\xff"', b'"\x01"', b"\xef\xbb\xbf1", '"x"'.encode("utf-16"),
    b"[" * 500 + b"]" * 500, b"[" * 100_000, b"2.4703282292062328e-324", b"1.7976931348623159e308",
]  # fmt: skip


@given(DOCUMENTS.map(json.dumps).map(str.encode) | st.sampled_from(ODD) | st.binary())
def test_the_quick_parser_reads_what_the_other_one_reads(payload: bytes) -> None:
    assert repr(quick_document_of(payload)) == repr(document_of(payload))


NAMES = st.sampled_from(["a", "b", "", "a.b", "$key", "\u00e9"])
OBJECTS = st.dictionaries(NAMES | st.text(), DOCUMENTS)


@given(
    OBJECTS.map(json.dumps).map(str.encode)
    | st.sampled_from([*ODD, b'{"b":' + b"[" * 500 + b"]" * 500 + b"}", b'{"b": "\xff", "a": 1}'])
    | DOCUMENTS.map(json.dumps).map(str.encode),
    st.sets(NAMES),
)
def test_members_that_are_asked_for_are_those_of_the_whole(
    payload: bytes, members: set[str]
) -> None:
    whole = quick_document_of(payload)
    found = document_reader(PayloadFormat.JSON, members)(payload)
    if members and isinstance(whole, dict) and isinstance(found, dict):
        whole = {name: whole[name] for name in whole if name in members}
        found = {name: found[name] for name in whole if name in found}
    assert repr(found) == repr(whole)
