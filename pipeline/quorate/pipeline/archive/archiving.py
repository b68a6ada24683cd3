"""The job that copies stable messages from the stores to the archive.

Spark schedules ranges. Their bytes go from the stores to Parquet inside a Python worker, and never
through Spark itself. One commit to the table, at the end, decides what the archive has. A job that
dies earlier leaves files that no commit names. Of two jobs at the same time, one is refused. Which
ranges to archive is decided in quorate.pipeline.rules.archive_plan.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from quorate.archive.location import Location
from quorate.archive.rules.data_file import DataFile
from quorate.archive.rules.source import ArchivedSource, BatchMark
from quorate.archive.table import Table
from quorate.pipeline.archive.file_writer import DayFiles
from quorate.pipeline.archive.rows import TABLE, whole
from quorate.pipeline.archive.tasks import Entry, Run, failed_from_json, failed_to_json
from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.options import parse_source
from quorate.pipeline.rules.archive_plan import (
    RangeArchived,
    Wanted,
    Work,
    WorkRange,
    aligned,
    as_archived,
    check_same_history,
    done,
    last_batch_at_stores,
    wanted,
    work_of,
)
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import SourceRange, plan
from quorate.pipeline.stores.client import Catalogue, Stores
from quorate.pipeline.stores.decoding import plain_piece
from quorate.pipeline.stores.fetch import reason
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveDiffers, QuorateError
from quorate.protocol.framing import BatchHeader, greatest_time
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage

FILE_BYTES_MAX = 256 * 1024 * 1024
"""A file is closed when it has so many bytes before compression."""
_SMALL_MESSAGES = 4096
_SMALL_BYTES = 1024 * 1024
_FETCHES = 8
"""Small ranges of a task that are fetched at the same time."""
PART_MESSAGES_MIN = 250_000
PART_MESSAGES_MAX = 5_000_000
"""Most messages of a task. All of them are archived again if its worker dies."""


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


@dataclass(frozen=True, slots=True)
class SourceArchived:
    """The result of archiving one source."""

    source: SourceName
    first: int
    """The first number that is new."""
    last: int
    messages: int
    bytes: int
    """Bytes of the batches, as the source sent them."""


@dataclass(slots=True)
class ArchiveReport:
    """The result of an archive job."""

    archive: str
    version: int
    """The version of the table that the archive has now."""
    sources: list[SourceArchived] = field(default_factory=list)
    files: int = 0
    """Number of files that were added."""
    failures: dict[SourceName, QuorateError] = field(default_factory=dict)
    """By source that was not archived in full, the error."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.sources)

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "archive": self.archive,
            "version": self.version,
            "messages": self.messages,
            "files": self.files,
            "seconds": round(self.seconds, 3),
            "sources": [
                {
                    "topic": each.source.topic,
                    "source": f"{each.source.session_id:#x}",
                    "first": each.first,
                    "last": each.last,
                    "messages": each.messages,
                    "bytes": each.bytes,
                }
                for each in self.sources
            ],
            "failures": [
                {"source": str(source), "error": type(error).__name__, "message": str(error)}
                for source, error in self.failures.items()
            ],
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class News:
    """The messages of stores that are new to an archive, before any of them is archived."""

    stores: Stores
    location: Location
    table: Table | None
    """The archive; None: there is none yet."""
    catalogue: Catalogue
    """The sources of which something is new to the archive."""
    began: float
    """When the stores were asked, in monotonic seconds."""

    @property
    def archived_topics(self) -> set[str]:
        """The topics of the archive."""
        return {source.topic for source in self.table.sources} if self.table is not None else set()


def news_of(stores: Stores, path: str) -> News:
    """Return what the stores have that is new to the archive at a path.

    Raises Unreachable, ArchiveInvalid, ArchiveNewer, ArchiveUnusable.
    """
    began, location = time.monotonic(), Location(path)
    table = Table.open(location)
    archived = table.sources if table is not None else {}
    places = {name: each.place for name, each in archived.items()}
    return News(stores, location, table, stores.sources_with_news(places), began)


def archive(
    run: Run,
    stores: Stores,
    path: str,
    *,
    selects: Callable[[str], bool] = lambda _: True,
    parts: int = 2,
    before_ns: int | None = None,
    told: Callable[[str], None] = _quiet,
) -> ArchiveReport:
    """Archive every stable message that the archive does not have yet.

    - run: runs the tasks, as quorate.pipeline.archive.tasks.on_spark does.
    - selects: returns whether a topic is to be archived.
    - parts: the number of tasks that run at the same time.
    - before_ns: only messages before the first one of this time or later are archived; None: all.
      The time is in ns since 1970 UTC, by the clock of each source.
    - told: a function that gets lines about the progress.

    A source that cannot be archived is in the report, and hinders no other source.
    Raises as news_of, ArchiveChanged.
    """
    news = news_of(stores, path)
    return archive_news(run, news, selects=selects, parts=parts, before_ns=before_ns, told=told)


