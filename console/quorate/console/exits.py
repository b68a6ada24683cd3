"""Which error ends the command with which exit code, and how errors are shown.

The one table from error class to exit code. Nothing here decides what an error is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from quorate.protocol import errors
from quorate.protocol.errors import Outcome, QuorateError

DONE = 0
FAILED = 1
USAGE = 2
UNHEALTHY = 10
UNREACHABLE = 69
OUTCOME_UNKNOWN = 75
DENIED = 77
CONFIGURATION = 78
INTERRUPTED = 130

OUTPUT_KEY = "quorate.output"
"""Where a command leaves, in its typer context, the output format that was asked for."""

EXIT_CODES: dict[type[QuorateError], int] = {
    errors.Unreachable: UNREACHABLE,
    errors.StoreStopping: UNREACHABLE,
    errors.NotRegistered: UNREACHABLE,
    errors.NoQuorum: UNREACHABLE,
    errors.InLimbo: UNREACHABLE,
    errors.NotAStore: UNREACHABLE,
    errors.SourceActive: FAILED,
    errors.ReceiverActive: FAILED,
    errors.Deregistered: FAILED,
    errors.SourceDeleted: FAILED,
    errors.RegIdInUse: FAILED,
    errors.TopicRefused: DENIED,
    errors.Fenced: OUTCOME_UNKNOWN,
    errors.NotYetStable: OUTCOME_UNKNOWN,
    errors.StorageFailed: FAILED,
    errors.ContentConflict: FAILED,
    errors.OutOfOrder: FAILED,
    errors.MissingMessages: FAILED,
    errors.NotLost: FAILED,
    errors.OtherHistory: FAILED,
    errors.BeingDeleted: FAILED,
    errors.ArchiveInvalid: FAILED,
    errors.ArchiveNewer: FAILED,
    errors.ArchiveChanged: FAILED,
    errors.ArchiveDiffers: FAILED,
    errors.TaskFailed: FAILED,
    errors.RestoreRefused: UNREACHABLE,
    errors.JavaNotFound: CONFIGURATION,
    errors.MessagesGone: FAILED,
    errors.OffsetsBehind: FAILED,
    errors.RowsDiffer: FAILED,
    errors.RowsUnaccounted: FAILED,
    errors.WriteNotOurs: FAILED,
    errors.AttemptSuperseded: OUTCOME_UNKNOWN,
    errors.CorruptBatch: FAILED,
    errors.VersionMismatch: FAILED,
    errors.UnknownTopic: FAILED,
    errors.Closed: FAILED,
    errors.MessageTooLarge: FAILED,
    errors.InvalidArgument: USAGE,
    errors.PolicyNotInForce: CONFIGURATION,
    errors.NeverStable: CONFIGURATION,
    errors.ConfigurationInvalid: CONFIGURATION,
    errors.DataDirectoryInUse: CONFIGURATION,
    errors.DataDirectoryNewer: CONFIGURATION,
    errors.DataDirectoryOlder: CONFIGURATION,
    errors.DataDirectoryCorrupt: FAILED,
    errors.NotFounded: CONFIGURATION,
}


def exit_code(error: QuorateError) -> int:
    """The exit code of a command that ends with this error."""
    for cls in type(error).__mro__:
        if cls in EXIT_CODES:
            return EXIT_CODES[cls]
    return OUTCOME_UNKNOWN if error.outcome is Outcome.UNKNOWN else FAILED


def report(error: QuorateError, meta: Mapping[str, Any]) -> int:
    """Show the error on stderr, as JSON if that output was asked for; the exit code."""
    code = exit_code(error)
    if meta.get(OUTPUT_KEY) in ("json", "jsonl"):
        print(json.dumps(as_object(error)), file=sys.stderr)
    else:
        say(str(error), style="bold red", label="error")
    return code


def as_object(error: QuorateError) -> dict[str, Any]:
    """The error for machines."""
    return {
        "error": type(error).__name__,
        "message": str(error),
        "fields": error.facts(),
        "retryable": error.retryable,
        "outcome": error.outcome.value,
        "exit_code": exit_code(error),
    }


def say(text: str, style: str = "", label: str = "") -> None:
    """One line for people on stderr, coloured if that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    line = Text(f"{label}: {text}" if label else text, style=style)
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)
