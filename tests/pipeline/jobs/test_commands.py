"""`quorate stats` and `quorate backtest` as users run them, on real stores, also on Spark."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from tests import seams
from tests.pipeline.contents import by_source, payloads
from tests.pipeline.group import Group, numbered
from typer.testing import CliRunner

from quorate.console import main
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.errors import TaskFailed
from quorate.pipeline.jobs import (
    command as jobs,
)
from quorate.pipeline.jobs.backtest import WallClock
from quorate.pipeline.jobs.replay import Replayed
from quorate.pipeline.stores.client import Stores

TOPICS = ("commands.a", "commands.b")
NOBODY = "127.0.0.1:9"

HEARD: list[Replayed] = []


def hear(message: Replayed) -> None:
    HEARD.append(message)


def fail(message: Replayed) -> None:
    if message.position.sequence == 2:
        digest(message.payload)


def digest(payload: bytes) -> None:
    raise ValueError(f"can not digest {payload!r}")


@pytest.fixture(scope="module", autouse=True)
def _published(group: Group) -> None:
    for topic in TOPICS:
        group.publish(topic, numbered(0, 2_999))


@pytest.fixture
def _on_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of all tests: one of its own would stop that."""
    seams.JOBS_COMMAND_SESSION.replace(monkeypatch, lambda *_: contextlib.nullcontext(spark))


@pytest.fixture
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(*_: object) -> None:
        raise AssertionError("Spark was started")

    seams.JOBS_COMMAND_SESSION.replace(monkeypatch, starts)


def quorate(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, [*arguments])


def on(group: Group) -> tuple[str, ...]:
    return ("--stores", group.stores, "--topics-pattern", r"commands\.[ab]")


# Statistics.


@pytest.mark.usefixtures("_without_spark")
def test_stats_shows_tables(group: Group) -> None:
    result = quorate("stats", *on(group))
    assert result.exit_code == 0, result.output
    for title in ("Topics", "Sources", "Sizes in bytes", "Longest gaps"):
        assert title in result.stdout
    [row] = [
        line.split()
        for line in result.stdout.split("Sources")[1].splitlines()
        if line.split()[:2] == ["commands.b", "0x10"]
    ]
    assert row[2] == "3,000"


@pytest.mark.usefixtures("_without_spark")
def test_stats_tells_programs_the_same_and_draws_it(group: Group, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    result = quorate("stats", *on(group), "-o", "json", "--gap", "5", "--plot", str(picture))
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert [(each["topic"], each["messages"]) for each in said["topics"]] == [
        (topic, 3000) for topic in TOPICS
    ]
    assert {each["gap_over"] for each in said["sources"]} <= {5.0, None}
    assert "<svg" in picture.read_text()
    assert f"Drawn: {picture}." in result.stderr


@pytest.mark.usefixtures("_without_spark")
def test_stats_gives_a_line_for_each_source(group: Group) -> None:
    result = quorate("stats", *on(group), "-o", "jsonl")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["topic"], row["source"], row["largest"]) for row in rows] == [
        (topic, "0x10", 4) for topic in TOPICS
    ]


@pytest.mark.usefixtures("_on_spark")
def test_stats_on_spark_are_the_same(group: Group) -> None:
    here = quorate("stats", *on(group), "-o", "json")
    there = quorate("stats", *on(group), "-o", "json", "--master", "local[2]")
    assert there.exit_code == 0, there.output
    assert json.loads(there.stdout) == json.loads(here.stdout)


@pytest.mark.usefixtures("_without_spark")
def test_stats_of_a_time_without_messages_are_empty(group: Group) -> None:
    result = quorate("stats", *on(group), "--until", "2000-01-01T00:00:00Z")
    assert result.exit_code == 0, result.output
    assert "Topics: no messages" in result.stdout


@pytest.mark.usefixtures("_without_spark")
@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("--topic", "nobody-has-it"), 1, "nobody-has-it"),
        (("--topic", "commands.a", "--topics-pattern", "x"), 2, "--topics-pattern: "),
        (("--topics-pattern", "("), 2, "--topics-pattern: '(' is not a regular expression"),
        (("--since", "soon"), 2, "--since: 'soon' is neither"),
        (("--until", "soon"), 2, "--until: 'soon' is neither"),
        (("--gap", "0"), 2, "gap: 0.0 is not a number of seconds above 0"),
        (("--gap", "nan"), 2, "gap: nan"),
        (("--gap", "long"), 2, "Invalid value for '--gap'"),
        (("--plot", "picture.bmp"), 2, "does not end with one of .png, .svg, .pdf"),
        (("--plot", "/no/such/directory/p.png"), 2, "there is no directory /no/such/directory"),
        (("--archive", "/no/such/archive"), 1, "/no/such/archive"),
        (("--stores", NOBODY), 69, NOBODY),
    ],
)
def test_stats_says_what_is_wrong_before_it_reads(
    group: Group, given: tuple[str, ...], code: int, said: str
) -> None:
    result = quorate("stats", "--stores", group.stores, *given)
    assert said in result.stderr
    assert result.exit_code == code
    assert result.stdout == ""


