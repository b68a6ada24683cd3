"""What Spark looks for when it meets `format("quorate")` without having been told of it.

Spark imports every `pyspark_*` package that it finds, and one that fails hides all the others: so
nothing is imported here before it is asked for.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from quorate.pipeline.spark.data_source import QuorateDataSource

        return QuorateDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
