"""The job that copies stable messages from the stores to the archive.

Spark schedules ranges. Their bytes go from the stores to Parquet inside a Python worker, and never
through Spark itself. The manifest, written at the end, decides what the archive has. A job that
dies earlier leaves files that no manifest names. Two jobs at the same time cannot both write the
next manifest. Which ranges to archive is decided in quorate.pipeline.archive.archive_plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from quorate.archive.directory import ArchiveDirectory
from quorate.archive.manifest import (
    WRITTEN_BY,
    ArchivedFile,
    Manifest,
    file_from_json,
    file_to_json,
)
from quorate.pipeline.archive.archive_plan import (
    Wanted,
    aligned,
    check_same_history,
    done,
    next_manifest,
    wanted,
)
from quorate.pipeline.archive.file_writer import write_pieces
from quorate.pipeline.archive.tasks import Run, failed_from_json, failed_to_json
from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.stores.client import (
    Catalogue,
    KnownSource,
    Stores,
)
from quorate.pipeline.stores.decoding import plain_piece
from quorate.pipeline.stores.fetch import reason
from quorate.pipeline.stores.planning import (
    Part,
    SourceRange,
    plan,
)
from quorate.protocol.errors import ArchiveDiffers, QuorateError
from quorate.protocol.framing import BatchHeader
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage

FILE_BYTES_MAX = 256 * 1024 * 1024
"""A file is closed when it has so many bytes before compression."""
PART_MESSAGES_MIN = 250_000
PART_MESSAGES_MAX = 5_000_000
"""Most messages of a task. All of them are archived again if its worker dies."""
DROPPED_SECONDS = 3600.0
"""Seconds that a reader may take that began before a compaction."""


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
    files: int
    bytes: int


@dataclass(slots=True)
class ArchiveReport:
    """The result of an archive job."""

    archive: str
    version: int
    """The version of the manifest that the archive has now."""
    sources: list[SourceArchived] = field(default_factory=list)
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
            "seconds": round(self.seconds, 3),
            "sources": [
                {
                    "topic": each.source.topic,
                    "source": f"{each.source.session_id:#x}",
                    "first": each.first,
                    "last": each.last,
                    "messages": each.messages,
                    "files": each.files,
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
    Raises Unreachable, ArchiveInvalid, ArchiveNewer, ArchiveChanged, ArchiveUnusable.
    """
    began = time.monotonic()
    job = _Archiving(run, stores, ArchiveDirectory(path), parts, before_ns, told)
    report = job.run(selects)
    report.seconds = time.monotonic() - began
    return report