def test_what_fails_in_spark_is_an_error_and_no_trace(
    group: Group, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lasting:
        """The session of all tests, which no job ends or silences."""

        sparkContext = SimpleNamespace(setLogLevel=lambda _: None)

        def __getattr__(self, name: str) -> Any:
            return getattr(spark, name)

        def stop(self) -> None:
            """Not this one."""

    seams.PIPELINE_SESSION.replace(monkeypatch, lambda *_, **__: Lasting())
    seams.JOBS_COMMAND_CHECK_TABLE.replace(monkeypatch, lambda *_: None)
    command = ("backtest", "--master", "local[2]", "--function", "os:getcwd")
    result = quorate(*command, "--stores", group.stores, "--topic", "gone-meanwhile")
    assert result.exit_code == 1, result.output
    assert "A task of the job failed" in result.stderr
    assert "gone-meanwhile" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("the answer is empty")],
)
def test_a_java_that_dies_is_called_that(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dead:
        @property
        def sparkContext(self) -> Any:
            return SimpleNamespace(setLogLevel=lambda _: None)

        def stop(self) -> None:
            raise error

    seams.PIPELINE_SESSION.replace(monkeypatch, lambda *_, **__: Dead())
    job = jobs._session("audit", lambda _: None)
    with pytest.raises(TaskFailed, match="Java, which runs Spark, has ended"), job:
        raise error


# Replays.


@pytest.mark.usefixtures("_on_spark")
def test_backtest_sends_to_topics_and_says_how_far(group: Group) -> None:
    result = quorate("backtest", *on(group), "--to", "{topic}.again", "--speed", "max")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.split("Sent")[1].splitlines()]
    assert [row for row in rows if len(row) == 2][1:] == [
        [f"{topic}.again", "2,999"] for topic in TOPICS
    ]
    for topic in TOPICS:
        assert by_source(group, f"{topic}.again").popitem()[1] == numbered(0, 2_999)


@pytest.mark.usefixtures("_on_spark")
@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_backtest_calls_a_function_with_every_message(group: Group, output: str) -> None:
    HEARD.clear()
    function = f"{__name__}:hear"
    result = quorate("backtest", *on(group), "--function", function, "--speed", "max", "-o", output)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["messages"], said["interrupted"], said["sent_upto"]) == (6000, False, {})
    assert len(HEARD) == 6000
    places = [each.position for each in HEARD]
    assert places == sorted(places)


@pytest.mark.usefixtures("_on_spark")
def test_backtest_that_is_interrupted_says_so_and_goes_on(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(WallClock):
        asked = 0

        def now(self) -> float:
            self.asked += 1
            if self.asked > 20:
                # As Ctrl-C and SIGTERM do.
                raise KeyboardInterrupt
            return super().now()

    named = ("--to", "commands.replayed", "--name", "nightly", "--until", "2100-01-01")
    command = ("backtest", *on(group), *named, "--speed", "max", "-o", "json")
    with monkeypatch.context() as patch:
        seams.BACKTEST_JOB_WALL_CLOCK.replace(patch, Impatient)
        result = quorate(*command)
    assert result.exit_code == 130, result.output
    first = json.loads(result.stdout)
    assert first["interrupted"]
    assert 0 < first["messages"] < 6000
    result = quorate(*command)
    assert result.exit_code == 0, result.output
    rest = json.loads(result.stdout)
    assert rest["messages"] == 6000 - first["messages"]
    assert rest["resumed_at"] is not None
    assert payloads(group, "commands.replayed") == sorted(numbered(0, 2_999) * 2)
    assert json.loads(quorate(*command).stdout)["messages"] == 0


@pytest.mark.usefixtures("_on_spark")
def test_backtest_says_where_a_function_fails_and_with_what(group: Group) -> None:
    function = f"{__name__}:fail"
    result = quorate("backtest", *on(group), "--function", function, "--speed", "max")
    assert result.exit_code == 1
    first, *places = result.stderr.splitlines()
    assert first.startswith(
        f"error: The function {function} failed at the message commands.a/0x10 2: "
        "ValueError: can not digest b'2'. "
    )
    assert [place.rpartition(", in ")[2] for place in places if "File" in place] == [
        "fail",
        "digest",
    ]
    assert places[-1].strip().startswith("raise ValueError(")
    since = first.rpartition("--since ")[2].partition(" ")[0]
    HEARD.clear()
    function = f"{__name__}:hear"
    again = ("--since", since, "--function", function, "--speed", "max")
    result = quorate("backtest", *on(group), *again)
    assert result.exit_code == 0
    assert "commands.a/0x10 2" in {
        f"{each.topic}/{each.position.source} {each.position.sequence}" for each in HEARD
    }


@pytest.mark.usefixtures("_without_spark")
@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ((), 2, "give either a topic to send to, or a function"),
        (("--to", "t", "--function", "os:getcwd"), 2, "give either a topic"),
        (("--to", ""), 2, "topic"),
        (("--to", "t", "--speed", "-1"), 2, "neither a number above 0 nor max"),
        (("--to", "t", "--speed", "nan"), 2, "neither a number above 0 nor max"),
        (("--to", "t", "--name", "n"), 2, "is needed with a --name"),
        (("--function", "os:getcwd", "--name", "n"), 2, "is for a replay to a topic"),
        (("--function", "nonsense"), 2, "not of the form module:name"),
        (("--function", "no_such_module:f"), 2, "cannot be loaded"),
        (("--to", "t", "--since", "soon"), 2, "--since: 'soon' is neither"),
        (("--to", "t", "--topic", "nobody-has-it"), 1, "nobody-has-it"),
        (("--to", "t", "--archive", "/no/such/archive"), 1, "/no/such/archive"),
        (("--to", "t", "--group", "g=a:1"), 2, "name the stores in a group"),
        (("--to", "t", "--stores", NOBODY), 69, NOBODY),
    ],
)
def test_backtest_says_what_is_wrong_before_spark_starts(
    group: Group, given: tuple[str, ...], code: int, said: str
) -> None:
    result = quorate("backtest", "--stores", group.stores, *given)
    assert said in result.stderr
    assert result.exit_code == code
    assert result.stdout == ""


