"""Every error has its exit code, and is shown for people or for machines."""

import json

import pytest

from quorate.console.ui.exits import (
    OUTPUT_KEY,
    report,
)
from quorate.protocol import errors
from quorate.protocol.errors import QuorateError
from quorate.protocol.exit_codes import EXIT_CODES, exit_code

ALL = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, QuorateError) and cls is not QuorateError
]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_error_class_is_in_the_table(cls: type[QuorateError]) -> None:
    assert cls in EXIT_CODES


def test_unforeseen_errors_go_by_their_outcome() -> None:
    class Lately(QuorateError):
        pass

    class Perhaps(QuorateError):
        outcome = errors.Outcome.UNKNOWN

    class Further(errors.Unreachable):
        pass

    assert exit_code(Lately()) == 1
    assert exit_code(Perhaps()) == 75
    assert exit_code(Further("a:1", "gone")) == 69


def test_an_error_is_one_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(errors.Unreachable("there:7301", "connection refused"), {})
    shown = capsys.readouterr()
    assert code == 69
    assert shown.out == ""
    assert shown.err.startswith("error: there:7301 can not be reached (connection refused).")
    assert shown.err.count("\n") == 1


def test_an_error_is_an_object_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(errors.Fenced("source a/0x1", 3, 4), {OUTPUT_KEY: "json"})
    shown = json.loads(capsys.readouterr().err)
    assert code == 75
    assert shown["error"] == "Fenced"
    assert shown["fields"] == {"who": "source a/0x1", "epoch": "3", "promised": "4"}
    assert shown["exit_code"] == 75
    assert shown["outcome"] == "unknown"
    assert shown["retryable"] is False
