"""The jobs, as the command, `python -m quorate.pipeline` and `spark-submit` call them.

From arguments to a report: here it is made sure that what a user gives is right before Spark is
started, which takes seconds. What a job does is in a module of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import sys
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.pipeline.errors import Interrupted, NotArchived, TaskFailed
from quorate.pipeline.jobs.interrupt import (
    done_aside,
    interruptible,
)
from quorate.pipeline.spark.submitted import (
    say,
    submitted,
)
from quorate.protocol.errors import InvalidArgument, QuorateError, UnknownTopic
from quorate.protocol.exit_codes import DONE, FAILED, INTERRUPTED
from quorate.protocol.identity import check_topic
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import parse_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quorate.pipeline.archive.archiving import ArchiveReport
    from quorate.pipeline.archive.compacting import CompactReport
    from quorate.pipeline.archive.rebuilding import RebuildReport
    from quorate.pipeline.audit.verdict import AuditReport
    from quorate.pipeline.jobs.backtest import BacktestReport
    from quorate.pipeline.jobs.restore import RestoreReport
    from quorate.pipeline.jobs.stats import StatsReport
    from quorate.pipeline.stores.client import Catalogue

Told = Callable[[str], None]
"""Is told how a job goes; for people."""

_ARCHIVE_REMAINS = (
    "The archive is whole; what was not finished is no part of it. Run it again to go on."
)
_RESTORE_REMAINS = "What the stores have of it already they keep. Run it again to go on."
_NOTHING_REMAINS = "Nothing was changed."
_BACKTEST_REMAINS = (
    "What was sent stays sent. A replay with a --name goes on there when it is run again."
)


def selection(topics: Sequence[str], pattern: str | None) -> Callable[[str], bool]:
    """Which topics are meant: these, or those that a regular expression matches; all if neither.

    Raises InvalidArgument.
    """
    if topics and pattern is not None:
        raise InvalidArgument("--topics-pattern", "is given together with --topic; give one")
    if pattern is not None:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            detail = f"{pattern!r} is no regular expression: {error}"
            raise InvalidArgument("--topics-pattern", detail) from None
        return lambda topic: compiled.fullmatch(topic) is not None
    try:
        wanted = frozenset(map(check_topic, topics))
    except InvalidArgument as error:
        raise InvalidArgument("--topic", error.detail) from None
    return lambda topic: topic in wanted or not wanted


@contextlib.contextmanager
def _session(name: str, told: Told) -> Iterator[SparkSession]:
    """Spark, for as long as a job takes; raises TaskFailed for what fails in Spark."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    from quorate.pipeline import session
    from quorate.pipeline.archive.tasks import cause
    from quorate.pipeline.spark.java import find_java_for_jobs

    told("starting Spark")
    # What spark-submit started has it.
    java = None if submitted() else str(find_java_for_jobs(os.environ))
    done_aside(lambda: session(f"quorate {name}", java=java))
    # The same one, which is that of this thread, too, from here on.
    made = session(f"quorate {name}", java=java)
    server: Any = getattr(made.sparkContext, "_accumulatorServer", None)
    if server is not None:
        # It would print a trace if Java dies, which the call that fails for it tells, too.
        server.handle_error = lambda *_: None
    try:
        made.sparkContext.setLogLevel("ERROR")
        yield made
    except (ConnectionError, Py4JNetworkError) as error:
        why = f"Java, which runs Spark, has ended ({error}); was there too little memory?"
        raise TaskFailed(why) from error
    except (PySparkException, Py4JError) as error:
        raise TaskFailed(cause(str(error))) from error
    finally:
        _stop(made)


