"""Having Spark run tasks that move bytes by themselves and only tell what came of it.

A task is a pure function of its part, so that Spark may run it again elsewhere; what it tells is
JSON. Nothing here knows what the tasks do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from quorate.pipeline.errors import TaskFailed
from quorate.pipeline.options import parse_source
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.identity import SourceName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = TypeVar("P")

Entry = dict[str, Any]
"""What a task tells, as JSON can say it."""

Run = Callable[[Sequence[Any], Callable[[Any], Iterator[Entry]]], list[Entry]]
"""Runs a task for each part; what all of them told, in no particular order."""

_TOLD = pa.schema([pa.field("entry", pa.string())])


def on_spark(spark: SparkSession) -> Run:
    """Spark runs the tasks; raises TaskFailed if one failed as often as it may."""
    from pyspark.errors import PySparkException

    def run(parts: Sequence[P], task: Callable[[P], Iterator[Entry]]) -> list[Entry]:
        if not parts:
            return []
        # One number in each partition: what is repartitioned may leave some empty.
        numbers = spark.range(0, len(parts), 1, len(parts))
        told = numbers.mapInArrow(partial(_run, list(parts), task), "entry string")
        try:
            return [json.loads(row.entry) for row in told.collect()]
        except PySparkException as error:
            raise TaskFailed(cause(str(error))) from error

    return run


def cause(text: str) -> str:
    """What a worker failed with, out of all that Spark says of it: the last line of a traceback."""
    lines = [line.strip() for line in text.splitlines()]
    for line in lines:
        if ours := re.match(r"quorate\.\w+\.errors(?:\.\w+)*\.\w+: (.+)", line):
            return ours[1]
    said = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
    return said[0] if said else next(filter(None, lines), "no reason was given")


def _run(
    parts: list[P], task: Callable[[P], Iterator[Entry]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for entry in task(parts[number]):
                yield pa.RecordBatch.from_pydict({"entry": [json.dumps(entry)]}, schema=_TOLD)


def failed_to_json(source: SourceName, error: QuorateError) -> Entry:
    """That something is not done of a source, and why."""
    return {
        "source": str(source),
        "failed": type(error).__name__,
        "message": str(error),
        "facts": error.facts(),
    }


def failed_from_json(entry: Entry) -> tuple[SourceName, QuorateError]:
    error = QuorateError.from_facts(entry["failed"], entry["facts"])
    return parse_source(entry["source"]), error or Unreachable(entry["source"], entry["message"])
