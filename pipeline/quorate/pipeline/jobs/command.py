"""The jobs, as the command, `python -m quorate.pipeline` and `spark-submit` call them.

Here arguments become a report. Each argument is checked before Spark starts, because that takes
seconds. The work of each job is in a module of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

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
from quorate.protocol.identity import check_topic, parse_addresses
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import parse_group
from quorate.protocol.patterns import pattern_of, topic_pattern
from quorate.protocol.times import age_of, later_ns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quorate.pipeline.archive.archiving import ArchiveReport
    from quorate.pipeline.archive.tasks import Run
    from quorate.pipeline.archive.upkeep import CompactReport, VacuumReport
    from quorate.pipeline.audit.verdict import AuditReport
    from quorate.pipeline.jobs.backtest import BacktestReport
    from quorate.pipeline.jobs.merging import StoredTable
    from quorate.pipeline.jobs.restore import RestoreReport
    from quorate.pipeline.jobs.stats import StatsReport
    from quorate.pipeline.stores.client import Catalogue

T = TypeVar("T")
Told = Callable[[str], None]
"""A function that gets lines for people about the progress of a job."""

_ARCHIVE_REMAINS = (
    "The archive is whole, and has nothing that was not finished. Run the job again to go on."
)
_RESTORE_REMAINS = "The stores keep what they were given so far. Run the job again to go on."
_NOTHING_REMAINS = "Nothing was changed."
_BACKTEST_REMAINS = (
    "Messages that were sent stay sent. Run a replay with a --name again to go on from there."
)


def selection(topics: Sequence[str], pattern: str | None) -> Callable[[str], bool]:
    """Return a function that tells whether a topic is selected.

    Selected are these topics, or those that the regular expression matches, or else all.
    Raises InvalidArgument.
    """
    if topics and pattern is not None:
        raise InvalidArgument("--topics-pattern", "is given together with --topic; give one")
    if pattern is not None:
        try:
            return topic_pattern(pattern).matches
        except InvalidArgument as error:
            raise InvalidArgument("--topics-pattern", error.detail) from None
    try:
        wanted = frozenset(map(check_topic, topics))
    except InvalidArgument as error:
        raise InvalidArgument("--topic", error.detail) from None
    return lambda topic: topic in wanted or not wanted


@contextlib.contextmanager
def _workers(name: str, told: Told, master: str | None) -> Iterator[tuple[Run, int]]:
    """Give a job what runs its tasks, and how many run at the same time.

    That is this machine, unless a master is given or spark-submit started this program.
    """
    if master is None and not submitted():
        from quorate.pipeline.archive.workers import in_processes

        cores = os.cpu_count() or 1
        yield in_processes(cores), cores
        return
    from quorate.pipeline.archive.tasks import on_spark

    with _session(name, told, master) as spark:
        yield on_spark(spark), spark.sparkContext.defaultParallelism


@contextlib.contextmanager
def _session(name: str, told: Told, master: str | None = None) -> Iterator[SparkSession]:
    """Give a job a Spark session, and end it after the job. Raises TaskFailed if Spark fails.

    master: the address of the cluster; None: this machine, or what spark-submit was given.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    from quorate.pipeline import session
    from quorate.pipeline.archive.tasks import cause
    from quorate.pipeline.spark.java import find_java_for_jobs

    told("starting Spark")
    # A program that spark-submit started already has a Java.
    java = None if submitted() else str(find_java_for_jobs(os.environ))
    conf = {"spark.master": master} if master is not None else {}
    done_aside(lambda: session(f"quorate {name}", java=java, conf=conf))
    # This returns the same session, and makes it the active one of this thread, too.
    made = session(f"quorate {name}", java=java, conf=conf)
    server: Any = getattr(made.sparkContext, "_accumulatorServer", None)
    if server is not None:
        # It would print a trace if Java dies. The call that fails for that reports it anyway.
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
    """End Spark silently, as far as possible if Java has died or a call was cut off."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, OSError):
        # Spark's complaints about tasks that are cut off help nobody.
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
    older_than: str | None = None,
    master: str | None = None,
    told: Told,
) -> ArchiveReport:
    """Run `quorate archive`.

    - stores: host:port of each.
    - older_than: an age such as "7d": only messages that were sent before; None: all.
    - master: the address of the Spark that runs the tasks; None: this machine does.

    Raises as quorate.pipeline.archive.archiving.archive, UnknownTopic, JavaNotFound.
    """
    from quorate.pipeline.archive.archiving import archive_news, news_of
    from quorate.pipeline.stores.client import Stores

    before_ns = None
    if older_than is not None:
        before_ns = later_ns(time.time_ns(), -age_of("--older-than", older_than))
    selects = selection(topics, topics_pattern)
    news = news_of(Stores(stores), path)
    _check_known(topics, topics_pattern, news.catalogue, news.archived_topics)
    with _workers("archive", told, master) as (run, parts):
        return archive_news(run, news, selects=selects, parts=parts, before_ns=before_ns, told=told)


@interruptible(_ARCHIVE_REMAINS)
def run_compact(path: str, *, told: Told) -> CompactReport:
    """Run `quorate archive --compact`. Raises as quorate.pipeline.archive.upkeep.compact."""
    from quorate.pipeline.archive.upkeep import compact

    return compact(path, told=told)


@interruptible(_ARCHIVE_REMAINS)
def run_vacuum(path: str, *, keep: str | None = None, told: Told) -> VacuumReport:
    """Run `quorate archive --vacuum`.

    keep: an age such as "7d": younger files stay; None: those of a week.
    Raises as quorate.pipeline.archive.upkeep.vacuum.
    """
    from quorate.pipeline.archive.upkeep import KEEP_SECONDS, vacuum

    keep_seconds = KEEP_SECONDS if keep is None else age_of("--keep", keep)
    return vacuum(path, keep_seconds=keep_seconds, told=told)


@interruptible(_RESTORE_REMAINS)
def run_restore(
    layout: Layout,
    path: str,
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    master: str | None = None,
    told: Told,
) -> RestoreReport:
    """Run `quorate restore`. master: as of run_archive.

    Raises as quorate.pipeline.jobs.restore.restore, NotArchived, JavaNotFound.
    """
    from quorate.archive.reading import Archive
    from quorate.pipeline.jobs.restore import restore

    selects = selection(topics, topics_pattern)
    archived = {source.topic for source in Archive(path).sources}
    for wanted in unmatched(topics, topics_pattern, archived):
        raise NotArchived(wanted, path, ", ".join(sorted(archived)))
    with _workers("restore", told, master) as (run, _):
        return restore(run, path, layout, selects=selects, told=told)


@interruptible(_NOTHING_REMAINS)
def run_audit(
    stores: Sequence[str],
    *,
    topics: Sequence[str] = (),
    topics_pattern: str | None = None,
    thorough: bool = False,
    archive: str | None = None,
    master: str | None = None,
    told: Told,
) -> AuditReport:
    """Run `quorate audit`. stores: host:port of each. master: as of run_archive.

    archive: the path of an archive that is compared with the stores; None: none.
    Raises as quorate.pipeline.jobs.audit.audit, UnknownTopic, JavaNotFound.
    """
    from quorate.pipeline.archive.workers import in_threads
    from quorate.pipeline.jobs.audit import audit
    from quorate.pipeline.stores.client import Stores

    selects = selection(topics, topics_pattern)
    archived = set[str]()
    if archive is not None:
        from quorate.archive.reading import Archive

        archived = {source.topic for source in Archive(archive).sources}
    _check_known(topics, topics_pattern, Stores(stores).sources(), archived)
    with _workers("audit", told, master) as (run, parts):
        # The digests are made by the stores.
        compare = run if thorough or master is not None or submitted() else in_threads
        return audit(
            compare,
            stores,
            selects=selects,
            thorough=thorough,
            parts=parts,
            archive=archive,
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
    master: str | None = None,
    told: Told,
) -> StatsReport:
    """Run `quorate stats`.

    - since, until: times that limit the messages.
    - picture: a file to draw the report into; None: draw nothing.
    - master: as of run_archive.

    Raises UnknownTopic, JavaNotFound, as quorate.pipeline.jobs.stats.stats, and OSError if the
    picture cannot be written.
    """
    from quorate.pipeline.jobs.stats import check_gap, stats
    from quorate.pipeline.options import read_options

    # A long job must not end with one of these errors.
    check_gap(gap_seconds)
    if picture is not None:
        from quorate.pipeline.jobs.plot import check_plot

        check_plot(picture)
    options = read_table_options(stores, topics, topics_pattern, since, until, archive)
    _check_table(options, topics, topics_pattern)
    with _workers("stats", told, master) as (run, parts):
        made = stats(run, read_options(options), parts=parts, gap_seconds=gap_seconds, told=told)
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
    master: str | None = None,
    told: Told,
) -> BacktestReport:
    """Run `quorate backtest`.

    function: `module:name`; speed: a number, or `max`; master: as of run_archive.
    Raises UnknownTopic, InvalidArgument, JavaNotFound, and as
    quorate.pipeline.jobs.backtest.backtest_to.
    """
    stores = [store.address for store in layout.stores]
    options = read_table_options(stores, topics, topics_pattern, since, until, archive)
    times_faster = parse_speed(speed)
    if (to is None) == (function is None):
        raise InvalidArgument("--to", "give either a topic to send to, or a function")
    if name is not None and to is None:
        raise InvalidArgument(
            "--name", "is for a replay to a topic, because only that remembers its progress"
        )
    if name is not None and until is None:
        raise InvalidArgument(
            "--until", "is needed with a --name, because new messages would change what is replayed"
        )
    called = _function(function) if function is not None else None
    if to is not None:
        from quorate.pipeline.jobs.replay_sinks import check_target

        check_target(to)
    _check_table(options, topics, topics_pattern)
    from quorate.pipeline.jobs.backtest import backtest, backtest_to

    with _table("backtest", options, told, master) as table:
        if called is not None:
            return backtest(table, called, speed=times_faster, told=told)
        assert to is not None
        name = name or str(uuid.uuid4())
        return backtest_to(table, to, layout, name=name, speed=times_faster, told=told)


@contextlib.contextmanager
def _table(
    job: str, options: Mapping[str, str], told: Told, master: str | None
) -> Iterator[DataFrame | StoredTable]:
    """Give a job the messages that options select. Where it runs is decided as for _workers."""
    if master is None and not submitted():
        from quorate.pipeline.jobs.merging import StoredTable
        from quorate.pipeline.options import read_options

        yield StoredTable(read_options(options))
        return
    with _session(job, told, master) as spark:
        yield spark.read.format("quorate").options(**options).load()


def unmatched(topics: Sequence[str], pattern: str | None, known: Collection[str]) -> Iterator[str]:
    """Yield the topics that are not known, and the pattern if it matches no known topic."""
    yield from (topic for topic in topics if topic not in known)
    if pattern is not None and not any(map(selection((), pattern), known)):
        yield pattern


def _check_known(
    topics: Sequence[str],
    pattern: str | None,
    catalogue: Catalogue,
    others: Collection[str] = (),
) -> None:
    """Raise UnknownTopic if no store has a source of one of these topics.

    others: topics that are known from elsewhere.
    """
    known = {source.topic for source in catalogue.sources}.union(others)
    for wanted in unmatched(topics, pattern, known):
        # A silent store may have the topic.
        if not catalogue.silent:
            raise UnknownTopic(wanted, ", ".join(sorted(known)))


def _check_table(
    options: Mapping[str, str], topics: Sequence[str], topics_pattern: str | None
) -> None:
    """Raise UnknownTopic or Unreachable, which Spark would bury in a long trace."""
    from quorate.pipeline.options import read_options
    from quorate.pipeline.read.ranges import stores_of

    every = {name: options[name] for name in ("stores", "archive") if name in options}
    _check_known(topics, topics_pattern, stores_of(read_options(every)).sources())


def parse_speed(text: str) -> float:
    """Return the speed of a replay from a number or `max`, which is infinite.

    Raises InvalidArgument.
    """
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
        # Importing the user's module may raise anything.
        why = f"{type(error).__name__}: {error}"
        raise InvalidArgument("--function", f"{text!r} cannot be loaded: {why}") from error
    if not callable(found):
        raise InvalidArgument("--function", f"{text!r} cannot be called")
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
    """Return the checked options of `format("quorate")` for these arguments.

    Raises InvalidArgument.
    """
    from quorate.archive.location import Location
    from quorate.pipeline.options import parse_time, read_options

    selection(topics, topics_pattern)
    for flag, text in (("--since", since), ("--until", until)):
        try:
            parse_time(text if text is not None else "0")
        except InvalidArgument as error:
            raise InvalidArgument(flag, error.detail) from None
    if archive is not None:
        Location(archive)
    if any("," in topic for topic in topics):
        # In the list of the option, a topic with a comma would be two.
        topics, topics_pattern = (), pattern_of(topics)
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


# The command line of `python -m quorate.pipeline`.


def main(arguments: Sequence[str]) -> int:
    """Run a job, print its report as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m quorate.pipeline", description="The jobs of the pipeline."
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
    parser.add_argument(
        "--topic", action="append", default=[], help="only this topic; may be given several times"
    )
    parser.add_argument("--topics-pattern", metavar="REGEX", help="only topics that match")


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="the Spark that runs the tasks")


