"""One Spark session and one group of stores for all tests here; a test uses topics of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.group import Group

from quorate.pipeline import session

_PRELOADED = Path(__file__).parent / "preloaded"
"""Where Spark's daemons find what they import before they fork workers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs Spark among the long tests: it starts processes for the first query of each
    kind. So it may take its time on a busy machine."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(300))
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # The JVM lives for seconds: compiling less, and collecting on one thread, is faster.
    java = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(_PRELOADED), prepend=os.pathsep)
        made = session("tests", cores=2, conf=java)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Three stores that run; tests that harm stores make a group of their own."""
    made = Group(tmp_path_factory.mktemp("stores"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def own_group(tmp_path: Path) -> Iterator[Group]:
    """Three stores that run, of which the test may do what it likes."""
    made = Group(tmp_path)
    made.start()
    yield made
    made.stop()