def _stop(spark: SparkSession) -> None:
    """End Spark without a word; if Java has died, or a call was cut off, as far as it can be."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, OSError):
        # What Spark says of tasks that are cut off is of no use to anybody.
        spark.sparkContext.setLogLevel("OFF")
    with contextlib.suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


@interruptible(_ARCHIVE_REMAINS)
def run_archive(
    stores: Sequence[str],
    path: str,
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    told: Told,
) -> ArchiveReport:
    """`quorate archive`; stores: host:port of each.

    Raises as archiving.archive, UnknownTopic, JavaNotFound.
    """
    from quorate.pipeline.archive.archiving import archive
    from quorate.pipeline.archive.directory import ArchiveDirectory
    from quorate.pipeline.archive.tasks import on_spark
    from quorate.pipeline.stores.client import Stores

    selects = selection(topics, topics_pattern)
    archived = {source.topic for source in ArchiveDirectory(path).newest().sources}
    _check_known(topics, topics_pattern, Stores(stores).sources(), archived)
    ArchiveDirectory(path).check_writable()
    with _session("archive", told) as spark:
        return archive(
            on_spark(spark),
            Stores(stores),
            path,
            selects=selects,
            parts=spark.sparkContext.defaultParallelism,
            told=told,
        )


@interruptible(_ARCHIVE_REMAINS)
def run_compact(path: str, *, told: Told) -> CompactReport:
    """`quorate archive --compact`. Raises as compacting.compact, JavaNotFound."""
    from quorate.pipeline.archive.compacting import compact
    from quorate.pipeline.archive.directory import ArchiveDirectory
    from quorate.pipeline.archive.tasks import on_spark

    ArchiveDirectory(path).newest()
    with _session("compact", told) as spark:
        return compact(on_spark(spark), path, told=told)


@interruptible(_ARCHIVE_REMAINS)
def run_rebuild(path: str, *, told: Told) -> RebuildReport:
    """`quorate archive --rebuild`. Raises as rebuilding.rebuild."""
    from quorate.pipeline.archive.rebuilding import rebuild

    return rebuild(path, told=told)


@interruptible(_RESTORE_REMAINS)
def run_restore(
    layout: Layout,
    path: str,
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    told: Told,
) -> RestoreReport:
    """`quorate restore`. Raises as restoring.restore, JavaNotFound."""
    from quorate.pipeline.archive.reading import Archive
    from quorate.pipeline.archive.tasks import on_spark
    from quorate.pipeline.jobs.restore import restore

    selects = selection(topics, topics_pattern)
    archived = {source.topic for source in Archive(path).sources}
    for wanted in unmatched(topics, topics_pattern, archived):
        raise NotArchived(wanted, path, ", ".join(sorted(archived)))
    with _session("restore", told) as spark:
        return restore(on_spark(spark), path, layout, selects=selects, told=told)


@interruptible(_NOTHING_REMAINS)
def run_audit(
    stores: Sequence[str],
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    thorough: bool = False,
    told: Told,
) -> AuditReport:
    """`quorate audit`; stores: host:port of each. Raises as auditing.audit, UnknownTopic."""
    from quorate.pipeline.archive.tasks import on_spark
    from quorate.pipeline.jobs.audit import audit
    from quorate.pipeline.stores.client import Stores

    selects = selection(topics, topics_pattern)
    _check_known(topics, topics_pattern, Stores(stores).sources())
    with _session("audit", told) as spark:
        return audit(
            on_spark(spark),
            stores,
            selects=selects,
            thorough=thorough,
            parts=spark.sparkContext.defaultParallelism,
            told=told,
        )


@interruptible(_NOTHING_REMAINS)
def run_stats(
    stores: Sequence[str],
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    since: str | None = None,
    until: str | None = None,
    archive: str | None = None,
    gap_seconds: float | None = None,
    picture: str | None = None,
    told: Told,
) -> StatsReport:
    """`quorate stats`; since and until: times; picture: a file to draw them into.

    Raises UnknownTopic, InvalidArgument, and as a read of the table, JavaNotFound, OSError if it
    can not be drawn.
    """
    from quorate.pipeline.jobs.stats import check_gap

    # Neither should be found out after a long job.
    check_gap(gap_seconds)
    if picture is not None:
        from quorate.pipeline.jobs.plot import check_plot

        check_plot(picture)
    options = read_table_options(stores, topics, topics_pattern, since, until, archive)
    _check_table(options, topics, topics_pattern)
    with _session("stats", told) as spark:
        from quorate.pipeline.jobs.stats import report

        table = spark.read.format("quorate").options(**options).load()
        made = report(table, gap_seconds=gap_seconds)
    if picture is not None:
        from quorate.pipeline.jobs.plot import plot

        plot(made, picture)
    return made


@interruptible(_BACKTEST_REMAINS)
def run_backtest(
    layout: Layout,
    *,
    to: str | None = None,
    function: str | None = None,
    name: str | None = None,
    speed: str = "1",
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    since: str | None = None,
    until: str | None = None,
    archive: str | None = None,
    told: Told,
) -> BacktestReport:
    """`quorate backtest`; function: `module:name`; speed: a number, or `max`.

    Raises UnknownTopic, InvalidArgument, and as backtesting.backtest_to, JavaNotFound.
    """
    stores = [store.address for store in layout.stores]
    options = read_table_options(stores, topics, topics_pattern, since, until, archive)
    times_faster = parse_speed(speed)
    if (to is None) == (function is None):
        raise InvalidArgument("--to", "give either a topic to send to, or a function")
    if name is not None and to is None:
        raise InvalidArgument("--name", "is for a replay to a topic, which remembers how far it is")
    if name is not None and until is None:
        raise InvalidArgument(
            "--until", "is needed with a --name: what comes meanwhile would change what is replayed"
        )
    called = _function(function) if function is not None else None
    if to is not None:
        from quorate.pipeline.jobs.replay_sinks import check_target

        check_target(to)
    _check_table(options, topics, topics_pattern)
    with _session("backtest", told) as spark:
        from quorate.pipeline.jobs.backtest import (
            backtest,
            backtest_to,
        )

        table = spark.read.format("quorate").options(**options).load()
        if called is not None:
            return backtest(table, called, speed=times_faster, told=told)
        assert to is not None
        name = name or str(uuid.uuid4())
        return backtest_to(table, to, layout, name=name, speed=times_faster, told=told)


def unmatched(topics: Sequence[str], pattern: str | None, known: Collection[str]) -> Iterator[str]:
    """Of the topics that are asked for, or the pattern of them, what there is nothing of."""
    yield from (topic for topic in topics if topic not in known)
    if pattern is not None and not any(map(selection((), pattern), known)):
        yield pattern


def _check_known(
    topics: Sequence[str],
    pattern: str | None,
    catalogue: Catalogue,
    others: Collection[str] = (),
) -> None:
    """Raise UnknownTopic if one of these is nobody's. others: topics that there are elsewhere."""
    known = {source.topic for source in catalogue.sources}.union(others)
    for wanted in unmatched(topics, pattern, known):
        # A store that does not answer may have it.
        if not catalogue.silent:
            raise UnknownTopic(wanted, ", ".join(sorted(known)))