def _add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", metavar="[NAME=]HOST:PORT,…")
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME[/RULE]=HOST:PORT,…[+BACKUPS]"
    )
    parser.add_argument("--intergroup", default="any", help="the intergroup rule")


def _parsed(parse: Callable[[str], T], stores: str) -> T:
    """Return the stores of the option --stores. Raises InvalidArgument, which names the option."""
    try:
        return parse(stores)
    except InvalidArgument as error:
        raise InvalidArgument("--stores", error.detail) from None


def _layout(given: argparse.Namespace) -> Layout:
    if bool(given.stores) == bool(given.group):
        raise InvalidArgument("--stores", "give either this or --group")
    if given.stores:
        return _parsed(Layout.plain, given.stores)
    return Layout.of(*map(parse_group, given.group), rule=given.intergroup)


def _add_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive: a directory, or s3://BUCKET/PREFIX")
    parser.add_argument("--stores", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--older-than", metavar="AGE")
    _add_master(parser)
    _add_topics(parser)

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        stores = _parsed(parse_addresses, given.stores)
        report = run_archive(
            stores,
            given.path,
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            older_than=given.older_than,
            master=given.master,
            told=say,
        )
        return int(bool(report.failures)), report.as_object()

    parser.set_defaults(run=run)


def _add_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive")

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        return DONE, run_compact(given.path, told=say).as_object()

    parser.set_defaults(run=run)


def _add_vacuum(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive")
    parser.add_argument("--keep", metavar="AGE", help="leave files that are younger; default: 7d")

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        return DONE, run_vacuum(given.path, keep=given.keep, told=say).as_object()

    parser.set_defaults(run=run)


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive: a directory, or s3://BUCKET/PREFIX")
    _add_layout(parser)
    _add_topics(parser)
    _add_master(parser)

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_restore(
            _layout(given),
            given.path,
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            master=given.master,
            told=say,
        )
        return int(not report.done), report.as_object()

    parser.set_defaults(run=run)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", required=True, metavar="HOST:PORT,…")
    _add_topics(parser)
    parser.add_argument("--thorough", action="store_true", help="read and check every message")
    parser.add_argument(
        "--archive", metavar="PATH", help="the archive that is compared with the stores"
    )
    _add_master(parser)

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_audit(
            _parsed(parse_addresses, given.stores),
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            thorough=given.thorough,
            archive=given.archive,
            master=given.master,
            told=say,
        )
        return report.outcome.exit_code, report.as_object()

    parser.set_defaults(run=run)


def _add_range(parser: argparse.ArgumentParser) -> None:
    _add_topics(parser)
    parser.add_argument("--since", metavar="TIME", help="only messages from that time on")
    parser.add_argument("--until", metavar="TIME", help="only messages before that time")
    parser.add_argument(
        "--archive", metavar="PATH", help="the archive with messages that the stores released"
    )


def _add_stats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", required=True, metavar="HOST:PORT,…")
    _add_range(parser)
    parser.add_argument("--gap", type=float, metavar="SECONDS", help="least length of a gap")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the report into it: .png, .svg or .pdf"
    )
    _add_master(parser)

    def run(given: argparse.Namespace) -> tuple[int, dict[str, Any]]:
        report = run_stats(
            _parsed(parse_addresses, given.stores),
            topics=given.topic,
            topics_pattern=given.topics_pattern,
            since=given.since,
            until=given.until,
            archive=given.archive,
            gap_seconds=given.gap,
            picture=given.plot,
            master=given.master,
            told=say,
        )
        return 0, report.as_object()

    parser.set_defaults(run=run)


def _add_backtest(parser: argparse.ArgumentParser) -> None:
    _add_layout(parser)
    _add_range(parser)
    parser.add_argument(
        "--to", metavar="TOPIC", help="send to this topic; {topic} is that of the message"
    )
    parser.add_argument(
        "--function", metavar="MODULE:NAME", help="call this function with each message"
    )
    parser.add_argument("--name", help="go on where the replay of this name ended")
    parser.add_argument("--speed", default="1", help="times faster than the original, or max")
    _add_master(parser)

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
            master=given.master,
            told=say,
        )
        return INTERRUPTED if report.interrupted else DONE, report.as_object()

    parser.set_defaults(run=run)


_JOBS: tuple[tuple[str, Callable[[argparse.ArgumentParser], None], str], ...] = (
    ("archive", _add_archive, "Copy stable messages from the stores to Parquet."),
    ("compact", _add_compact, "Replace small files of an archive by large ones."),
    ("vacuum", _add_vacuum, "Remove files that no version of an archive needs."),
    ("restore", _add_restore, "Give the messages of an archive back to stores."),
    ("backtest", _add_backtest, "Replay a range to a topic or to a function."),
    ("stats", _add_stats, "Count messages, and show rates, sizes and gaps."),
    ("audit", _add_audit, "Compare what every store has, and look for losses."),
)
