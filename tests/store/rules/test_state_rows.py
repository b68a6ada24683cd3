"""The rule of the state of the world: which message is the row of a key, and what may go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.state import NOW

from quorate.store.rules.state_rows import newest_of, rows_among, to_remove
from quorate.store.storage.interface import Row, Table, Write
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.records import Malformed
from quorate.store.storage.state_records import (
    LARGE,
    NEVER,
    Candidate,
    candidates_alone,
    key_of,
    pack_candidate,
    row_key,
    rows_of_key,
    rows_of_topic,
    rows_to_write,
    topic_prefix,
    unpack_candidate,
    whole_keys,
)

PREFIX = topic_prefix("orders", "keys")
GENERATIONS = {1: 5, 2: 5, 3: 5}
KEYS = st.sampled_from([b"k", b"ka", b"ka\0", b"ka\0\0", b"ka\0\xff", b"k\xff"])


def candidate(
    session_id: int = 1,
    time_ns: int = 1,
    epoch: int = 5,
    sequence: int = 0,
    expires_ns: int = NEVER,
    body: bytes = b"body",
) -> Candidate:
    return Candidate(session_id, epoch, sequence, time_ns, expires_ns, 0, body)


CANDIDATES = st.builds(
    candidate,
    session_id=st.integers(1, 4),
    time_ns=st.integers(0, 4),
    epoch=st.sampled_from([4, 5, 6]),
    sequence=st.integers(0, 9),
    expires_ns=st.sampled_from([0, NOW, NOW + 1, NEVER]),
    body=st.sampled_from([b"", b"body"]),
)
STORED = st.dictionaries(st.tuples(KEYS, st.integers(1, 4)), CANDIDATES, max_size=12)


def stored_rows(stored: dict[tuple[bytes, int], Candidate]) -> list[Row]:
    rows = {}
    for (key, session_id), each in stored.items():
        own = candidate(
            session_id, each.time_ns, each.epoch, each.sequence, each.expires_ns, each.body
        )
        rows[row_key(PREFIX, key, session_id)] = pack_candidate(own)
    return sorted(rows.items())


@given(STORED)
def test_rows_of_keys_with_one_candidate_need_not_be_unpacked(
    stored: dict[tuple[bytes, int], Candidate],
) -> None:
    alone = {key: each for (key, session_id), each in stored.items() if session_id < 4}
    lone = stored_rows({(key, 1 + len(key) % 4): each for key, each in alone.items()})
    found = candidates_alone(lone, GENERATIONS, NOW)
    assert found is not None
    rows, payloads_at = found
    expected = [row for _, row in rows_among(lone, GENERATIONS, NOW)]
    assert [unpack_candidate(*row) for row in rows] == expected
    payloads = [value[at:] for (_, value), at in zip(rows, payloads_at, strict=True)]
    assert payloads == [each.payload for each in expected]


def test_rows_are_unpacked_if_a_key_has_several_candidates_or_a_large_one() -> None:
    first = row_key(PREFIX, b"k", 1), pack_candidate(candidate(1))
    other = row_key(PREFIX, b"k", 2), pack_candidate(candidate(2))
    large = row_key(PREFIX, b"l", 1), pack_candidate(candidate(1)._replace(payload_at=LARGE))
    assert candidates_alone([first], GENERATIONS, NOW) is not None
    assert candidates_alone([first, other], GENERATIONS, NOW) is None
    assert candidates_alone([first, large], GENERATIONS, NOW) is None
    with pytest.raises(Malformed):
        candidates_alone([(first[0], b"short")], GENERATIONS, NOW)


def test_the_newest_time_and_then_the_highest_session_decide() -> None:
    early, late = candidate(2, time_ns=1, sequence=9), candidate(1, time_ns=2)
    assert newest_of([early, late], GENERATIONS) == late
    assert newest_of([late, early], GENERATIONS) == late
    same = candidate(2, time_ns=2)
    assert newest_of([late, same], GENERATIONS) == same


def test_a_generation_that_ended_has_no_candidates() -> None:
    old, present = candidate(1, time_ns=9, epoch=4), candidate(2, epoch=6)
    assert newest_of([old, present], GENERATIONS) == present
    assert newest_of([old], GENERATIONS) is None
    assert newest_of([candidate(7)], GENERATIONS) is None


@given(STORED)
def test_what_may_go_changes_no_row(stored: dict[tuple[bytes, int], Candidate]) -> None:
    rows = stored_rows(stored)
    wanted = list(rows_among(rows, GENERATIONS, NOW))
    retained_from = dict.fromkeys(GENERATIONS, 5)
    useless, _ = to_remove(rows, GENERATIONS, retained_from, NOW)
    gone = set(useless)
    left = [row for row in rows if row[0] not in gone]
    assert list(rows_among(left, GENERATIONS, NOW)) == wanted
    assert to_remove(left, GENERATIONS, retained_from, NOW) == ([], -NEVER)
    for key, value in left:
        each = unpack_candidate(key, value)
        assert GENERATIONS.get(each.session_id, 9) <= each.epoch


@given(STORED, st.integers(1, 5))
def test_keys_are_apart_and_are_read_as_a_whole(
    stored: dict[tuple[bytes, int], Candidate], limit: int
) -> None:
    rows, storage = stored_rows(stored), MemoryStorage()
    storage.write(Write(Table.STATE, *row) for row in rows)
    assert [key_of(key) for key, _ in rows] == sorted(key for key, _ in stored)
    for wanted in {key for key, _ in stored}:
        found = storage.scan(Table.STATE, *rows_of_key(PREFIX, wanted), 100)
        assert {key_of(key) for key, _ in found} == {wanted}
        assert len(found) == sum(key == wanted for key, _ in stored)
    first, last = rows_of_topic(PREFIX)
    read: list[Row] = []
    while step := whole_keys(storage, first, last, limit):
        assert {key_of(key) for key, _ in step}.isdisjoint(key_of(key) for key, _ in read)
        read += step
        first = step[-1][0] + b"\0"
    assert read == rows


@given(st.dictionaries(KEYS, st.binary(max_size=3), max_size=6), st.integers(1, 4))
def test_rows_are_written_under_their_keys(packed: dict[bytes, bytes], session_id: int) -> None:
    rows = rows_to_write(PREFIX, session_id, packed)
    expected = {row_key(PREFIX, key, session_id): value for key, value in packed.items()}
    assert list(rows.writes()) == [Write(Table.STATE, *row) for row in expected.items()]
