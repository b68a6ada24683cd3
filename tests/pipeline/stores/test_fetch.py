"""A range is read whole, from whichever store goes on; or the error says who said what."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest
from tests import seams
from tests.protocol.broken_answers import BREACHES, Breach, answers_of, name_of

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.stores.fetch import fetch
from quorate.pipeline.timeouts import Timeouts
from quorate.protocol.answers import Piece
from quorate.protocol.delays import Delays
from quorate.protocol.errors import InLimbo, MissingMessages, Unreachable
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.v1 import messages_pb2 as v1

ORDERS = SourceName("orders", 0x10)
LINEAGE = Lineage((Term(1, 0), Term(2, 50)))
IMPATIENT = Timeouts(silence_seconds=0.2, retry_seconds=0.05)
Script = Iterable[v1.FetchResponse | Exception | None]


def response(*answers: v1.FetchAnswer) -> v1.FetchResponse:
    return v1.FetchResponse(answers=answers)


def together(*responses: v1.FetchResponse) -> v1.FetchResponse:
    """All their answers in one."""
    return response(*(answer for each in responses for answer in each.answers))


def batch(
    first: int, last: int, epoch: int = 1, part: tuple[int, int] | None = None
) -> v1.FetchResponse:
    frame = encode_batch(ORDERS, epoch, first, [b"%d" % n for n in range(first, last + 1)], 0)
    begin, end = part or (first, last)
    return response(v1.FetchAnswer(fetched=v1.Fetched(batch=frame, first=begin, last=end)))


def missing(first: int, last: int, why: v1.Lookup, detail: str = "") -> v1.FetchResponse:
    given = v1.Missing(first=first, last=last, why=why, detail=detail)
    return response(v1.FetchAnswer(missing=given))


def end(high: int) -> v1.FetchResponse:
    return response(v1.FetchAnswer(end=v1.FetchEnd(high=high, stable_upto=high)))


class FakeCall:
    """Answers as scripted; None: it hangs until it is cancelled."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._cancelled = threading.Event()

    def __iter__(self) -> Iterator[v1.FetchResponse]:
        for each in self._script:
            if self._cancelled.is_set():
                return
            if each is None:
                self._cancelled.wait()
                return
            if isinstance(each, Exception):
                raise each
            yield each

    def cancel(self) -> None:
        self._cancelled.set()


class FakeStores:
    """By address, what each says when it is asked, one script after the other, the last again."""

    def __init__(self, **scripts: list[Script]) -> None:
        self._scripts = scripts
        self.asked: list[tuple[str, int, int]] = []

    def __call__(self, address: str, request: v1.FetchRequest) -> FakeCall:
        self.asked.append((address, request.first, request.last))
        scripts = self._scripts[address]
        return FakeCall(scripts.pop(0) if len(scripts) > 1 else scripts[0])

    def read(self, first: int, last: int, timeouts: Timeouts = IMPATIENT) -> list[Piece]:
        return list(fetch(self, sorted(self._scripts), ORDERS, LINEAGE, first, last, timeouts))


def numbers(pieces: list[Piece]) -> list[tuple[int, int]]:
    return [(piece.first, piece.last) for piece in pieces]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPEAT_IN_PIPELINE_FETCH.replace(monkeypatch, Delays(first=0.01, factor=1.0))
    seams.PIPELINE_FETCH_TROUBLED.replace(monkeypatch, {})


def test_one_store_that_has_it_all() -> None:
    stores = FakeStores(a=[[batch(0, 9), batch(10, 19), end(30)]], b=[[]])
    assert numbers(stores.read(0, 19)) == [(0, 9), (10, 19)]
    assert stores.asked == [("a", 0, 19)]


def test_answers_that_share_a_response() -> None:
    stores = FakeStores(
        a=[
            [together(batch(0, 9), batch(10, 19)), together(batch(20, 29), end(29))],
            [batch(40, 49)],
        ],
        b=[[together(batch(30, 39), missing(40, 49, v1.LOOKUP_ABSENT), batch(50, 59, epoch=2))]],
    )
    assert numbers(stores.read(0, 49)) == [(at, at + 9) for at in range(0, 50, 10)]
    assert stores.asked == [("a", 0, 49), ("b", 30, 49), ("a", 40, 49)]


def test_only_what_was_asked_for_of_the_batches_at_both_ends() -> None:
    stores = FakeStores(a=[[batch(0, 9, part=(4, 9)), batch(10, 19, part=(10, 12))]])
    assert numbers(stores.read(4, 12)) == [(4, 9), (10, 12)]


@pytest.mark.parametrize(
    "ends",
    [
        [ConnectionError("gone")],
        [],
        [end(9)],
        [missing(10, 14, v1.LOOKUP_UNKNOWN)],
        [missing(10, 19, v1.LOOKUP_ABSENT)],
        [InLimbo("orders/0x10", "a", "wiped")],
        [None],
        [batch(12, 19)],
        [batch(10, 19, epoch=2)],
        [response(v1.FetchAnswer(fetched=v1.Fetched(batch=b"rubbish", first=10, last=19)))],
        [response()],
    ],
    ids=str,
)
def test_another_store_goes_on_where_one_does_not(ends: Script) -> None:
    stores = FakeStores(a=[[batch(0, 9), *ends]], b=[[batch(8, 19, part=(10, 19))]])
    assert numbers(stores.read(0, 19)) == [(0, 9), (10, 19)]
    assert stores.asked == [("a", 0, 19), ("b", 10, 19)]


