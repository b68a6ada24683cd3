"""Which settings a session is made with, and what a Spark that it starts says by itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests import seams

from quorate.pipeline import session
from quorate.pipeline.spark import sessions


class Builder:
    """Stands in for SparkSession.builder, and for the session; remembers what it was told."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.at: str | None = None
        self.registered: list[Any] = []
        self.dataSource = self

    def appName(self, name: str) -> Builder:
        self.settings["spark.app.name"] = name
        return self

    def remote(self, url: str) -> Builder:
        self.at = url
        return self

    def config(self, *, map: dict[str, str]) -> Builder:
        self.settings.update(map)
        return self

    def getOrCreate(self) -> Builder:
        return self

    def createDataFrame(self, *_: object) -> None:
        """No thread needs it here."""

    def register(self, source: Any) -> None:
        self.registered.append(source)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """For each Spark that was to be started from this process, the Java that was asked for."""
    made: list[str | None] = []

    def prepare(java: str | None, *, workers_here: bool) -> None:
        del workers_here
        made.append(java)

    monkeypatch.setattr(SparkSession, "builder", Builder())
    seams.SPARK_SESSIONS_PREPARE_PROCESS.replace(monkeypatch, prepare)
    seams.SPARK_SESSIONS_MADE.replace(monkeypatch, None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return made


def settings(**given: Any) -> dict[str, str]:
    made: Any = session("a job", **given)
    assert [each.name() for each in made.registered] == ["quorate"]
    found: dict[str, str] = made.settings
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.app.name"] == "a job"
    return found


def test_without_a_word_spark_runs_on_this_machine_and_repeats_tasks(
    prepared: list[str | None],
) -> None:
    found = settings(cores=3, java="/java")
    assert found["spark.master"] == "local[3,4]"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.python.unix.domain.socket.enabled"] == "true"
    assert found["spark.driver.defaultJavaOptions"] == "-Xss8m"
    assert prepared == ["/java"]


def test_spark_submit_says_where_spark_runs_and_what_it_may_use(
    prepared: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    found = settings(cores=3, conf={"spark.task.maxFailures": "8"})
    assert set(found) == {*sessions._SETTINGS, "spark.app.name", "spark.task.maxFailures"}
    assert prepared == [], "Java runs already"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_cluster_has_no_settings_of_a_single_machine(
    prepared: list[str | None], master: str
) -> None:
    found = settings(conf={"spark.master": master})
    assert found["spark.master"] == master
    assert set(found) == {*sessions._SETTINGS, "spark.app.name", "spark.master"}
    assert prepared == [None]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, sys.executable),
        ({"conf": {"spark.master": "local-cluster[2,1,1024]"}}, sys.executable),
        ({"remote": "local[2]"}, sys.executable),
        ({"conf": {"spark.master": "spark://host:7077"}}, None),
        ({"conf": {"spark.master": "yarn"}}, None),
    ],
)
def test_workers_of_a_cluster_are_sent_no_path_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], sent: str | None
) -> None:
    monkeypatch.setattr(SparkSession, "builder", Builder())
    seams.SPARK_SESSIONS_MADE.replace(monkeypatch, None)
    # What the call sets is undone after the test.
    for name in ("JAVA_HOME", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    settings(**given)
    assert os.environ.get("PYSPARK_PYTHON") == sent


def test_a_master_on_this_machine_is_taken_with_its_settings(prepared: list[str | None]) -> None:
    found = settings(conf={"spark.master": "local[1,2]"})
    assert found["spark.master"] == "local[1,2]"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert prepared == [None]


def test_a_server_of_spark_connect_has_its_own_java(prepared: list[str | None]) -> None:
    assert "spark.master" not in settings(remote="sc://host:15002")
    assert prepared == []


def test_a_server_of_spark_connect_may_be_started_here(prepared: list[str | None]) -> None:
    found = settings(remote="local[2]")
    assert "spark.master" not in found
    assert found["spark.driver.host"] == "127.0.0.1"
    assert prepared == [None]


def test_the_home_of_spark_has_no_zipped_copy_of_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "python" / "lib").mkdir(parents=True)
    (package / "python" / "lib" / "pyspark.zip").touch()
    home = sessions._spark_home(package)
    assert (home / "jars").resolve() == package / "jars"
    assert list((home / "python" / "lib").iterdir()) == []
    assert sessions._spark_home(package) == home


# What Spark says.


@pytest.fixture
def appender(spark: SparkSession) -> Any:
    """Where what Spark logs goes to, as the running Java has it."""
    jvm: Any = spark._jvm
    configuration = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration()
    source = configuration.getConfigurationSource().getLocation()
    assert Path(source).samefile(Path(os.environ["SPARK_HOME"], "conf", "log4j2.properties"))
    return configuration.getAppender("stderr")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 192.0.2.2", False),
        ("Set SPARK_LOCAL_IP if you need to bind to another address", False),
        ("Unable to load native-hadoop library for your platform... using builtin-java", False),
        ("The data source quorate replaced a statically registered data source.", False),
        ("The data source quorate replaced a previously registered data source.", False),
        ("The data source other replaced a statically registered data source.", True),
        ("Lost task 1.0 in stage 3.0\nYour hostname, vm, resolves to a loopback", True),
    ],
)
def test_only_what_spark_says_at_every_start_is_left_out(
    spark: SparkSession, appender: Any, said: str, shown: bool
) -> None:
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    message = log4j.message.SimpleMessage(said)
    event = log4j.core.impl.Log4jLogEvent.newBuilder().setMessage(message).build()
    assert appender.isFiltered(event) is not shown


def test_warnings_and_errors_are_shown(spark: SparkSession) -> None:
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    # Jobs in the same session have Spark say less: this is as it was when it started.
    log4j.LogManager.getContext(False).reconfigure()
    root = log4j.LogManager.getRootLogger()
    assert root.isWarnEnabled()
    assert not root.isInfoEnabled()


def test_a_thread_has_a_stack_for_the_plan_of_a_stream(spark: SparkSession) -> None:
    management: Any = spark._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    given = list(management.getRuntimeMXBean().getInputArguments())
    assert [each for each in given if each.startswith("-Xss")] == ["-Xss8m"]
    assert "-XX:+UseSerialGC" in given, "options of the user hold, too"


def test_the_session_that_there_is_keeps_its_settings(spark: SparkSession) -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "7")
    assert session() is spark
    assert spark.conf.get(name) == "7"
    assert session(conf={name: str(before)}) is spark
    assert spark.conf.get(name) == before
