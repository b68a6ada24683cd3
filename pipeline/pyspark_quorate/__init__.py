"""The package in which Spark looks for `format("quorate")` when nobody registered it.

Spark imports every `pyspark_*` package that it finds, and one that fails hides all others. So
nothing is imported here before it is used.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from quorate.pipeline.spark.data_source import QuorateDataSource

        return QuorateDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