def test_two_stores_with_holes_that_complete_each_other() -> None:
    stores = FakeStores(
        a=[[batch(0, 9), missing(10, 19, v1.LOOKUP_ABSENT)], [batch(20, 29)]],
        b=[[batch(10, 19), missing(20, 29, v1.LOOKUP_ABSENT)]],
    )
    assert numbers(stores.read(0, 29)) == [(0, 9), (10, 19), (20, 29)]


def test_what_was_given_already_is_not_given_again() -> None:
    stores = FakeStores(a=[[batch(0, 9), batch(5, 14)], [batch(8, 19, part=(10, 19))]])
    assert numbers(stores.read(0, 19)) == [(0, 9), (10, 19)]
    assert stores.asked == [("a", 0, 19), ("a", 10, 19)]


@pytest.mark.parametrize("breach", BREACHES, ids=name_of)
def test_who_breaks_off_is_never_taken_to_have_no_more(breach: Breach) -> None:
    sound = answers_of([batch(0, 9), batch(10, 14), batch(15, 19), end(30)])
    stores = FakeStores(a=[breach(sound)], b=[[batch(10, 19)]])
    assert numbers(stores.read(0, 19)) == [(0, 9), (10, 19)]
    assert stores.asked == [("a", 0, 19), ("b", 10, 19)]

    lacks = [missing(10, 19, v1.LOOKUP_ABSENT)]
    alone = FakeStores(a=[breach(sound), []], b=[lacks])
    with pytest.raises(MissingMessages, match="a: the stream stops without its end"):
        alone.read(0, 19)


def test_who_gave_all_that_was_asked_for_is_not_waited_for() -> None:
    stores = FakeStores(a=[[batch(0, 9), batch(10, 19), None]])
    assert numbers(stores.read(0, 12)) == [(0, 9), (10, 12)]


def test_each_epoch_where_the_lineage_has_it() -> None:
    stores = FakeStores(a=[[batch(40, 49, epoch=1), batch(50, 59, epoch=2)]])
    assert numbers(stores.read(40, 59)) == [(40, 49), (50, 59)]
    with pytest.raises(MissingMessages, match="outdated lineage"):
        FakeStores(a=[[batch(45, 59, epoch=1)]]).read(45, 59)


def test_gone_is_what_all_stores_say_they_lack_and_only_that() -> None:
    stores = FakeStores(
        a=[[batch(0, 9), missing(10, 30, v1.LOOKUP_ABSENT, "a lacks it")]],
        b=[[missing(10, 14, v1.LOOKUP_ABSENT, "b lacks it")]],
    )
    reading = fetch(stores, ["a", "b"], ORDERS, LINEAGE, 0, 40, IMPATIENT)
    assert next(reading).last == 9
    with pytest.raises(MessagesGone) as caught:
        next(reading)
    assert (caught.value.first, caught.value.last) == (10, 14)
    assert caught.value.evidence == "a: a lacks it; b: b lacks it"


def test_an_accepted_loss_needs_no_second_witness() -> None:
    stores = FakeStores(a=[[missing(0, 4, v1.LOOKUP_LOST, "accepted")]], b=[[ConnectionError()]])
    with pytest.raises(MessagesGone, match=r"\[0, 4\].*a: accepted"):
        stores.read(0, 9)


def test_one_store_that_can_not_say_may_still_have_it() -> None:
    stores = FakeStores(
        a=[[missing(0, 9, v1.LOOKUP_ABSENT)]], b=[[missing(0, 9, v1.LOOKUP_UNKNOWN, "in limbo")]]
    )
    with pytest.raises(MissingMessages) as caught:
        stores.read(0, 9)
    assert caught.value.might_have == "b: in limbo"


def test_a_store_that_hangs_is_named_once_among_those_that_might_have_it() -> None:
    stores = FakeStores(a=[[missing(0, 9, v1.LOOKUP_ABSENT)]], b=[[None]])
    with pytest.raises(MissingMessages) as caught:
        stores.read(0, 9)
    assert caught.value.might_have == "b: it has said nothing for 0.2 s"


def test_a_store_that_ends_without_an_answer_is_asked_for_its_version() -> None:
    stores = FakeStores(a=[[response(), response()]])
    with pytest.raises(MissingMessages, match="is its version this one's") as caught:
        stores.read(0, 9)
    assert caught.value.might_have.startswith("a: a response without an answer")


def test_a_store_that_comes_back_in_time_is_enough() -> None:
    away: Script = [Unreachable("a", "down")]
    stores = FakeStores(a=[away, away, [batch(0, 9)]], b=[away])
    assert numbers(stores.read(0, 9, Timeouts(retry_seconds=30.0))) == [(0, 9)]


def test_a_reader_that_stops_half_way_lets_the_store_go() -> None:
    before = threading.active_count()
    answers = [batch(at, at) for at in range(40)]
    reading = fetch(FakeStores(a=[[*answers, None]]), ["a"], ORDERS, LINEAGE, 0, 99)
    assert next(reading).first == 0
    reading.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("trouble", [None, Unreachable("a", "down")], ids=str)
def test_a_store_that_was_in_trouble_is_asked_last(trouble: Exception | None) -> None:
    stores = FakeStores(a=[[trouble], [batch(0, 9)]], b=[[batch(0, 9)]])
    stores.read(0, 9)
    stores.read(0, 9)
    assert [address for address, _, _ in stores.asked] == ["a", "b", "b"]
