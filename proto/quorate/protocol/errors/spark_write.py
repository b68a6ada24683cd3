"""Errors of writing with Spark: a write that Spark repeats does not match what was written."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import Outcome, QuorateError
from quorate.protocol.exit_codes import OUTCOME_UNKNOWN


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
            f"before: {self.rows:,} of its rows are in {self.source}, and the rows did not come "
            f"back the same ({self.detail}). This task wrote nothing more. Whatever computes the "
            "rows must give each partition the same rows in the same order when Spark repeats it: "
            "keep the number of partitions (repartition(n)), sort after a shuffle "
            "(sortWithinPartitions), and take out what is random or depends on the time. What is "
            "written stays; to write other rows after all, start another write: another writeId, "
            "or for a stream another checkpoint."
        )


@dataclass(eq=False)
class RowsUnaccounted(QuorateError):
    write: str
    batch: int
    rows: int
    sources: str

    def describe(self) -> str:
        return (
            f"Batch {self.batch} of write {self.write} is not committed: {self.rows:,} rows of it, "
            f"written when it was tried before, belong to no task of this attempt: {self.sources}. "
            "The number of partitions was another, or the rows were, so some of them are in the "
            "topic twice. Keep the number of partitions over restarts (repartition(n)). This "
            "batch can not be made good: start another write (another writeId, or for a stream "
            "another checkpoint) behind it, and remove the duplicates where they are read."
        )


@dataclass(eq=False)
class WriteNotOurs(QuorateError):
    source: str
    found: str

    def describe(self) -> str:
        return (
            f"Source {self.source} belongs to something else ({self.found}), so this write can "
            "not tell what of it is there. Nothing was written. Choose another writeId, or for a "
            "stream another checkpoint."
        )


@dataclass(eq=False)
class AttemptSuperseded(QuorateError):
    source: str
    partition: int
    attempt: int
    outcome = Outcome.UNKNOWN
    exit_code = OUTCOME_UNKNOWN

    def describe(self) -> str:
        return (
            f"Attempt {self.attempt} of partition {self.partition} stops: another attempt of it "
            f"has taken over {self.source}. Nothing is lost or written twice: that one goes on "
            "where this one was. If both failed, look at the error of the other one first."
        )
