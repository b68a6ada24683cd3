"""Which error ends a program with which exit code: the command, and jobs that Spark is given.

The one table from error class to exit code. Nothing here decides what an error is.
"""

from __future__ import annotations

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
    errors.RegIdInUse: FAILED,
    errors.TopicRefused: DENIED,
    errors.Fenced: OUTCOME_UNKNOWN,
    errors.NotYetStable: OUTCOME_UNKNOWN,
    errors.StorageFailed: FAILED,
    errors.StorageUnreadable: FAILED,
    errors.ContentConflict: FAILED,
    errors.OutOfOrder: FAILED,
    errors.MissingMessages: FAILED,
    errors.NotLost: FAILED,
    errors.OtherHistory: FAILED,
    errors.OtherLineage: FAILED,
    errors.BeingDeleted: FAILED,
    errors.SourceDeleted: FAILED,
    errors.ArchiveUnusable: FAILED,
    errors.NotArchived: FAILED,
    errors.ArchiveInvalid: FAILED,
    errors.ArchiveNewer: FAILED,
    errors.ArchiveChanged: FAILED,
    errors.ArchiveDiffers: FAILED,
    errors.TaskFailed: FAILED,
    errors.FunctionFailed: FAILED,
    errors.Interrupted: INTERRUPTED,
    errors.RestoreRefused: UNREACHABLE,
    errors.JavaNotFound: CONFIGURATION,
    errors.MessagesGone: FAILED,
    errors.OffsetsBehind: FAILED,
    errors.RowsDiffer: FAILED,
    errors.RowsUnaccounted: FAILED,
    errors.WriteNotOurs: FAILED,
    errors.AttemptSuperseded: OUTCOME_UNKNOWN,
    errors.CorruptBatch: FAILED,
    errors.BrokenAnswer: FAILED,
    errors.VersionMismatch: FAILED,
    errors.UnknownTopic: FAILED,
    errors.Closed: FAILED,
    errors.MessageTooLarge: FAILED,
    errors.InvalidArgument: USAGE,
    errors.PolicyNotInForce: CONFIGURATION,
    errors.NeverStable: CONFIGURATION,
    errors.ConfigurationInvalid: CONFIGURATION,
    errors.DataDirectoryInUse: CONFIGURATION,
    errors.DataDirectoryOfAnother: CONFIGURATION,
    errors.DataDirectoryUsed: CONFIGURATION,
    errors.DataDirectoryNewer: CONFIGURATION,
    errors.DataDirectoryOlder: CONFIGURATION,
    errors.DataDirectoryCorrupt: FAILED,
    errors.NotFounded: CONFIGURATION,
    errors.StoreNotReady: UNREACHABLE,
}


def exit_code(error: QuorateError) -> int:
    """The exit code of a program that ends with this error."""
    for cls in type(error).__mro__:
        if cls in EXIT_CODES:
            return EXIT_CODES[cls]
    return OUTCOME_UNKNOWN if error.outcome is Outcome.UNKNOWN else FAILED
