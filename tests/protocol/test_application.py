"""The application of a client, and what a store takes as one."""

from __future__ import annotations

import os
import sys

import pytest

from quorate.errors import InvalidArgument
from quorate.protocol.application import TEXT_BYTES_MAX, UNNAMED, Application
from quorate.protocol.wire import application_from_wire, application_to_wire
from quorate.transport.application import this_application
from quorate.v1.messages_pb2 import Application as Wire


def test_it_travels_as_it_is() -> None:
    risk = Application("risk", "risk.py", "host-7", 4711)
    wire = application_to_wire(risk)
    assert wire is not None
    assert application_from_wire(wire) == risk
    assert application_to_wire(UNNAMED) is None
    assert application_from_wire(Wire()) == UNNAMED


@pytest.mark.parametrize("text", ["\x1b[2J", "x" * (TEXT_BYTES_MAX + 1)])
def test_a_text_that_no_terminal_should_show_is_refused(text: str) -> None:
    for wire in (Wire(name=text), Wire(program=text), Wire(host=text)):
        with pytest.raises(InvalidArgument):
            application_from_wire(wire)
    with pytest.raises(InvalidArgument, match="name"):
        this_application(text)


def test_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/srv/pricing/__main__.py"])
    found = this_application("risk")
    assert (found.name, found.program, found.process_id) == ("risk", "pricing", os.getpid())
    monkeypatch.setattr(sys, "argv", ["/srv/\x07" + "é" * TEXT_BYTES_MAX])
    assert this_application("").program == "é" * (TEXT_BYTES_MAX // 2)


def test_what_people_see() -> None:
    assert str(Application("risk", "risk.py", "host-7", 47)) == "risk (host-7:47)"
    assert str(Application("", "risk.py", "host-7", 47)) == "risk.py (host-7:47)"
    assert str(Application(host="host-7", process_id=47)) == "host-7:47"
    assert str(UNNAMED) == ""
