"""What is different in a program that spark-submit started.

Spark runs already, as spark-submit was told, and whatever the program writes to stderr arrives at
the stdout of spark-submit. Nothing here imports Spark before it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in environment


def say(text: str) -> None:
    """A line to stderr; that of spark-submit if that started this process."""
    if not submitted():
        print(text, file=sys.stderr, flush=True)
        return
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    java = SparkContext._jvm
    assert java is not None
    java.java.lang.System.err.println(text)
