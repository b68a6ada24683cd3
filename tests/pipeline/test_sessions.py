"""What a Spark that `session` starts says by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession


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
    root = log4j.LogManager.getRootLogger()
    assert root.isWarnEnabled()
    assert not root.isInfoEnabled()