def _check_table(
    options: Mapping[str, str], topics: Sequence[str], topics_pattern: str | None
) -> None:
    """What Spark would only say in the midst of a long trace; raises UnknownTopic, Unreachable."""
    from quorate.pipeline.options import read_options
    from quorate.pipeline.read.batch_reader import stores_of

    _check_known(topics, topics_pattern, stores_of(read_options(options)).sources())


def parse_speed(text: str) -> float:
    """`max`, or how many times faster than it was; raises InvalidArgument."""
    try:
        speed = float("inf") if text == "max" else float(text)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise InvalidArgument("--speed", f"{text!r} is neither a number above 0 nor max")
    return speed


def _function(text: str) -> Callable[[Any], object]:
    module, colon, name = text.partition(":")
    if not colon:
        raise InvalidArgument("--function", f"{text!r} is not of the form module:name")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        # Whatever the user's module does when it is imported.
        why = f"{type(error).__name__}: {error}"
        raise InvalidArgument("--function", f"{text!r} can not be loaded: {why}") from error
    if not callable(found):
        raise InvalidArgument("--function", f"{text!r} can not be called")
    called: Callable[[Any], object] = found
    return called


def read_table_options(
    stores: Sequence[str],
    topics: Sequence[str],
    topics_pattern: str | None,
    since: str | None,
    until: str | None,
    archive: str | None,
) -> dict[str, str]:
    """The options of `format("quorate")` that these make, checked; raises InvalidArgument."""
    from quorate.pipeline.archive.directory import ArchiveDirectory
    from quorate.pipeline.options import parse_time, read_options

    selection(topics, topics_pattern)
    for flag, text in (("--since", since), ("--until", until)):
        try:
            parse_time(text if text is not None else "0")
        except InvalidArgument as error:
            raise InvalidArgument(flag, error.detail) from None
    if archive is not None:
        ArchiveDirectory(archive)
    if any("," in topic for topic in topics):
        # In a list it would be two.
        topics, topics_pattern = (), "|".join(map(re.escape, topics))
    given = {
        "stores": ",".join(stores),
        "topics": ",".join(topics),
        "topicsPattern": topics_pattern,
        "startingTimestamp": since,
        "endingTimestamp": until,
        "archive": archive,
    }
    options = {name: value for name, value in given.items() if value}
    read_options(options)
    return options


# `python -m quorate.pipeline`


