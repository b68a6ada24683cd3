"""The jobs as spark-submit runs them; its executors are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from tests.pipeline.group import Group, numbered

import quorate.pipeline.__main__ as entry
from quorate.archive.reading import Archive
from quorate.pipeline.spark import submitted
from quorate.pipeline.spark.java import find_java
from quorate.protocol.ranges import Range, RangeSet

pytestmark = pytest.mark.long


def submit(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = directory / "spark"
    (home / "python" / "lib").mkdir(parents=True)
    # Where Spark is, a cluster on this machine makes its directory of work.
    for part in ("bin", "jars"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPARK")},
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java(None, os.environ)),
        "PYSPARK_PYTHON": sys.executable,
        # The JVM lives for seconds: compiling less is faster.
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
    }
    return subprocess.run(
        [str(home / "bin" / "spark-submit"), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.processes
@pytest.mark.timeout(500)
def test_a_job_runs_where_spark_submit_says(group: Group, tmp_path: Path) -> None:
    source = group.publish("submitted", numbered(0, 9_999))
    path = tmp_path / "archive"
    job = [str(entry.__file__), "archive", str(path), "--topic", "submitted"]
    conf = [
        "spark.driver.host=127.0.0.1",
        "spark.ui.enabled=false",
        "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1",
    ]
    ended = submit(
        tmp_path,
        *("--master", "local-cluster[1,2,1024]"),
        *(word for each in conf for word in ("--conf", each)),
        *(*job, "--stores", group.stores),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads(ended.stdout)
    assert report["messages"] == 10_000
    assert "archiving 10,000 messages" in ended.stderr
    assert Archive(str(path)).has(source) == RangeSet([Range(0, 9_999)])
    # What spark-submit was told: a worker, which has started an executor for the job.
    [executor] = (tmp_path / "spark" / "work").glob("app-*/0/stderr")
    assert "Starting executor ID 0" in executor.read_text()


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_the_exit_code_comes_through_and_stdout_is_the_reports_alone(tmp_path: Path) -> None:
    job = [str(entry.__file__), "audit", "--stores", "127.0.0.1:9", "--topics-pattern", "("]
    ended = submit(tmp_path, "--master", "local[1]", *job)
    assert ended.returncode == 2, ended.stderr
    assert "error: --topics-pattern" in ended.stderr
    assert ended.stdout == ""


def test_modules_of_the_pipeline_do_not_hide_others_of_the_same_name() -> None:
    shown = (
        "import runpy, sys\n"
        f"sys.path.insert(0, {str(Path(entry.__file__).parent)!r})\n"
        f"runpy.run_path({entry.__file__!r})\n"
        "import importlib.util\n"
        "print(importlib.util.find_spec('stats'))\n"
    )
    assert subprocess.check_output([sys.executable, "-c", shown], text=True).strip() == "None"


def test_a_program_knows_whether_spark_submit_started_it() -> None:
    assert submitted.submitted({"PYSPARK_GATEWAY_PORT": "1", "HOME": "/"})
    assert not submitted.submitted({"HOME": "/"})


def test_what_is_said_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    submitted.say("starting")
    assert capsys.readouterr() == ("", "starting\n")
