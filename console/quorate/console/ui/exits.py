"""Messages to people on stderr, and the error that a command ends with."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from quorate.protocol.errors import QuorateError
from quorate.protocol.exit_codes import INTERRUPTED

OUTPUT_KEY = "quorate.output"
"""The key of the chosen output format in a command's typer context."""
TLS_KEY = "quorate.tls"
"""The key of the TLS flags, a table, in a command's typer context."""


def report(error: QuorateError, meta: Mapping[str, Any]) -> int:
    """Show the error on stderr, as JSON if that output was asked for. Return its exit code."""
    code = error.exit_code
    if meta.get(OUTPUT_KEY) in ("json", "jsonl"):
        print(json.dumps(as_object(error)), file=sys.stderr)
    else:
        # A person who interrupted the command needs no alarm.
        style, label = ("", "") if code == INTERRUPTED else ("bold red", "error")
        say(str(error), style=style, label=label)
    return code


def as_object(error: QuorateError) -> dict[str, Any]:
    """Return the error for programs."""
    return {
        "error": type(error).__name__,
        "message": str(error),
        "fields": error.facts(),
        "retryable": error.retryable,
        "outcome": error.outcome.value,
        "exit_code": error.exit_code,
    }


def say(text: str, style: str = "", label: str = "") -> None:
    """Print one line for people on stderr, coloured if that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    line = Text(f"{label}: {text}" if label else text, style=style)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)
