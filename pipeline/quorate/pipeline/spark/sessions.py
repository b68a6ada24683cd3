"""Making Spark sessions: Java, the settings that the data source wants, its registration.

Called through `quorate.pipeline.session`.
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

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
appender.stderr.filter.always.type = RegexFilter
appender.stderr.filter.always.regex = (?s)(Your hostname, .* resolves to a loopback|\
Set SPARK_LOCAL_IP|Unable to load native-hadoop library|\
The data source quorate replaced a (statically|previously) registered).*
appender.stderr.filter.always.onMatch = deny
appender.stderr.filter.always.onMismatch = neutral
"""
"""What Spark says from WARN on, but for what it says at every start and means nothing here."""

_made: SparkSession | None = None
"""What came out last."""

_TASK_TRIES = 4
"""A local Spark does not try a task again unless it is told to."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    # A query that has nothing to do asks for news as often as this.
    "spark.sql.streaming.pollingDelay": "100ms",
}

_LOCAL_SETTINGS = {
    # Takes a third of a small micro-batch less than the default, which starts processes.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def make_session(
    name: str,
    *,
    cores: int | None,
    remote: str | None,
    java: str | None,
    conf: Mapping[str, str],
) -> SparkSession:
    """See quorate.pipeline.session."""
    global _made
    if cores is not None and cores < 1:
        raise InvalidArgument("cores", f"{cores} is less than one")
    builder = SparkSession.builder.appName(name)
    if remote is None and _is_there():
        # What somebody has set since then stays as it is.
        builder = SparkSession.builder.config(map=dict(conf))
    elif remote is not None and remote.startswith("sc://"):
        builder = builder.remote(remote).config(map={**_SETTINGS, **conf})
    elif submitted():
        # Spark runs, where spark-submit was told that it shall, and with what it may use.
        builder = builder.config(map={**_SETTINGS, **conf})
    else:
        _prepare_process(java)
        if remote is not None:
            builder = builder.remote(remote).config(map={**_here(cores), **conf})
        elif _is_here(conf.get("spark.master", "local")):
            builder = builder.config(map={**_here(cores), "spark.master": _master(cores), **conf})
        else:
            builder = builder.config(map={**_SETTINGS, **conf})
    session: SparkSession = builder.getOrCreate()
    session.dataSource.register(QuorateDataSource)
    if SparkSession.getActiveSession() is None:
        # A thread does not inherit the active session, in which writing looks for data sources:
        # this makes it that of this thread.
        session.createDataFrame([], "nothing int")
    _made = session
    return session


def _is_there() -> bool:
    """Whether the session that would come out is the one that was made here."""
    try:
        return SparkSession.active() is _made
    except PySparkException:
        return False


def _is_here(master: str) -> bool:
    """Whether all of Spark is one process of this machine."""
    return re.match(r"local(\[|$)", master) is not None


def _master(cores: int | None) -> str:
    return f"local[{cores or _cores_here()},{_TASK_TRIES}]"


def _here(cores: int | None) -> dict[str, str]:
    """The settings of a Spark on this machine."""
    shuffling = {"spark.sql.shuffle.partitions": str(cores or _cores_here())}
    return {**_SETTINGS, **_LOCAL_SETTINGS, **shuffling}


def _cores_here() -> int:
    return os.cpu_count() or 1


def _prepare_process(java: str | None) -> None:
    """What a Spark that is started from this process takes from its environment."""
    os.environ["JAVA_HOME"] = str(find_java(java, os.environ))
    # Otherwise Spark's workers are whatever `python3` is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(_spark_home(Path(pyspark.__file__).parent))


def _spark_home(package: Path) -> Path:
    """Spark's home with our logging, and without its zipped copy of PySpark, which each worker
    would compile anew."""
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