def archive_news(
    run: Run,
    news: News,
    *,
    selects: Callable[[str], bool],
    parts: int,
    before_ns: int | None,
    told: Callable[[str], None],
) -> ArchiveReport:
    """Archive what is new to an archive. The arguments, and the report, are those of `archive`.

    Raises ArchiveInvalid, ArchiveChanged, ArchiveUnusable.
    """
    report = _Archiving(run, news, parts, before_ns, told).run(selects)
    report.seconds = time.monotonic() - news.began
    return report


class _Archiving:
    """One run of the job."""

    def __init__(
        self,
        run: Run,
        news: News,
        parts: int,
        before_ns: int | None,
        told: Callable[[str], None],
    ) -> None:
        self._run = run
        self._news = news
        self._stores = news.stores
        self._location = news.location
        self._parts = parts
        self._before_ns = before_ns
        self._told = told
        self._differing: set[SourceName] = set()

    def run(self, selects: Callable[[str], bool]) -> ArchiveReport:
        catalogue = self._news.catalogue
        table = self._writable_table()
        report = ArchiveReport(str(self._location), table.version)
        report.notes += [
            f"{at} did not answer: {reason(why)}" for at, why in catalogue.silent.items()
        ]
        found: list[Wanted] = []
        for name, known in catalogue.sources.items():
            if not selects(name.topic):
                continue
            try:
                each = self._wanted(known, table.sources.get(name), report)
            except QuorateError as error:
                self._differing.add(name)
                report.failures[name] = error
                continue
            if each is not None:
                found.append(each)
        if found:
            table = self._archive(table, found, report)
        self._tell(table.sources, catalogue, report)
        return report

    def _writable_table(self) -> Table:
        """Return the archive that was compared with the stores. Raises ArchiveUnusable."""
        table = self._news.table
        if table is None:
            return Table.open_or_create(self._location, TABLE)
        table.check_writable()
        return table

    # Planning.

    def _wanted(
        self, known: KnownSource, archived: ArchivedSource | None, report: ArchiveReport
    ) -> Wanted | None:
        if archived is None:
            return wanted(known, None, known.stable_upto)
        check_same_history(known, archived, str(self._location))
        if known.stable_upto < archived.last:
            report.notes.append(
                f"{known.name}: the archive has it up to {archived.last}, but the stores know "
                f"it as stable only up to {known.stable_upto}"
            )
            return None
        each = wanted(known, archived, known.stable_upto)
        if (each is None or each.after is None) and known.archived_upto < archived.last:
            # No task compares it, and the stores will be told that they may let it go.
            self._check_same_content(known, archived)
        return each

    def _check_same_content(self, known: KnownSource, archived: ArchivedSource) -> None:
        """Raise ArchiveDiffers if the stores hold other content in the batch archived last.

        The lineages alone do not show it: a stream that was begun anew may have the same epochs.
        """
        mark, last = last_batch_at_stores(known, archived), archived.last
        if mark is not None:
            pieces = self._stores.fetch(known.name, known.lineage, mark.first, last)
            _check_same_batch(next(pieces), mark, last, str(self._location))

    def _begin_of(self, each: SourceRange) -> int:
        return self._batch_at(each.lineage, each.source, each.first).first

    def _batch_at(self, lineage: Lineage, source: SourceName, number: int) -> BatchHeader:
        (piece,) = self._stores.fetch(source, lineage, number, number)
        return piece.header

    # Archiving.

    def _archive(self, table: Table, found: list[Wanted], report: ArchiveReport) -> Table:
        parts = plan(
            [each for one in found for each in one.ranges],
            parts=self._parts,
            part_messages_max=PART_MESSAGES_MAX,
            part_messages_min=PART_MESSAGES_MIN,
        )
        work = work_of(aligned(parts, self._begin_of), found)
        count = sum(map(len, found))
        self._told(f"archiving {count:,} messages of {len(found):,} sources in {len(work)} parts")
        results, files, failures = self._written(work)
        report.failures.update(failures)
        self._differing.update(
            name for name, error in failures.items() if isinstance(error, ArchiveDiffers)
        )
        sources = dict(table.sources)
        lasts: dict[SourceName, int] = {}
        for one in found:
            name = one.known.name
            mine = sorted(results.get(name, ()), key=lambda each: each.first)
            archived = done(one, mine)
            if archived is None:
                continue
            mine = [each for each in mine if each.last <= archived.last]
            lasts[name] = archived.last
            sources[name] = as_archived(archived, sources.get(name), mine[-1].last_batch)
            report.sources.append(_archived(archived, mine))
            self._note_gone(archived, report)
        if not lasts:
            return table
        new = [file for file in files if file.is_within(lasts)]
        table = table.append(sources, [each.file for each in new])
        report.version, report.files = table.version, len(new)
        return table

    def _note_gone(self, archived: Wanted, report: ArchiveReport) -> None:
        """Note messages that retention released before. They fail one run, which notes the loss."""
        gone = next(iter(archived.released), None)
        if gone is not None and gone.first <= archived.last:
            evidence = (
                'stores wait for the archive only with `retain_until = ["archived"]`, and they '
                "released these before"
            )
            name = archived.known.name
            report.failures[name] = MessagesGone(str(name), gone.first, gone.last, evidence)

    def _written(
        self, work: Sequence[Work]
    ) -> tuple[
        dict[SourceName, list[RangeArchived]], list[WrittenFile], dict[SourceName, QuorateError]
    ]:
        """Run the tasks; return what they archived, their files, and the errors by source."""
        task = partial(
            archive_part,
            stores=self._stores,
            location=self._location,
            bytes_max=FILE_BYTES_MAX,
            before_ns=self._before_ns,
        )
        results: dict[SourceName, list[RangeArchived]] = {}
        files: list[WrittenFile] = []
        failures: dict[SourceName, QuorateError] = {}
        for entry in self._run(work, task):
            if "file" in entry:
                files.append(_file_from_json(entry))
            elif "failed" in entry:
                source, error = failed_from_json(entry)
                failures[source] = error
            else:
                each = _result_from_json(entry)
                results.setdefault(each.source, []).append(each)
        return results, files, failures

    def _tell(
        self,
        sources: Mapping[SourceName, ArchivedSource],
        catalogue: Catalogue,
        report: ArchiveReport,
    ) -> None:
        """Tell the stores which messages they no longer need to keep for the archive.

        The job tells of old messages, too, if a store was away the last time.
        """
        known = catalogue.sources
        archived = {
            name: source.last
            for name, source in sources.items()
            if name in known
            and name not in self._differing
            and known[name].archived_upto < source.last <= known[name].stable_upto
        }
        failed = self._stores.tell_archived(archived)
        report.notes += [
            f"{at} was not told what is archived: {reason(why)}" for at, why in failed.items()
        ]


