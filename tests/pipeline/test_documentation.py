"""docs/pipeline.md says what is: its example is run, its options are those that there are."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from tests import seams
from tests.pipeline.archive.support import ORDERS, FakeStores, Stream, batch, here
from tests.pipeline.group import Group
from typer.testing import CliRunner

from quorate.console import main
from quorate.console.main import COMMANDS, load
from quorate.console.ui.settings import resolve
from quorate.pipeline import options
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.jobs import command as jobs
from quorate.pipeline.jobs.replay import (
    Position,
    Replayed,
)
from quorate.pipeline.options import Options
from quorate.pipeline.schema import ARROW
from quorate.pipeline.write import options as write_options
from quorate.protocol.policy import IntergroupRule

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "pipeline.md").read_text()
SCRIPT = ROOT / "docs" / "examples" / "flights.py"
PLOT = ROOT / "docs" / "examples" / "flights_plot.py"
JOBS = re.findall(r"^### `quorate (\w+)", TEXT, re.M)


def section(heading: str) -> str:
    """What is under a heading, as far as the next one of its level or above."""
    level = heading.partition(" ")[0]
    rest = TEXT[TEXT.index(f"\n{heading}") + len(heading) + 1 :]
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.M)[0]


def option_table(text: str) -> dict[str, str]:
    """Option and default, of the table with a column `option`."""
    rows = text[text.index("| option |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {cell[0].strip("`"): cell[1] for cell in cells}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


# The example.


def test_the_example_shows_what_the_script_does() -> None:
    script = SCRIPT.read_text()
    shown = blocks(section("## A worked example"), "python")
    assert len(shown) >= 4
    for block in shown:
        assert block in script, block


def test_what_is_shown_of_reading_and_writing(
    spark: SparkSession, group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "A.shown"  # Spark shows 20 topics of the group at most
    frame = spark.createDataFrame([(topic, b"k", b"1")], ["topic", "key", "payload"])
    for heading in ("## Writing", "## Reading"):
        code = blocks(section(heading), "python")[0]
        code = code.replace("a=host-a:7301,b=host-b:7301,c=host-c:7301", group.stores)
        # The session of the tests is there already.
        exec(code.replace("quorate.pipeline.session()", "spark"), {"spark": spark, "frame": frame})
    assert topic in capsys.readouterr().out


def test_what_is_shown_of_the_progress_of_a_stream(
    spark: SparkSession, group: Group, tmp_path: Path
) -> None:
    group.publish("shown-progress", [b"1", b"2", b"3"])
    options = {"stores": group.stores, "topics": "shown-progress", "maxMessagesPerTrigger": "2"}
    rows = spark.readStream.format("quorate").options(**options).load()
    names: dict[str, Any] = {"json": json, "expr": expr, "rows": rows}
    names["checkpoint"] = str(tmp_path / "checkpoint")
    (code,) = blocks(section("### Progress of a stream"), "python")
    exec(code, names)
    try:
        said = {each["batchId"]: each for each in names["query"].recentProgress}
        assert (names["lag"], names["left_out"]) == (0, 0)
        (first,) = said[0]["sources"]
        assert json.loads(first["endOffset"]) == {"shown-progress/0x10": 2}
        assert json.loads(first["latestOffset"]) == {"shown-progress/0x10": 3}
        assert said[0]["observedMetrics"]["waited"].ms > 0
        assert first["metrics"] == {}
    finally:
        names["query"].stop()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_example_loses_nothing(tmp_path: Path) -> None:
    short = ["--days", "1", "--hours", "3", "--directory", str(tmp_path)]
    ended = subprocess.run([sys.executable, str(SCRIPT), *short], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    # What the document shows, but of one day instead of a year, and three hours instead of six.
    (shown,) = blocks(section("## A worked example"), "text")
    expected = shown.replace("336,776", "842").replace("260 flights", "107 flights")
    assert ended.stdout.endswith(expected.replace("14:00 UA1086 to IAH is late\n", ""))
    assert "842 flights published; " in ended.stdout
    picture = tmp_path / "flights.png"
    subprocess.run([sys.executable, str(PLOT), str(tmp_path / "delays"), str(picture)], check=True)
    assert picture.stat().st_size > 10_000


def test_the_function_that_is_shown_is_called_as_the_document_says(
    spark: SparkSession,
    group: Group,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about = section("### `quorate backtest`")
    (code,) = blocks(about, "python")
    (command,) = blocks(about, "console")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("sizes.py").write_text(code)
    seams.JOBS_COMMAND_SESSION.replace(monkeypatch, lambda *_: contextlib.nullcontext(spark))
    topic = "documentation.orders"
    group.publish(topic, [b"1", b"22", b"1", b"4444", b"333"])
    _, *given = shlex.split(command[2:].replace("orders", topic))
    result = CliRunner().invoke(main.app, [*given, "--stores", group.stores])
    assert result.exit_code == 0, result.output
    said = [line[9:] for line in result.stdout.splitlines() if line.endswith(" bytes")]
    assert said == [
        f"{topic}/0x10 {sequence}: {size} bytes" for sequence, size in ((0, 1), (1, 2), (3, 4))
    ]


def test_what_a_function_gets_is_described() -> None:
    about = section("### `quorate backtest`")
    rows = about[about.index("| field |") :].split("\n\n")[0].splitlines()[2:]
    said = {row.split("|")[1].strip().strip("`") for row in rows}
    fields = set(Replayed._fields)
    properties = {name for name, one in vars(Replayed).items() if isinstance(one, property)}
    assert said == fields | properties
    (position,) = (row for row in rows if row.startswith("| `position`"))
    assert {each[1:] for each in re.findall(r"`(\.\w+)`", position)} == set(Position._fields)


def test_an_archive_is_read_as_the_document_says(tmp_path: Path) -> None:
    (code,) = blocks(section("### `quorate archive PATH`"), "python")
    path = str(tmp_path / "archive")
    frames = [batch(0, 9), batch(10, 19)]
    archive(here, FakeStores({ORDERS: Stream(frames=frames, stable_upto=19)}), path)
    (written,) = tmp_path.glob("archive/topic=*/day=*/*.parquet")
    # As an archiver leaves it that was killed.
    shutil.copy(written, written.with_name(f"left-{written.name}"))
    assert len(list(written.parent.glob("*.parquet"))) == 2
    names: dict[str, Any] = {"deltalake": deltalake, "duckdb": duckdb, "polars": polars}
    names["path"] = path
    exec(code, names)
    rows = names["rows"]
    assert set(rows["sequence"].to_pylist()) == set(range(20))
    assert (rows.num_rows, rows.column_names) == (20, ["source", "sequence", "payload"])


# The options.


class Recorded(Options):
    """Remembers what was asked for."""

    made: Options | None = None

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        type(self).made = self

    @classmethod
    def names(cls) -> set[str]:
        assert cls.made is not None
        return set(cls.made._known.values())


def check_options(
    table: dict[str, str], known: set[str], read: Callable[[dict[str, str]], Any]
) -> None:
    assert set(table) == known
    for name, said in table.items():
        stated = re.fullmatch(r"`(\S+)`", said)
        if stated:
            assert read({name: stated[1]}) == read({}), f"{name} is not {stated[1]} by default"


def test_options_of_reading_are_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.PIPELINE_OPTIONS_OPTIONS.replace(monkeypatch, Recorded)
    options.read_options({"stores": "h:1"})
    check_options(
        option_table(section("## Reading")),
        Recorded.names(),
        lambda given: options.read_options({"stores": "h:1", **given}),
    )


SPARKS_KAFKA = {
    *("kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign", "startingOffsets"),
    *("endingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "endingTimestamp"),
    *("endingOffsetsByTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"),
    *("maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "failOnDataLoss"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *("groupIdPrefix", "kafka.group.id", "includeHeaders", "startingOffsetsByTimestampStrategy"),
    *("key", "value", "topic", "timestamp", "headers", "partition", "offset", "timestampType"),
}
"""Options and columns of Spark's source for Kafka, as Spark's integration guide names them."""


def test_what_is_compared_with_sparks_source_for_kafka_exists_there_and_here() -> None:
    rows = section("### Beside Spark's Kafka source").splitlines()
    cells = [row.strip("|").split("|") for row in rows if row.startswith("| ")][1:]
    theirs = {name for cell in cells for name in re.findall(r"`(\S+)`", cell[0])}
    assert theirs == SPARKS_KAFKA - {"startingOffsetsByTimestampStrategy"}
    other_names = {name.lower() for name in SPARKS_KAFKA - set(map(str, ARROW.names))}
    own = {name.lower() for name in option_table(section("## Reading"))}
    columns = {"value", "headers", "partition", "offset", "timestamptype"}
    assert set(options.OF_KAFKA) == other_names - own - columns
    ours = {name for cell in cells for name in re.findall(r"`(\S+)`", cell[1])}
    known = set(option_table(section("## Reading"))) | set(ARROW.names)
    assert ours <= known, ours - known


def test_options_of_writing_are_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.OPTIONS_IN_WRITE_OPTIONS.replace(monkeypatch, Recorded)

    def read(given: dict[str, str]) -> Any:
        where = {"groups": "a=h:1"} if "intergroup" in given or not given else {"stores": "h:1"}
        return write_options.write_options({**where, "writeId": "w", **given}, streaming=False)

    read({})
    known = Recorded.names()
    table = option_table(section("## Writing"))
    assert set(table) == known
    assert read({"intergroup": table["intergroup"].strip("`")}) == read({})
    plain = read({"timeout": table["timeout"].strip("`")})
    assert plain == read({"batchId": table["batchId"].strip("`")})


def table_of(job: str) -> dict[str, str]:
    heading = next(line for line in TEXT.splitlines() if line.startswith(f"### `quorate {job}"))
    return option_table(section(heading))


@pytest.mark.parametrize("job", JOBS)
def test_options_of_jobs_are_those_that_there_are(job: str) -> None:
    known = {
        max(each.opts, key=len): each
        for each in load(job).params
        if each.param_type_name == "option" and "--help" not in each.opts
    }
    said = table_of(job)
    assert set(said) == set(known)
    resolved = resolve({}, groups=["g=h:1"], environment={"QUORATE_CONFIG": os.devnull})
    others = {
        "--output": resolved.output.value,
        "--intergroup": IntergroupRule(resolved.layout.policy.rule).value,
        "--keep": "7d",
        # Asked for, if neither the environment nor a file has it.
        "--stores": "QUORATE_STORES",
    }
    for name, default in said.items():
        stated = re.fullmatch(r"`(\S+)`", default)
        if stated:
            actual = known[name].default
            assert stated[1] == (others[name] if actual is None else str(actual)), name
        elif default == "no":
            assert known[name].default is False, name
        else:
            assert known[name].default in (None, []), f"{name} is not {default} by default"


@pytest.mark.parametrize("job", JOBS)
def test_programs_for_spark_submit_take_the_same_options(job: str) -> None:
    parser = argparse.ArgumentParser()
    next(add for name, add, _ in jobs._JOBS if name == job)(parser)
    known = {
        max(each.option_strings, key=len): each.default
        for each in parser._actions
        if each.option_strings and each.dest != "help"
    }
    said = {
        name: default
        for name, default in table_of(job).items()
        if name not in ("--output", "--compact", "--vacuum", "--keep")
    }
    assert set(known) == set(said)
    for name, default in said.items():
        stated = re.fullmatch(r"`(\S+)`", default)
        if stated and name != "--stores":
            assert known[name] == stated[1]
        else:
            assert known[name] in (None, [], False)


def test_every_job_of_the_command_is_described() -> None:
    assert set(JOBS) == {name for name, _, _ in jobs._JOBS} & set(COMMANDS)


def test_commands_that_are_shown_exist() -> None:
    lines = [line for block in blocks(TEXT, "console") for line in block.splitlines()]
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ quorate ")]
    assert commands
    for _, name, *arguments in commands:
        known = {opt for each in load(name).params for opt in each.opts}
        assert {each for each in arguments if each.startswith("-")} <= known
