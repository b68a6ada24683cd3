"""Tasks that Spark runs: each moves its bytes by itself, and only reports its results to Spark.

A task depends only on its part, so that Spark may run it again elsewhere. It reports entries of
JSON. Nothing here knows what a task does.
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
"""A result that a task reports, as values for JSON."""

Run = Callable[[Sequence[Any], Callable[[Any], Iterator[Entry]]], list[Entry]]
"""A function that runs a task for each part, and returns all reported entries in any order."""

_NOT_INSTALLED = (
    "No module named 'quorate' on a worker: the Python of its executors lacks Quorate. Install "
    "quorate[spark] for that Python, name another one with PYSPARK_PYTHON, or send a packed "
    "environment along with --archives; see docs/pipeline.md, Clusters"
)

_TOLD = pa.schema([pa.field("entry", pa.string())])


def on_spark(spark: SparkSession) -> Run:
    """Return a function that lets Spark run tasks.

    The function raises TaskFailed if a task failed as often as Spark tries one.
    """
    from pyspark.errors import PySparkException

    def run(parts: Sequence[P], task: Callable[[P], Iterator[Entry]]) -> list[Entry]:
        if not parts:
            return []
        # Each partition gets one number. Repartitioning could leave some empty.
        numbers = spark.range(0, len(parts), 1, len(parts))
        told = numbers.mapInArrow(partial(_run, list(parts), task), "entry string")
        try:
            return [json.loads(row.entry) for row in told.collect()]
        except PySparkException as error:
            raise TaskFailed(cause(str(error))) from error

    return run


def cause(text: str) -> str:
    """Return the error of a worker from Spark's long text about it.

    It is the last line of a traceback, first of all that of a QuorateError. Otherwise it is the
    first line of the text.
    """
    lines = [line.strip() for line in text.splitlines()]
    if "No module named 'quorate" in text:
        return _NOT_INSTALLED
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
    """Return the entry by which a task reports the error of a source."""
    return {
        "source": str(source),
        "failed": type(error).__name__,
        "message": str(error),
        "facts": error.facts(),
    }


def failed_from_json(entry: Entry) -> tuple[SourceName, QuorateError]:
    """Return the source and the error that a task reported."""
    error = QuorateError.from_facts(entry["failed"], entry["facts"])
    return parse_source(entry["source"]), error or Unreachable(entry["source"], entry["message"])
