"""Every event can be shown, to people and to machines."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest

from quorate import receiver, source
from quorate.console.ui.events import show_event
from quorate.console.ui.output import (
    Output,
    event_text,
)
from quorate.protocol.errors import Closed
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Policy
from quorate.receiver import events as receiver_events
from quorate.source import events as source_events

NAME = SourceName("orders", 0x10)
FIELDS: dict[str, Any] = {
    "source": NAME,
    "reason": Closed("It"),
    "error": Closed("It"),
    "incarnation": b"\x01\xff",
    "from_policies": (Policy.majority_of("abc"),),
    "to_policies": (Policy.majority_of("abd"),),
    "receivers": (source.LaggingReceiver(0x20, 4),),
    "session_id": 0x20,
    "stores": ("a", "b"),
    "evidence": (("a", "absent"),),
    "unique_upto": None,
}
"""What is not a number or a text of its own."""


def made(kind: type[Any]) -> Any:
    """One of this kind."""
    fields = {field.name for field in dataclasses.fields(kind)}
    values = {name: FIELDS.get(name, 7) for name in fields}
    if kind is source.NotStable:
        values["cause"] = source.NotStableCause.TIMEOUT
    if kind is receiver.Gap:
        values["cause"] = receiver.Answer.ABSENT
    return kind(**values)


KINDS = [*get_args(source_events.Event), *get_args(receiver_events.Event)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_for_machines_every_field_is_there(
    kind: type[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    show_event(made(kind), Output.JSONL)
    told = json.loads(capsys.readouterr().err)
    assert told.pop("event") == kind.__name__
    assert told.keys() == {field.name for field in dataclasses.fields(kind)}
    assert "session_id" not in told or told["session_id"] == "0x20"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_for_people_it_is_a_line(kind: type[Any], capsys: pytest.CaptureFixture[str]) -> None:
    show_event(made(kind), Output.TABLE)
    assert capsys.readouterr().err.startswith(kind.__name__)


def test_policies_bytes_and_receivers_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    show_event(made(source.MembershipChanged), Output.JSON)
    assert json.loads(capsys.readouterr().err)["to_policies"] == ["stores (quorum of a, b, d)"]
    show_event(made(source.StoreReplaced), Output.JSON)
    assert json.loads(capsys.readouterr().err)["incarnation"] == "01ff"
    show_event(made(source.ReceiversLag), Output.JSON)
    lagging = json.loads(capsys.readouterr().err)["receivers"]
    assert lagging == [{"session_id": "0x20", "acknowledged_upto": 4}]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            source.WaitingForStores(("a", "b"), 2.1722974779986544),
            "WaitingForStores: missing a, b; seconds 2.2",
        ),
        (
            receiver.Gap(NAME, 3, 5, receiver.Answer.LOST, (("a", "lost: says Ada"), ("b", "no"))),
            "Gap: source orders/0x10; first 3; last 5; cause lost; "
            "evidence a says lost: says Ada, b says no",
        ),
        (source.QuorumLost((), ()), "QuorumLost: active none; groups none"),
    ],
)
def test_people_read_no_python(event: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_event(event, Output.TABLE)
    assert capsys.readouterr().err == f"{text}\n"


def test_people_read_few_digits_in_the_demo_too() -> None:
    waiting = source.WaitingForStores(("a",), 2.1722974779986544)
    assert event_text(waiting) == "WaitingForStores missing a seconds 2.2"