class _Archiving:
    """One run of the job."""

    def __init__(
        self,
        run: Run,
        stores: Stores,
        directory: ArchiveDirectory,
        parts: int,
        before_ns: int | None,
        told: Callable[[str], None],
    ) -> None:
        self._run = run
        self._stores = stores
        self._directory = directory
        self._parts = parts
        self._before_ns = before_ns
        self._told = told
        self._differing: set[SourceName] = set()

    def run(self, selects: Callable[[str], bool]) -> ArchiveReport:
        manifest = self._directory.newest()
        catalogue = self._stores.sources()
        self._directory.check_writable()
        report = ArchiveReport(str(self._directory), manifest.version)
        report.notes += [
            f"{at} did not answer: {reason(why)}" for at, why in catalogue.silent.items()
        ]
        found: list[Wanted] = []
        for name, known in catalogue.sources.items():
            if not selects(name.topic):
                continue
            try:
                each = self._wanted(known, manifest, report)
            except QuorateError as error:
                self._differing.add(name)
                report.failures[name] = error
                continue
            if each is not None:
                found.append(each)
            if each is not None and (gone := next(iter(each.released), None)) is not None:
                # This fails only once, because the manifest notes the loss. The rest is archived.
                evidence = (
                    'stores wait for the archive only with `retain_until = ["archived"]`, and they '
                    "released these before"
                )
                report.failures[name] = MessagesGone(str(name), gone.first, gone.last, evidence)
        if found:
            manifest = self._archive(manifest, found, report)
        self._tell(manifest, catalogue, report)
        self._directory.remove(self._directory.garbage(manifest, time.time()))
        return report

    # Planning.

    def _wanted(
        self, known: KnownSource, manifest: Manifest, report: ArchiveReport
    ) -> Wanted | None:
        archived = manifest.sources.get(known.name)
        if archived is not None:
            check_same_history(known, archived, str(self._directory))
            if known.stable_upto < archived.last:
                report.notes.append(
                    f"{known.name}: the archive has it up to {archived.last}, but the stores know "
                    f"it as stable only up to {known.stable_upto}"
                )
                return None
            self._check_same_content(known, manifest.files_of(known.name))
            if known.stable_upto == archived.last:
                return None
        return wanted(known, archived, self._whole_upto(known))

    def _check_same_content(self, known: KnownSource, files: Sequence[ArchivedFile]) -> None:
        """Raise ArchiveDiffers if the stores hold other content in the batch archived last.

        The lineages alone do not show it: a stream that was begun anew may have the same epochs.
        """
        if not files or files[-1].last not in known.held:
            return
        mark, last = files[-1].last_batch, files[-1].last
        for piece in self._stores.fetch(known.name, known.lineage, mark.first, last):
            if (piece.header.first, piece.header.last) == (mark.first, last) and (
                plain_piece(piece).header.checksum != mark.checksum
            ):
                path, detail = str(self._directory), "the same numbers have other content"
                raise ArchiveDiffers(str(known.name), mark.first, path, detail)
            return

    def _whole_upto(self, known: KnownSource) -> int:
        """Return the last stable number at which a batch ends, before the time if there is one."""
        upto = known.stable_upto
        if self._before_ns is not None:
            upto = min(upto, self._stores.first_since(known.name, self._before_ns) - 1)
        if upto not in known.held:
            return upto
        header = self._batch_at(known.lineage, known.name, upto)
        in_force = known.lineage.epoch_at(upto + 1)
        return header.first - 1 if header.last > upto and header.epoch == in_force else upto

    def _batch_at(self, lineage: Lineage, source: SourceName, number: int) -> BatchHeader:
        (piece,) = self._stores.fetch(source, lineage, number, number)
        return piece.header

    # Archiving.

    def _archive(self, manifest: Manifest, found: list[Wanted], report: ArchiveReport) -> Manifest:
        parts = plan(
            [each for one in found for each in one.ranges],
            parts=self._parts,
            part_messages_max=PART_MESSAGES_MAX,
            part_messages_min=PART_MESSAGES_MIN,
        )
        parts = aligned(parts, self._begin_of)
        count = sum(map(len, found))
        self._told(f"archiving {count:,} messages of {len(found):,} sources in {len(parts)} parts")
        files, failures = self._written(parts)
        report.failures.update(failures)
        archived = [each for each in (done(one, files) for one in found) if each is not None]
        if not archived:
            return manifest
        manifest = self._commit(manifest, archived)
        report.version = manifest.version
        report.sources += [_archived(*each) for each in archived]
        return manifest

    def _begin_of(self, each: SourceRange) -> int:
        return self._batch_at(each.lineage, each.source, each.first).first

    def _written(
        self, parts: Sequence[Part]
    ) -> tuple[list[ArchivedFile], dict[SourceName, QuorateError]]:
        """Run the tasks; return the files that they wrote, and the errors by source."""
        path = str(self._directory)
        task = partial(archive_part, stores=self._stores, path=path, bytes_max=FILE_BYTES_MAX)
        files: list[ArchivedFile] = []
        failures: dict[SourceName, QuorateError] = {}
        for entry in self._run(parts, task):
            if "file" in entry:
                files.append(file_from_json(entry["file"]))
            else:
                source, error = failed_from_json(entry)
                failures[source] = error
        return files, failures

    def _tell(self, manifest: Manifest, catalogue: Catalogue, report: ArchiveReport) -> None:
        """Tell the stores which messages they no longer need to keep for the archive.

        The job tells them of old messages, too, because a store may have been away the last time.
        """
        archived = {
            name: source.last
            for name, source in manifest.sources.items()
            if name in catalogue.sources
            and name not in self._differing
            and source.last <= catalogue.sources[name].stable_upto
        }
        failed = self._stores.tell_archived(archived)
        report.notes += [
            f"{at} was not told what is archived: {reason(why)}" for at, why in failed.items()
        ]

    def _commit(
        self, manifest: Manifest, archived: list[tuple[Wanted, list[ArchivedFile]]]
    ) -> Manifest:
        now = time.time_ns()
        before = now - int(DROPPED_SECONDS * 1e9)
        gone = [each.path for each in manifest.dropped if each.time_ns < before]
        self._directory.remove(gone)
        made = next_manifest(manifest.without_dropped(gone), archived)
        made = replace(made, version=manifest.version + 1).stamped(now, WRITTEN_BY)
        self._directory.commit(made)
        return made


def _archived(wanted: Wanted, files: Sequence[ArchivedFile]) -> SourceArchived:
    return SourceArchived(
        wanted.known.name,
        wanted.ranges[0].first,
        wanted.last,
        sum(each.count for each in files),
        len(files),
        sum(each.bytes for each in files),
    )


# Tasks, which run in a worker.


def archive_part(
    part: Part, *, stores: Stores, path: str, bytes_max: int
) -> Iterator[dict[str, Any]]:
    """Write the messages of a part.

    Yield each file once it is in place, and the errors by source.
    """
    for each in part.ranges:
        pieces = stores.fetch(each.source, each.lineage, each.first, each.until - 1, part.number)
        try:
            for file in write_pieces(Path(path), each.source, pieces, bytes_max):
                yield {"file": file_to_json(file)}
        except QuorateError as error:
            yield failed_to_json(each.source, error)
