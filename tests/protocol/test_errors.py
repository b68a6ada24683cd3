"""Every error explains itself, and crosses the wire as its name and its facts."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from quorate.protocol import errors
from quorate.protocol.errors import NotYetStable, Outcome, QuorateError, Unreachable, joined
from quorate.protocol.limits import MESSAGE_BYTES_MAX, MESSAGE_BYTES_USUAL

KINDS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, QuorateError) and kind is not QuorateError
    ),
    key=lambda kind: kind.__name__,
)


def example(kind: type[QuorateError]) -> QuorateError:
    """An instance whose every field has a value of its own."""
    return kind(
        **{
            field.name: 4000 + at if field.type == "int" else f"<{field.name}>"
            for at, field in enumerate(fields(kind))
        }
    )


every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@every_kind
def test_fields_are_text_or_whole_numbers(kind: type[QuorateError]) -> None:
    assert {field.type for field in fields(kind)} <= {"str", "int"}
    assert fields(kind), "an error without facts says nothing"


@every_kind
def test_the_text_names_every_fact(kind: type[QuorateError]) -> None:
    text = str(example(kind))
    for name, value in example(kind).facts().items():
        shown = re.sub(r"(?<=\d),(?=\d)", "", text)
        wanted = f"{int(value) / 1000:.1f} s" if name.endswith("_ms") else value
        assert wanted in text or wanted in shown, f"{name} is missing in: {text}"


@every_kind
def test_the_text_ends_with_what_to_do(kind: type[QuorateError]) -> None:
    if kind in (errors.InvalidArgument, errors.ConfigurationInvalid):
        return  # their detail says it
    text = str(example(kind)).splitlines()[0]  # what was raised elsewhere follows after that
    sentences = [part for part in re.split(r"(?<=[.?:])\s+", text) if part]
    assert len(sentences) >= 2, text
    assert text.rstrip()[-1] in ".?"


@every_kind
def test_facts_make_the_same_error_again(kind: type[QuorateError]) -> None:
    error = example(kind)
    again = QuorateError.from_facts(kind.__name__, error.facts())
    assert type(again) is kind
    assert again.facts() == error.facts()
    assert str(again) == str(error)


@every_kind
def test_facts_that_do_not_fit_make_no_error(kind: type[QuorateError]) -> None:
    facts = example(kind).facts()
    for field in fields(kind):
        assert QuorateError.from_facts(kind.__name__, facts | {field.name: "x"}) is not None or (
            field.type == "int"
        )
        without = {name: value for name, value in facts.items() if name != field.name}
        assert QuorateError.from_facts(kind.__name__, without) is None


def test_a_newer_peer_may_send_more_facts_and_other_kinds() -> None:
    facts = example(errors.Fenced).facts() | {"more": "facts"}
    assert isinstance(QuorateError.from_facts("Fenced", facts), errors.Fenced)
    assert QuorateError.from_facts("NotYetInvented", {}) is None
    assert QuorateError.from_facts("QuorateError", {}) is None


@pytest.mark.parametrize("kind", [errors.Unreachable, errors.Fenced, errors.StorageFailed])
def test_what_may_have_happened_can_not_be_taken_for_a_no(kind: type[QuorateError]) -> None:
    assert kind.outcome is Outcome.UNKNOWN


def test_the_tree_in_the_docstring_is_complete() -> None:
    named = set(re.findall(r"\b[A-Z][A-Za-z]+\b", errors.__doc__ or ""))
    assert {kind.__name__ for kind in KINDS} <= named


def test_errors_are_equal_only_to_themselves_and_can_be_raised_twice() -> None:
    error = example(errors.Closed)
    assert error != example(errors.Closed)
    assert len({error, example(errors.Closed)}) == 2
    for _ in range(2):
        with pytest.raises(errors.Closed):
            raise error


def test_a_store_in_limbo_says_where_its_reason_is() -> None:
    wiped = errors.InLimbo("orders/0x10", "a", "wiped")
    assert "`quorate status` names the stores that it waits for" in str(wiped)


def test_stores_are_to_be_started_only_if_some_did_not_answer() -> None:
    error = errors.NoQuorum("Registering", "a, b", "", "a: it is blank", limbo="a")
    assert "outside limbo. Answered: a, b; of these in limbo: a (a: it is blank)." in str(error)
    assert "Start" not in str(error)
    assert "`quorate status`" in str(error)
    assert "Its peers fill it when these are back" in str(error)
    assert "`quorate loss accept`" in str(error)
    assert "If a store waits for one that is gone for good, or cannot be spared" in str(error)
    error = errors.NoQuorum("Registering", "a", "b", "b: refused")
    assert "limbo" not in str(error)
    assert "no answer: b (b: refused). Start the stores that are down" in str(error)
    error = errors.NoQuorum("Registering", "", "a, b", "it rains")
    assert "than answered. None did: a, b (it rains). Start the stores" in str(error)
    error = errors.NoQuorum("Registering", "a", "", "a: keeps no messages")
    assert "Start" not in str(error)
    assert str(error).endswith(
        "(a: keeps no messages). `quorate status` shows the state of the stores."
    )


def test_several_reasons_are_one_text_with_one_full_stop() -> None:
    first, second = Unreachable("a:1", "refused"), Unreachable("b:1", "silent")
    assert joined([first, second]) == f"{str(first)[:-1]}; {str(second)[:-1]}"
    assert joined(["x: no"]) == "x: no"
    assert joined([]) == ""


def test_what_is_not_yet_stable_names_the_right_next_step() -> None:
    text = str(NotYetStable("orders/0x10", 3, 5, "after 2 s"))
    assert "An open source goes on with them, and `flush` waits for them." in text
    assert "open the source again: what survived is below its next_sequence" in text
    kept = str(NotYetStable("orders/0x10", 3, 5, "after 2 s", "/data/orders"))
    assert "The publish store /data/orders has them" in kept
    assert "`flush` waits" in kept
    assert "may or may not survive" not in kept


def test_a_limit_is_to_be_raised_only_if_it_can_be() -> None:
    usual = errors.MessageTooLarge(MESSAGE_BYTES_USUAL + 1, MESSAGE_BYTES_USUAL)
    largest = errors.MessageTooLarge(MESSAGE_BYTES_MAX + 1, MESSAGE_BYTES_MAX)
    assert "Raise the limit, split the message, or send a reference" in str(usual)
    assert "accepted. Split the message, or send a reference" in str(largest)
