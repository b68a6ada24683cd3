"""The coordinator of an end: what it asks of which store, and when the end stands."""

from __future__ import annotations

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.errors import Fenced, InLimbo, NotRegistered, Unreachable
from quorate.protocol.incarnations import Word
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.stream_end import AskBegin, AskPromise, EndGrant, StreamEnd
from quorate.v1.store_pb2 import StoreReplaced

POLICY = Policy.majority_of("abc")
MEMBERSHIP = Membership((POLICY,), (POLICY,), (("c", "c:1"),))


def made(stores: str = "ab") -> StreamEnd:
    return StreamEnd("orders/0x10", stores, (Policy.majority_of(stores),))


def word(store: str, *known: StoreReplaced) -> Word:
    return Word(store.encode(), (StoreReplaced(store_name=store), *known))


def promise(end: StreamEnd, *stores: str, begun: int = 1) -> None:
    for store in stores:
        end.promised(
            store, EndGrant(word(store), BeginRecord(Lineage((Term(begun, 0),)), MEMBERSHIP)), {}
        )


def test_it_decides_once_a_blocking_set_has_promised() -> None:
    end = made()
    assert end.step("a") == AskPromise()
    promise(end, "a")
    assert (end.step("a"), end.membership) == (None, None)
    promise(end, "b")
    assert end.step("a") == AskBegin(MEMBERSHIP, b"a")
    assert end.stores == ("a", "b", "c"), "the record names c"
    assert end.addresses == {"c": "c:1"}
    assert end.step("c") == AskPromise()


def test_it_stands_once_a_stable_set_of_every_policy_has_begun() -> None:
    end, other = made(), Policy.majority_of("def")
    membership = Membership((POLICY,), (POLICY, other))
    for store in "abde":
        end.promised(
            store, EndGrant(word(store), BeginRecord(Lineage((Term(4, 0),)), membership)), {}
        )
    for store in "abd":
        end.begun(store, word(store))
        assert not end.done
    end.begun("e", word("e"))
    assert end.done
    assert not end.everywhere


def test_stores_are_told_that_it_stands() -> None:
    end = made()
    promise(end, "a", "b", "c")
    for store in "ab":
        end.begun(store, word(store))
    assert end.step("a") == AskBegin(MEMBERSHIP, b"a", durable=True)
    assert end.step("c") == AskBegin(MEMBERSHIP, b"c", durable=True)
    for store in "abc":
        end.begun(store, word(store), durable=True)
        assert end.step(store) is None
    assert end.everywhere


def test_the_newest_begin_names_the_policies() -> None:
    end = made()
    promise(end, "a")
    newer = Membership((), (Policy.majority_of("bde"),))
    end.promised("b", EndGrant(word("b"), BeginRecord(Lineage((Term(2, 0),)), newer)), {})
    assert end.membership is None, "b alone blocks nothing of its policy"
    end.promised("d", EndGrant(word("d"), NOT_BEGUN), {})
    assert end.membership == newer


def test_where_nothing_was_begun_it_ends_under_the_policies_that_it_was_given() -> None:
    end = made("ab")
    for store in "ab":
        end.promised(store, EndGrant(word(store)), {})
    assert end.membership is not None
    assert end.membership.policies == (Policy.majority_of("ab"),)


def test_a_store_in_limbo_counts_as_one_that_did_not_answer() -> None:
    end = made()
    promise(end, "a")
    end.promised(
        "b", EndGrant(word("b"), BeginRecord(Lineage((Term(1, 0),)), MEMBERSHIP), "wiped"), {}
    )
    assert end.membership is None
    assert end.step("b") == AskPromise()
    assert isinstance(end.failures["b"], InLimbo)


def test_a_store_that_has_forgotten_the_promise_is_asked_again() -> None:
    end = made()
    promise(end, "a", "b")
    end.failed("a", NotRegistered("orders/0x10", "another incarnation"))
    assert end.step("a") == AskPromise()


def test_what_a_former_directory_has_begun_counts_no_more() -> None:
    end = made()
    promise(end, "a", "b", "c")
    end.begun("a", word("a"))
    replaced = StoreReplaced(store_name="a", incarnation=b"new", former=[b"a"])
    end.begun("b", word("b", replaced))
    assert not end.done
    assert end.step("a") == AskPromise()


def test_it_is_refused_once_too_few_stores_are_left() -> None:
    end = made()
    promise(end, "a", "b")
    end.failed("c", Unreachable("c:1", "down"))
    end.failed("b", Fenced("orders/0x10", 2, 3))
    assert not end.refused
    end.failed("a", Fenced("orders/0x10", 2, 3))
    assert end.refused