# What is wrong is said alike by all.

JOBS = {
    "archive": ("archive", "{archive}"),
    "restore": ("restore", "{archive}"),
    "audit": ("audit",),
    "stats": ("stats",),
    "backtest": ("backtest", "--function", "os:getcwd"),
}


@pytest.fixture
def archived(group: Group, tmp_path: Path) -> str:
    """An archive of what the tests here have published."""
    path = tmp_path / "archive"
    jobs_run: Any = lambda parts, task: [entry for part in parts for entry in task(part)]  # noqa: E731
    archive(jobs_run, Stores(group.addresses), str(path), selects=lambda topic: topic in TOPICS)
    return str(path)


@pytest.mark.usefixtures("_without_spark")
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (
            ("--topic", "commands.a", "--topic", "comands.a"),
            1,
            "of topic 'comands.a'|for topic 'comands.a'",
        ),
        (("--topics-pattern", "comands.*"), 1, r"topic 'comands\.\*'.* topics: .*commands\.a, "),
        (("--topic", ""), 2, "--topic: is empty"),
        (
            ("--topic", "commands.a", "--topics-pattern", "x"),
            2,
            "--topics-pattern: is given together",
        ),
        (("--topics-pattern", "("), 2, r"--topics-pattern: '\(' is not a regular expression"),
        (("--stores", "host"), 2, "--stores: .*'host'"),
        (("--stores", ""), 2, "--stores: none given"),
    ],
)
def test_jobs_say_alike_what_is_wrong(
    group: Group, archived: str, job: str, given: tuple[str, ...], code: int, said: str
) -> None:
    command = [each.format(archive=archived) for each in JOBS[job]]
    result = quorate(*command, "--stores", group.stores, *given)
    assert re.search(said, result.stderr), result.stderr
    assert result.exit_code == code
    assert result.stdout == ""


NO_ARCHIVES = [
    ("{there}/a-file", 1, "The archive path .*/a-file.* cannot be used: "),
    ("{there}/nowhere", 1, "The archive path .*/nowhere cannot be used: no archive is there"),
    ("", 2, "archive path: none is given"),
    ("ftp://bucket/archive", 2, "archive path: ftp://bucket/archive"),
]
"""A path, the exit code, what is said."""


@pytest.mark.usefixtures("_without_spark")
@pytest.mark.parametrize(
    ("job", "path", "code", "said"),
    [
        (job, *each)
        for job in JOBS
        for each in NO_ARCHIVES
        # An audit knows none, and archiving makes the directory.
        if job != "audit" and (job, each[0]) != ("archive", "{there}/nowhere")
    ],
)
def test_jobs_say_alike_that_a_path_is_no_archive(
    group: Group, tmp_path: Path, job: str, path: str, code: int, said: str
) -> None:
    (tmp_path / "a-file").touch()
    path = path.format(there=tmp_path)
    name, *options = JOBS[job]
    where = [path] if job in ("archive", "restore") else [*options, "--archive", path]
    result = quorate(name, *where, "--stores", group.stores)
    assert re.search(said, result.stderr), result.stderr
    assert result.exit_code == code
