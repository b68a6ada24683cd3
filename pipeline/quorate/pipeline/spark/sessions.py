"""Making of Spark sessions: Java, the settings for the data source, and its registration.

Users call this through `quorate.pipeline.session`. Nothing here runs a job.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quorate.pipeline.spark.data_source import QuorateDataSource
from quorate.pipeline.spark.java import (
    cache_directory,
    find_java,
    put_in_place,
)
from quorate.pipeline.spark.submitted import submitted
from quorate.protocol.errors import InvalidArgument

_SAID_AT_EVERY_START = (
    "Your hostname, .* resolves to a loopback",
    "Set SPARK_LOCAL_IP",
    "Unable to load native-hadoop library",
    "The data source quorate replaced a (statically|previously) registered",
)
_LOGGING = "".join(
    f"{line}\n"
    for line in (
        "rootLogger.level = warn",
        "rootLogger.appenderRef.stderr.ref = stderr",
        "appender.stderr.type = Console",
        "appender.stderr.name = stderr",
        "appender.stderr.target = SYSTEM_ERR",
        "appender.stderr.layout.type = PatternLayout",
        "appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex",
        "appender.stderr.filter.always.type = RegexFilter",
        f"appender.stderr.filter.always.regex = (?s)({'|'.join(_SAID_AT_EVERY_START)}).*",
        "appender.stderr.filter.always.onMatch = deny",
        "appender.stderr.filter.always.onMismatch = neutral",
    )
)
"""Spark's logging: everything from WARN on, without the harmless warnings of every start."""

_made: SparkSession | None = None
"""The session that make_session returned last."""

_TASK_TRIES = 4
"""How often a local Spark tries a task. By default it tries only once."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # An idle query asks for new messages this often.
    "spark.sql.streaming.pollingDelay": "100ms",
}

_LOCAL_SETTINGS = {
    # Executors write small requests to their workers. Over TCP the kernel holds back the second one
    # for 40 ms in each task.
    "spark.python.unix.domain.socket.enabled": "true",
    # The default starts processes. This one saves a third of the time of a small micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # Spark walks a plan by recursion. Until Java has compiled that code, its frames are large, and
    # the plan of a stream can fill the usual stack of 1 MB. A stack takes memory only as far as it
    # is used. Options of a user come behind these.
    "spark.driver.defaultJavaOptions": "-Xss8m",
}


def make_session(
    name: str,
    *,
    cores: int | None,
    remote: str | None,
    java: str | None,
    conf: Mapping[str, str],
) -> SparkSession:
    """Return a session, as quorate.pipeline.session says."""
    global _made
    if cores is not None and cores < 1:
        raise InvalidArgument("cores", f"{cores} is less than one")
    builder = SparkSession.builder.appName(name)
    if remote is None and _is_there():
        # Settings that a user has made since then stay as they are.
        builder = SparkSession.builder.config(map=dict(conf))
    elif remote is not None and remote.startswith("sc://"):
        builder = builder.remote(remote).config(map={**_SETTINGS, **conf})
    elif submitted():
        # Spark already runs, with the place and the resources that spark-submit was given.
        builder = builder.config(map={**_SETTINGS, **conf})
    else:
        master = conf.get("spark.master", "local")
        _prepare_process(java, workers_here=remote is not None or master.startswith("local"))
        if remote is not None:
            builder = builder.remote(remote).config(map={**_here(cores), **conf})
        elif _is_here(master):
            builder = builder.config(map={**_here(cores), "spark.master": _master(cores), **conf})
        else:
            builder = builder.config(map={**_SETTINGS, **conf})
    session: SparkSession = builder.getOrCreate()
    session.dataSource.register(QuorateDataSource)
    if SparkSession.getActiveSession() is None:
        # Writing looks for data sources in the active session, which no thread inherits. This
        # makes the session the active one of this thread.
        session.createDataFrame([], "nothing int")
    _made = session
    return session


def _is_there() -> bool:
    """Return whether Spark would give out the session that was made here."""
    try:
        return SparkSession.active() is _made
    except PySparkException:
        return False


def _is_here(master: str) -> bool:
    """Return whether all of Spark is one process on this machine."""
    return re.match(r"local(\[|$)", master) is not None


def _master(cores: int | None) -> str:
    return f"local[{cores or _cores_here()},{_TASK_TRIES}]"


def _here(cores: int | None) -> dict[str, str]:
    """Return the settings of a Spark on this machine."""
    shuffling = {"spark.sql.shuffle.partitions": str(cores or _cores_here())}
    return {**_SETTINGS, **_LOCAL_SETTINGS, **shuffling}


def _cores_here() -> int:
    return os.cpu_count() or 1


def _prepare_process(java: str | None, *, workers_here: bool) -> None:
    """Set the environment from which a Spark that this process starts takes its settings.

    workers_here: all workers are on this machine.
    """
    os.environ["JAVA_HOME"] = str(find_java(java, os.environ))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if workers_here:
        # Otherwise they run the first `python3` on PATH. Those of a cluster do, because Spark sends
        # this path along, and another machine may not have it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(_spark_home(Path(pyspark.__file__).parent))


def _spark_home(package: Path) -> Path:
    """Return a home of Spark with our logging, and without its zipped copy of PySpark.

    Each worker would compile that copy anew.
    """
    name = hashlib.sha256((str(package) + _LOGGING).encode()).hexdigest()[:12]
    cache = cache_directory(os.environ)
    place = cache / f"spark-{pyspark.__version__}-{name}"
    if place.exists():
        return place
    made = Path(tempfile.mkdtemp(prefix="spark-", dir=cache))
    for part in ("bin", "jars", "sbin", "licenses"):
        if (package / part).exists():
            (made / part).symlink_to(package / part)
    (made / "python" / "lib").mkdir(parents=True)
    (made / "conf").mkdir()
    (made / "conf" / "log4j2.properties").write_text(_LOGGING)
    return put_in_place(made, place)
