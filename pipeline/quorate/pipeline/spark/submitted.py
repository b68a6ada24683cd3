"""Programs that spark-submit started: how to recognize one, and where its lines for people go.

In such a program Spark already runs, with the settings given to spark-submit. The program's stderr
arrives at the stdout of spark-submit. Nothing here imports Spark before it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in environment


def say(text: str) -> None:
    """Print a line to stderr, or, in a program that spark-submit started, to its stderr."""
    if not submitted():
        print(text, file=sys.stderr, flush=True)
        return
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    java = SparkContext._jvm
    assert java is not None
    java.java.lang.System.err.println(text)
