"""Every error has its exit code, and is shown for people or for machines."""

import json

import pytest

from quorate.console.ui.exits import (
    OUTPUT_KEY,
    report,
)
from quorate.protocol import errors
from quorate.protocol.errors import QuorateError

ALL = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, QuorateError) and cls is not QuorateError
]


CODES = {
    "Unreachable": 69,
    "StoreStopping": 69,
    "TakenForHung": 69,
    "LiveStreamOver": 69,
    "NotRegistered": 69,
    "NoQuorum": 69,
    "InLimbo": 69,
    "NotAStore": 69,
    "SourceActive": 1,
    "ReceiverActive": 1,
    "Deregistered": 1,
    "RegIdInUse": 1,
    "TopicRefused": 77,
    "AccessDenied": 77,
    "TlsFailed": 78,
    "LimitReached": 69,
    "EpochTooFar": 1,
    "Fenced": 75,
    "TooManyRegistrations": 69,
    "BatchRefused": 1,
    "StoreFull": 69,
    "TooManySubscriptions": 69,
    "StoreLags": 69,
    "PositionNotReached": 69,
    "TakenOver": 75,
    "NotYetOnDisk": 75,
    "NotYetStable": 75,
    "NotKept": 1,
    "WaitsForItself": 2,
    "UsedBeforeFork": 2,
    "SendTimedOut": 69,
    "PublishStoreInUse": 78,
    "PublishStoreDamaged": 1,
    "StorageFailed": 1,
    "StorageUnreadable": 1,
    "ContentConflict": 1,
    "OutOfOrder": 1,
    "MissingMessages": 1,
    "NotLost": 1,
    "OtherHistory": 1,
    "OtherLineage": 1,
    "BeingDeleted": 1,
    "SourceDeleted": 1,
    "RestoreRefused": 69,
    "CorruptBatch": 1,
    "BrokenAnswer": 1,
    "VersionMismatch": 1,
    "UnknownBookmark": 1,
    "UnknownTopic": 1,
    "ArchiveChanged": 1,
    "ArchiveDiffers": 1,
    "ArchiveInvalid": 1,
    "ArchiveNewer": 1,
    "ArchiveUnusable": 1,
    "BookmarkStoreFailed": 1,
    "PastUnavailable": 1,
    "StateUnavailable": 69,
    "TopicHasNoKeys": 1,
    "BookmarksTakenOver": 1,
    "Closed": 1,
    "MessageTooLarge": 1,
    "InvalidArgument": 2,
    "InvalidFilter": 2,
    "PolicyNotInForce": 78,
    "NeverStable": 78,
    "ConfigurationInvalid": 78,
    "DataDirectoryInUse": 78,
    "DataDirectoryOfAnother": 78,
    "DataDirectoryUsed": 78,
    "DataDirectoryNewer": 78,
    "DataDirectoryOlder": 78,
    "DataDirectoryCorrupt": 1,
    "NotFounded": 78,
    "StoreNotReady": 69,
    "UnknownQueue": 1,
    "QueueElsewhere": 69,
    "NotYetSettled": 75,
}


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_error_class_has_its_exit_code(cls: type[QuorateError]) -> None:
    assert cls.exit_code == CODES[cls.__name__]


def test_no_code_is_listed_for_a_class_that_is_gone() -> None:
    assert set(CODES) == {cls.__name__ for cls in ALL}


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_an_error_that_may_have_happened_says_its_code_itself(cls: type[QuorateError]) -> None:
    """The default would be taken for "it did not happen"."""
    if cls.outcome is errors.Outcome.UNKNOWN:
        assert "exit_code" in vars(cls)


def test_unforeseen_errors_have_the_code_of_the_class_that_they_extend() -> None:
    class Lately(QuorateError):
        pass

    class Further(errors.Unreachable):
        pass

    assert Lately().exit_code == 1
    assert Further("a:1", "gone").exit_code == 69


def test_an_error_is_one_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(errors.Unreachable("there:7301", "connection refused"), {})
    shown = capsys.readouterr()
    assert code == 69
    assert shown.out == ""
    assert shown.err.startswith("error: there:7301 cannot be reached (connection refused).")
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
