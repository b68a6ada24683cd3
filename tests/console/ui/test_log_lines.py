"""Log lines: one line a record, in UTC, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys

from quorate.console.ui.log_lines import JsonLines, TextLines


def record(message: str, *arguments: object, error: bool = False) -> logging.LogRecord:
    made = logging.LogRecord(
        "quorate.store.node", logging.WARNING, __file__, 1, message, arguments,
        sys.exc_info() if error else None,
    )  # fmt: skip
    made.created, made.msecs = 1_700_000_000.25, 250
    return made


def test_text() -> None:
    line = TextLines().format(record("store %s serves", "s1"))
    assert line == "2023-11-14T22:13:20.250Z WARNING quorate.store.node: store s1 serves"


def test_json_is_one_line_whatever_the_message() -> None:
    line = JsonLines().format(record('a "quote"\nand a line of %s', "ü"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "quorate.store.node",
        "message": 'a "quote"\nand a line of ü',
    }


def test_json_has_the_traceback_of_an_error() -> None:
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        found = json.loads(JsonLines().format(record("it failed", error=True)))
    assert found["message"] == "it failed"
    assert found["traceback"].endswith("RuntimeError: broken")
