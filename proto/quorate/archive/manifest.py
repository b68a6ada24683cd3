"""The manifest of an archive: its sources with their history, and its files with their content.

A manifest is never changed, only followed by the next version. It has a checksum over all its
values. A manifest that contradicts itself about a source is invalid. Nothing here touches a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import google_crc32c
from google.protobuf import json_format

from quorate.archive.layout import day_of, is_data
from quorate.protocol.errors import ArchiveInvalid, ArchiveNewer, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import membership_from_wire, membership_to_wire
from quorate.v1 import messages_pb2 as v1

FORMAT = 2
WRITTEN_BY = "quorate.pipeline"


@dataclass(frozen=True, slots=True)
class BatchMark:
    """A batch of an archive, by the facts that identify the same batch at a store."""

    first: int
    checksum: int
    """The crc32c that the source computed."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A Parquet file with consecutive messages of one source and one day."""

    path: str
    """Relative to the archive."""
    source: SourceName
    first: int
    last: int
    lineage: Lineage
    """The epochs of its messages."""
    batches: int
    bytes: int
    first_time_ns: int
    """The earliest time of a batch in the file, by the source's clock, which may go back."""
    last_time_ns: int
    checksum: int
    """The crc32c of the whole file."""
    last_batch: BatchMark

    @property
    def day(self) -> str:
        return day_of(self.first_time_ns)

    @property
    def count(self) -> int:
        """Number of messages in the file."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class ArchivedSource:
    """The archived history of a source. All of it was stable."""

    name: SourceName
    lineage: Lineage
    """The lineage in force up to `last`."""
    first: int
    last: int
    membership: Membership
    """The membership of the newest begun record, when the source was last archived."""
    information: v1.SourceInformation
    promised_epoch: int
    """The highest epoch that any store had promised then."""
    reg_id: int
    losses: tuple[HeldRange, ...] = ()
    """Ranges within [first, last] that the archive lacks.

    An operator accepted their loss, or retention released them before they were archived.
    """
    marker: Marker | None = None
    """The newest application marker of a batch below `first`; None: none is known."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file that the manifest no longer names as archived. Readers may still use it."""

    path: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of an archive."""

    version: int = 0
    """The version of the manifest; 0: there is no archive yet."""
    time_ns: int = 0
    written_by: str = ""
    sources: Mapping[SourceName, ArchivedSource] = field(default_factory=dict)
    files: tuple[ArchivedFile, ...] = ()
    """The files, ordered by source and sequence number."""
    dropped: tuple[Dropped, ...] = ()

    def files_of(self, source: SourceName) -> list[ArchivedFile]:
        """Return the files of a source, in ascending order."""
        return [each for each in self.files if each.source == source]

    def archived(
        self, sources: Iterable[ArchivedSource], files: Iterable[ArchivedFile]
    ) -> Manifest:
        """Return the next manifest, with these sources as they are now and these new files."""
        merged = {**self.sources, **{each.name: each for each in sources}}
        return self._next(merged, (*self.files, *files), self.dropped)

    def replaced(
        self, old: Iterable[ArchivedFile], new: Iterable[ArchivedFile], time_ns: int
    ) -> Manifest:
        """Return the next manifest, in which the new files replace the old ones."""
        gone = {each.path for each in old}
        files = (*(each for each in self.files if each.path not in gone), *new)
        dropped = (*self.dropped, *(Dropped(path, time_ns) for path in sorted(gone)))
        return self._next(self.sources, files, dropped)

    def without_dropped(self, paths: Iterable[str]) -> Manifest:
        """Return the next manifest, after these dropped files were deleted."""
        gone = set(paths)
        left = tuple(each for each in self.dropped if each.path not in gone)
        return self._next(self.sources, self.files, left)

    def _next(
        self,
        sources: Mapping[SourceName, ArchivedSource],
        files: Sequence[ArchivedFile],
        dropped: tuple[Dropped, ...],
    ) -> Manifest:
        return Manifest(
            self.version + 1,
            sources={name: sources[name] for name in sorted(sources)},
            files=tuple(sorted(files, key=lambda each: (each.source, each.first))),
            dropped=dropped,
        )

    def problems(self) -> list[str]:
        """Return the contradictions in the manifest; an empty list if there is none."""
        found = [
            f"file {each.path} is of {each.source}, which is not one of the sources"
            for each in self.files
            if each.source not in self.sources
        ]
        # Dropped files are removed one day, and no other file may be.
        paths = [each.path for each in self.files] + [each.path for each in self.dropped]
        found += [f"{path!r} is not a file of an archive" for path in paths if not is_data(path)]
        files: dict[SourceName, list[ArchivedFile]] = {}
        for each in self.files:
            files.setdefault(each.source, []).append(each)
        for source in self.sources.values():
            found += _problems(source, files.get(source.name, []))
        return found

    def stamped(self, time_ns: int, written_by: str) -> Manifest:
        """Return the manifest with its time, in ns since 1970, and its writer."""
        return replace(self, time_ns=time_ns, written_by=written_by)


def _problems(source: ArchivedSource, files: Sequence[ArchivedFile]) -> list[str]:
    """Return the contradictions about a source. Each number must be in one file, or be lost."""
    found: list[str] = []
    has = RangeSet()
    for each in files:
        if both := has.both(RangeSet([Range(each.first, each.last)])):
            found.append(f"{source.name} {next(iter(both))} is in two files")
        has.add(each.first, each.last)
        if not _agrees(each, source.lineage):
            found.append(f"the epochs of {each.path} are not those of {source.name}")
    lost = RangeSet(Range(each.first, each.last) for each in source.losses)
    if both := has.both(lost):
        found.append(f"{source.name} {next(iter(both))} is archived and lost")
    for hole in has.union(lost).holes(source.first, source.last):
        found.append(f"{source.name} {hole} is in no file")
    if has and not source.first <= has.low <= has.high <= source.last:
        found.append(f"{source.name} has files outside of [{source.first}, {source.last}]")
    if source.lineage.terms and source.lineage.terms[-1].first > source.last:
        found.append(f"{source.name} has an epoch that begins after its last number")
    return found


def _agrees(file: ArchivedFile, lineage: Lineage) -> bool:
    parts = lineage.parted(RangeSet([Range(file.first, file.last)]))
    return file.lineage == Lineage(tuple(Term(each.epoch, each.first) for each in parts))


# As JSON.


def to_json(manifest: Manifest) -> str:
    """Return the manifest as JSON, sorted and indented so that people can read it."""
    values = {
        "format": FORMAT,
        "version": manifest.version,
        "time_ns": manifest.time_ns,
        "written_by": manifest.written_by,
        "sources": [_source_to_json(each) for each in manifest.sources.values()],
        "files": [file_to_json(each) for each in manifest.files],
        "dropped": [{"path": each.path, "time_ns": each.time_ns} for each in manifest.dropped],
    }
    return json.dumps({**values, "crc32c": _checksum(values)}, indent=1)


def _checksum(values: Mapping[str, Any]) -> str:
    """Return the checksum over all values but itself. Their order and spacing do not change it."""
    rest = {name: value for name, value in values.items() if name != "crc32c"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return f"{google_crc32c.value(canonical.encode()):08x}"


def _check_whole(values: Mapping[str, Any], where: str) -> None:
    """Raise ArchiveInvalid for damage, and ArchiveNewer for a newer format."""
    if values["format"] == 1:
        raise ArchiveInvalid(
            where,
            "it has format 1, of a version before the first release, which has no checksum. "
            "Archive what the stores still have to another path",
        )
    # Every format has it, so that damage to the format is not taken for a newer one.
    if "crc32c" not in values:
        raise ArchiveInvalid(where, "it has no checksum")
    checksum, expected = _checksum(values), values["crc32c"]
    if checksum != expected:
        raise ArchiveInvalid(where, f"the checksum of its values is {checksum}, not {expected}")
    if values["format"] > FORMAT:
        raise ArchiveNewer(where, values["format"], FORMAT)


def from_json(text: str, where: str) -> Manifest:
    """Return the manifest in a text. Raises ArchiveInvalid, ArchiveNewer.

    where: the place of the text, for the error.
    """
    try:
        values = json.loads(text)
        _check_whole(values, where)
        sources = [_source_from_json(each) for each in values["sources"]]
        made = Manifest(
            values["version"],
            values["time_ns"],
            values["written_by"],
            {each.name: each for each in sources},
            tuple(file_from_json(each) for each in values["files"]),
            tuple(Dropped(each["path"], each["time_ns"]) for each in values["dropped"]),
        )
        # Values of a wrong type make this raise as well, since they cannot be compared.
        problems = made.problems()
    except (ArchiveInvalid, ArchiveNewer):
        raise
    except (
        ValueError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        QuorateError,
        json_format.Error,
    ) as error:
        raise ArchiveInvalid(where, f"it cannot be read: {error!r}") from None
    if problems:
        raise ArchiveInvalid(where, "; ".join(problems[:5]))
    return made


def _name_to_json(source: SourceName) -> dict[str, str]:
    return {"topic": source.topic, "source": f"{source.session_id:#x}"}


def _name_from_json(values: Mapping[str, Any]) -> SourceName:
    return SourceName(values["topic"], int(values["source"], 16)).checked()


def _lineage_to_json(lineage: Lineage) -> list[list[int]]:
    return [[term.epoch, term.first] for term in lineage.terms]


def _lineage_from_json(values: Sequence[Sequence[int]]) -> Lineage:
    return Lineage(tuple(Term(epoch, first) for epoch, first in values))


def _source_to_json(source: ArchivedSource) -> dict[str, Any]:
    return {
        **_name_to_json(source.name),
        "first": source.first,
        "last": source.last,
        "lineage": _lineage_to_json(source.lineage),
        "losses": [[each.first, each.last, each.epoch] for each in source.losses],
        "promised_epoch": source.promised_epoch,
        "reg_id": source.reg_id,
        "marker": _marker_to_json(source.marker),
        "membership": json_format.MessageToDict(membership_to_wire(source.membership)),
        "information": json_format.MessageToDict(source.information),
    }


def _source_from_json(values: Mapping[str, Any]) -> ArchivedSource:
    membership = json_format.ParseDict(values["membership"], v1.Membership())
    return ArchivedSource(
        _name_from_json(values),
        _lineage_from_json(values["lineage"]),
        values["first"],
        values["last"],
        membership_from_wire(membership),
        json_format.ParseDict(values["information"], v1.SourceInformation()),
        values["promised_epoch"],
        values["reg_id"],
        tuple(HeldRange(*each) for each in values["losses"]),
        _marker_from_json(values["marker"]),
    )


def _marker_to_json(marker: Marker | None) -> dict[str, Any] | None:
    if marker is None:
        return None
    return {"sequence": marker.sequence, "epoch": marker.epoch, "value": marker.value.hex()}


def _marker_from_json(values: Mapping[str, Any] | None) -> Marker | None:
    if values is None:
        return None
    return Marker(values["sequence"], values["epoch"], bytes.fromhex(values["value"]))


def file_to_json(file: ArchivedFile) -> dict[str, Any]:
    """Return the file as values for JSON.

    Tasks report their files to the driver in this form, too.
    """
    return {
        "path": file.path,
        **_name_to_json(file.source),
        "first": file.first,
        "last": file.last,
        "lineage": _lineage_to_json(file.lineage),
        "count": file.count,
        "batches": file.batches,
        "bytes": file.bytes,
        "first_time_ns": file.first_time_ns,
        "last_time_ns": file.last_time_ns,
        "crc32c": f"{file.checksum:08x}",
        "last_batch": {
            "first": file.last_batch.first,
            "crc32c": f"{file.last_batch.checksum:08x}",
        },
    }


def file_from_json(values: Mapping[str, Any]) -> ArchivedFile:
    """Return the file. Raises KeyError, TypeError, ValueError or QuorateError for wrong values."""
    mark = values["last_batch"]
    return ArchivedFile(
        values["path"],
        _name_from_json(values),
        values["first"],
        values["last"],
        _lineage_from_json(values["lineage"]),
        values["batches"],
        values["bytes"],
        values["first_time_ns"],
        values["last_time_ns"],
        int(values["crc32c"], 16),
        BatchMark(mark["first"], int(mark["crc32c"], 16)),
    )