def main(arguments: Sequence[str]) -> int:
    """Run a job, and print its report as JSON; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m quorate.pipeline", description="The jobs of the pipeline, on Spark."
    )
    jobs = parser.add_subparsers(dest="job", required=True)
    for name, add, summary in _JOBS:
        add(jobs.add_parser(name, help=summary, description=summary))
    given = parser.parse_args(arguments)
    try:
        code, report = given.run(given)
    except Interrupted as error:
        say(str(error))
        return error.exit_code
    except QuorateError as error:
        say(f"error: {error}")
        return error.exit_code
    except OSError as error:
        say(f"error: {error}")
        return FAILED
    print(json.dumps(report, indent=2))
    return int(code)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", action="append", default=[], help="only this; several may be")
    parser.add_argument("--topics-pattern", metavar="REGEX", help="only topics that match")


def _add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", metavar="[NAME=]HOST:PORT,…")
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME[/RULE]=HOST:PORT,…[+BACKUPS]"
    )
    parser.add_argument("--intergroup", default="any", help="the rule over the groups")


def _plain(stores: str) -> Layout:
    try:
        return Layout.plain(stores)
    except InvalidArgument as error:
        raise InvalidArgument("--stores", error.detail) from None


def _addresses(stores: str) -> list[str]:
    return [store.address for store in _plain(stores).stores]


def _layout(given: argparse.Namespace) -> Layout:
    if bool(given.stores) == bool(given.group):
        raise InvalidArgument("--stores", "give either this or --group")
    if given.stores:
        return _plain(given.stores)
    return Layout.of(*map(parse_group, given.group), rule=given.intergroup)


def _add_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive's directory")
    parser.add_argument("--stores", required=True, metavar="HOST:PORT,…")
    _add_topics(parser)

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        stores = _addresses(given.stores)
        report = run_archive(
            stores,
            given.path,
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            told=say,
        )
        return int(bool(report.failures)), report.as_object()

    parser.set_defaults(run=run)


def _add_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive's directory")
    parser.set_defaults(run=lambda given: (0, run_compact(given.path, told=say).as_object()))


def _add_rebuild(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive's directory")

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_rebuild(given.path, told=say)
        return DONE if report.whole else FAILED, report.as_object()

    parser.set_defaults(run=run)


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive's directory")
    _add_layout(parser)
    _add_topics(parser)

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_restore(
            _layout(given),
            given.path,
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            told=say,
        )
        return int(not report.done), report.as_object()

    parser.set_defaults(run=run)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", required=True, metavar="HOST:PORT,…")
    _add_topics(parser)
    parser.add_argument("--thorough", action="store_true", help="read and check every message")

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_audit(
            _addresses(given.stores),
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            thorough=given.thorough,
            told=say,
        )
        return report.outcome.exit_code, report.as_object()

    parser.set_defaults(run=run)


def _add_range(parser: argparse.ArgumentParser) -> None:
    _add_topics(parser)
    parser.add_argument("--since", metavar="TIME", help="from that time on")
    parser.add_argument("--until", metavar="TIME", help="before that time")
    parser.add_argument("--archive", metavar="PATH", help="where what has left the stores is")


def _add_stats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", required=True, metavar="HOST:PORT,…")
    _add_range(parser)
    parser.add_argument("--gap", type=float, metavar="SECONDS", help="how long a gap is at least")
    parser.add_argument("--plot", metavar="FILE", help="draw it: .png, .svg or .pdf")

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_stats(
            _addresses(given.stores),
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            since=given.since,
            until=given.until,
            archive=given.archive,
            gap_seconds=given.gap,
            picture=given.plot,
            told=say,
        )
        return 0, report.as_object()

    parser.set_defaults(run=run)


def _add_backtest(parser: argparse.ArgumentParser) -> None:
    _add_layout(parser)
    _add_range(parser)
    parser.add_argument("--to", metavar="TOPIC", help="send to it; {topic} is the message's own")
    parser.add_argument("--function", metavar="MODULE:NAME", help="call it with each message")
    parser.add_argument("--name", help="goes on where the replay of this name was")
    parser.add_argument("--speed", default="1", help="times faster than it was, or max")

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_backtest(
            _layout(given),
            to=given.to,
            function=given.function,
            name=given.name,
            speed=given.speed,
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            since=given.since,
            until=given.until,
            archive=given.archive,
            told=say,
        )
        return INTERRUPTED if report.interrupted else DONE, report.as_object()

    parser.set_defaults(run=run)


_JOBS: tuple[tuple[str, Callable[[argparse.ArgumentParser], None], str], ...] = (
    ("archive", _add_archive, "Move what is stable from the stores to Parquet."),
    ("compact", _add_compact, "Put small files of an archive together."),
    ("rebuild", _add_rebuild, "Make a damaged manifest of an archive again."),
    ("restore", _add_restore, "Give stores back what an archive has."),
    ("backtest", _add_backtest, "Replay a range to a topic or to a function."),
    ("stats", _add_stats, "Rates, sizes and gaps of what the stores have."),
    ("audit", _add_audit, "Compare what every store has; say whether anything is lost."),
)