def _archived(wanted: Wanted, results: Sequence[RangeArchived]) -> SourceArchived:
    return SourceArchived(
        wanted.known.name,
        wanted.ranges[0].first,
        wanted.last,
        sum(each.last - each.first + 1 for each in results),
        sum(each.bytes for each in results),
    )


# Tasks, which run in a worker.


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a task has written."""

    file: DataFile
    source: SourceName | None
    """The source, if an earlier part has messages of it, too; None: the file is shared."""
    first: int
    """The number with which the range of that source begins."""

    def is_within(self, lasts: Mapping[SourceName, int]) -> bool:
        """Return whether the archive has no hole before the file. lasts: by source, its end."""
        return self.source is None or self.first <= lasts.get(self.source, -1)


def archive_part(
    part: Work, *, stores: Stores, location: Location, bytes_max: int, before_ns: int | None
) -> Iterator[Entry]:
    """Write the messages of a part.

    Yield each file once it is in place, what was archived of each range, and the errors by source.
    """
    shared = DayFiles(location, bytes_max)
    stopped: set[SourceName] = set()
    try:
        asked = (
            _Pieces(each, stores, part.number + place, before_ns, str(location))
            for place, each in enumerate(part.ranges)
        )
        for pieces in fetched_ahead(asked):
            each = pieces.asked
            source = each.range.source
            if source in stopped:
                continue  # what comes behind a hole waits
            files = DayFiles(location, bytes_max) if each.goes_on else shared
            for piece in pieces.given():
                for file in files.add(piece):
                    yield _file_to_json(each, file)
            if each.goes_on:
                for file in files.finish():
                    yield _file_to_json(each, file)
            if pieces.error is not None:
                yield failed_to_json(source, pieces.error)
            if pieces.last_batch is not None:
                yield _result_to_json(pieces)
            if pieces.next < each.range.until:
                stopped.add(source)
        for file in shared.finish():
            yield {"file": file.as_object()}
    finally:
        shared.abandon()


def fetched_ahead(ranges: Iterator[_Pieces]) -> Iterator[_Pieces]:
    """Yield the ranges in order. Small ones are fetched before, several at the same time.

    Stores answer many calls at once, and most of the time of a small one is spent waiting.
    """
    waiting: deque[tuple[_Pieces, Future[None] | None]] = deque()
    with ThreadPoolExecutor(_FETCHES, "quorate-archive") as pool:
        for each in ranges:
            waiting.append((each, pool.submit(each.fetch) if each.is_small else None))
            if len(waiting) > 2 * _FETCHES:
                yield _fetched(waiting)
        while waiting:
            yield _fetched(waiting)


def _fetched(waiting: deque[tuple[_Pieces, Future[None] | None]]) -> _Pieces:
    pieces, fetched = waiting.popleft()
    if fetched is not None:
        fetched.result()
    return pieces


class _Pieces:
    """The whole batches of a range, as far as they can be archived."""

    def __init__(
        self, asked: WorkRange, stores: Stores, turn: int, before_ns: int | None, archive: str
    ) -> None:
        self.asked = asked
        self.range = asked.range
        self.next = asked.range.first
        """One past the last number that was given."""
        self.bytes = 0
        self.last_batch: BatchMark | None = None
        self.error: QuorateError | None = None
        """The error that ended the range early."""
        self._stores = stores
        self._turn = turn
        self._before_ns = before_ns
        self._archive = archive
        self._fetched: list[Piece] | None = None

    @property
    def is_small(self) -> bool:
        """All of the range may be in memory while it waits."""
        return len(self.range) <= _SMALL_MESSAGES and (
            len(self.range) * self.range.message_bytes <= _SMALL_BYTES
        )

    def fetch(self) -> None:
        """Fetch all of a small range."""
        try:
            self._fetched = []
            self._fetched.extend(self._wanted())
        except QuorateError as error:
            self.error = error

    def given(self) -> Iterator[Piece]:
        """Yield the batches; what ends them early is in `error` then."""
        try:
            for piece in self._wanted() if self._fetched is None else self._fetched:
                made = whole(piece)
                if self._before_ns is not None and (
                    greatest_time(made.frame, made.header) >= self._before_ns
                ):
                    return
                self.next = made.last + 1
                self.bytes += len(made.frame)
                self.last_batch = BatchMark(made.header.first, made.header.checksum)
                yield made
        except QuorateError as error:
            self.error = error

    def _wanted(self) -> Iterator[Piece]:
        """Yield the pieces of the range, without a batch that goes on behind what is stable."""
        each, after = self.range, self.asked.after
        begin = after.first if after is not None else each.first
        fetched: Iterator[Piece] = self._stores.fetch(
            each.source, each.lineage, begin, each.until - 1, self._turn
        )
        if after is not None:
            piece = next(fetched)
            _check_same_batch(piece, after, each.first - 1, self._archive)
            fetched = chain([piece], fetched)
        for piece in fetched:
            if piece.last < each.first:
                continue
            if self.asked.ends and piece.last == each.until - 1 and self._goes_on(piece):
                return
            yield replace(piece, first=max(piece.first, each.first))

    def _goes_on(self, piece: Piece) -> bool:
        in_force = self.range.lineage.epoch_at(piece.last + 1)
        return piece.header.last > piece.last and piece.header.epoch == in_force


def _check_same_batch(piece: Piece, mark: BatchMark, last: int, archive: str) -> None:
    """Raise ArchiveDiffers if a piece has other content than the archived batch [mark, last]."""
    if (piece.header.first, piece.header.last) != (mark.first, last):
        return
    if plain_piece(piece).header.checksum != mark.checksum:
        source = str(piece.header.source)
        raise ArchiveDiffers(source, mark.first, archive, "the same numbers have other content")


def _file_to_json(each: WorkRange, file: DataFile) -> Entry:
    if not each.goes_on:
        return {"file": file.as_object()}
    return {"file": file.as_object(), "of": str(each.range.source), "first": each.range.first}


def _file_from_json(entry: Entry) -> WrittenFile:
    file = DataFile.from_object(entry["file"])
    if "of" not in entry:
        return WrittenFile(file, None, 0)
    return WrittenFile(file, parse_source(entry["of"]), entry["first"])


def _result_to_json(pieces: _Pieces) -> Entry:
    assert pieces.last_batch is not None
    return {
        "source": str(pieces.range.source),
        "first": pieces.range.first,
        "last": pieces.next - 1,
        "bytes": pieces.bytes,
        "batch_first": pieces.last_batch.first,
        "batch_checksum": pieces.last_batch.checksum,
    }


def _result_from_json(entry: Entry) -> RangeArchived:
    return RangeArchived(
        parse_source(entry["source"]),
        entry["first"],
        entry["last"],
        entry["bytes"],
        BatchMark(entry["batch_first"], entry["batch_checksum"]),
    )
