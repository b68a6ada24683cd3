"""Errors of reading and writing with Spark, and of the pipeline's jobs.

    QuorateError
    ├── JavaNotFound, MessagesGone, OffsetsBehind                       Spark cannot read
    ├── RowsRefused, RowsDiffer, RowsUnaccounted, WriteNotOurs,
    │   AttemptSuperseded                                               Spark cannot write
    ├── NotArchived                                                     the archive lacks a topic
    └── TaskFailed, FunctionFailed, Interrupted                         a job ended early

An error that a store or an SDK raises, too, belongs to quorate.protocol.errors.
No store answers with an error of this module. A task tells the driver such an error by its class
name and its fields, so a field is a `str` or an `int`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from quorate.protocol.errors import Outcome, QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, INTERRUPTED, OUTCOME_UNKNOWN


@dataclass(eq=False)
class JavaNotFound(QuorateError):
    tried: str
    exit_code: ClassVar[int] = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Spark needs Java 17 or newer, and none was found ({self.tried}). Install one, or set "
            "JAVA_HOME. Or run `pip install '.[spark]'` in the directory of Quorate: it brings one."
        )


@dataclass(eq=False)
class MessagesGone(QuorateError):
    source: str
    first: int
    last: int
    evidence: str
    """The answer of each store."""

    def describe(self) -> str:
        return (
            f"[{self.first}, {self.last}] of {self.source} are gone: {self.evidence}. None of "
            "them was read. If they were archived, name the archive. To go on without them, set "
            "failOnDataLoss to false."
        )


@dataclass(eq=False)
class OffsetsBehind(QuorateError):
    source: str
    start: int
    end: int

    def describe(self) -> str:
        return (
            f"The query has to go on with {self.source} at {self.start}, but its end is now said "
            f"to be {self.end}. Its stream was begun anew, or these are other stores. Nothing was "
            "read. Check the stores; to start over, use a new checkpoint and a new cursorName."
        )


@dataclass(eq=False)
class RowsRefused(QuorateError):
    write: str
    batch: int
    partition: int
    detail: str
    partitions: int

    def describe(self) -> str:
        return (
            f"Batch {self.batch} of write {self.write} is not committed, because rows of partition "
            f"{self.partition} cannot be written: {self.detail.removesuffix('.')}. "
            f"Partitions with such rows: {self.partitions}. Spark did not repeat "
            "their tasks in vain. Rows that were written stay in the topic. Mend the others, and "
            "repeat the batch."
        )


@dataclass(eq=False)
class RowsDiffer(QuorateError):
    source: str
    write: str
    batch: int
    partition: int
    rows: int
    detail: str

    def describe(self) -> str:
        return (
            f"Partition {self.partition} of batch {self.batch} of write {self.write} was begun "
            f"before: {self.rows:,} of its rows are in {self.source}. Its rows did not come back "
            f"the same ({self.detail}). This task wrote nothing more. When Spark repeats a "
            "partition, the query must give it the same rows, in any order. So keep the number of "
            "partitions (repartition(n)), and take out what is random or depends on the time. To "
            "go on, set failOnRowsDiffer to false: then each row is there at least once. Or start "
            "another write: another writeId, or for a stream another checkpoint."
        )


@dataclass(eq=False)
class RowsUnaccounted(QuorateError):
    write: str
    batch: int
    rows: int
    sources: str

    def describe(self) -> str:
        return (
            f"Batch {self.batch} of write {self.write} is not committed. An earlier attempt wrote "
            f"{self.rows:,} rows that belong to no task of this attempt: {self.sources}. "
            "The number of partitions was another, or the rows were, so some of them are in the "
            "topic twice. This batch cannot be repaired. Start another write behind it (another "
            "writeId, or for a stream another checkpoint), and remove the duplicates where they "
            "are read. Keep the number of partitions over restarts (repartition(n))."
        )


@dataclass(eq=False)
class WriteNotOurs(QuorateError):
    source: str
    found: str

    def describe(self) -> str:
        return (
            f"Source {self.source} belongs to something else ({self.found}), so this write cannot "
            "tell which of its rows are there. Nothing was written. Choose another writeId, or for "
            "a stream another checkpoint."
        )


@dataclass(eq=False)
class AttemptSuperseded(QuorateError):
    source: str
    partition: int
    attempt: int
    outcome = Outcome.UNKNOWN
    exit_code: ClassVar[int] = OUTCOME_UNKNOWN

    def describe(self) -> str:
        return (
            f"Attempt {self.attempt} of partition {self.partition} stops: another attempt has "
            f"taken over {self.source}. No row is lost or written twice: the other attempt goes on "
            "where this one ended. If both failed, look at the error of the other one first."
        )


@dataclass(eq=False)
class NotArchived(QuorateError):
    topic: str
    path: str
    archived: str

    def describe(self) -> str:
        return (
            f"The archive {self.path} has nothing of topic {self.topic!r}. Archived topics: "
            f"{self.archived or 'none'}. Check the spelling."
        )


@dataclass(eq=False)
class TaskFailed(QuorateError):
    detail: str
    retryable = True

    def describe(self) -> str:
        return (
            f"A task of the job failed ({self.detail}). Nothing is "
            "broken, and no archive names a file that it wrote. Remove the cause (a full disk, a "
            "directory that not all workers reach), then run the job again."
        )


@dataclass(eq=False)
class FunctionFailed(QuorateError):
    function: str
    bookmark: str
    """The message that the function was given: source and sequence number."""
    time: str
    """The time of that message, as --since takes it."""
    error: str
    trace: str
    """Where the error was raised, the innermost place last; empty if that place has no lines."""

    def describe(self) -> str:
        return (
            f"The function {self.function} failed at the message {self.bookmark}: {self.error}. "
            "The messages before that one were handed over. Mend the function; then --since "
            f"{self.time} goes on from there.\n"
            f"{self.trace}"
        ).rstrip()


@dataclass(eq=False)
class Interrupted(QuorateError):
    signal: str
    remains: str
    """The state of the work that is left, and the next step."""
    exit_code: ClassVar[int] = INTERRUPTED

    def describe(self) -> str:
        return f"Interrupted ({self.signal}). {self.remains}"
