"""The history of all sources of an archive, as one Parquet file.

The file is written before the commit that makes it valid. Its own checksum is in the log of the
table, so a change of the file is noticed. Nothing here knows the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf.message import DecodeError

from quorate.archive.rules.source import ArchivedSource, BatchMark
from quorate.protocol.errors import ArchiveInvalid, ArchiveNewer, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import membership_from_wire, membership_to_wire
from quorate.v1 import messages_pb2 as v1

FORMAT = 3
_FORMAT_KEY = b"quorate.format"

_NUMBER = pa.uint64()
_LINEAGE = pa.list_(pa.struct({"epoch": _NUMBER, "first": _NUMBER}))
_LOSSES = pa.list_(pa.struct({"first": _NUMBER, "last": _NUMBER, "epoch": _NUMBER}))
_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "source": pa.string(),
        "first": _NUMBER,
        "last": _NUMBER,
        "lineage": _LINEAGE,
        "losses": _LOSSES,
        "promised_epoch": _NUMBER,
        "reg_id": _NUMBER,
        "marker": pa.struct({"sequence": _NUMBER, "epoch": _NUMBER, "value": pa.binary()}),
        "last_batch": pa.struct({"first": _NUMBER, "checksum": _NUMBER}),
        "membership": pa.binary(),
        "information": pa.binary(),
    },
    metadata={_FORMAT_KEY: str(FORMAT).encode()},
)


def to_parquet(sources: Iterable[ArchivedSource]) -> bytes:
    """Return the file."""
    rows = [_row(each) for each in sources]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), sink, compression="zstd")
    made: bytes = sink.getvalue().to_pybytes()
    return made


def checksum(file: bytes) -> int:
    """Return the crc32c of a file."""
    return int(google_crc32c.value(file))


def from_parquet(file: bytes, expected: int, where: str) -> dict[SourceName, ArchivedSource]:
    """Return the sources in a file.

    - expected: the crc32c that the log has for the file.
    - where: the place of the file, for the error.

    Raises ArchiveInvalid, ArchiveNewer.
    """
    if (found := checksum(file)) != expected:
        raise ArchiveInvalid(where, f"its checksum is {found:#010x}, not {expected:#010x}")
    try:
        table = pq.read_table(pa.BufferReader(file))
        _check_format(table.schema, where)
        sources = [_source(row) for row in table.to_pylist()]
        problems = [problem for each in sources for problem in each.problems()]
    except (ArchiveInvalid, ArchiveNewer):
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        DecodeError,
        QuorateError,
        pa.ArrowException,
    ) as error:
        raise ArchiveInvalid(where, f"it cannot be read: {error!r}") from None
    if problems:
        raise ArchiveInvalid(where, "; ".join(problems[:5]))
    return {each.name: each for each in sources}


def _check_format(schema: pa.Schema, where: str) -> None:
    theirs = int((schema.metadata or {})[_FORMAT_KEY])
    if theirs > FORMAT:
        raise ArchiveNewer(where, theirs, FORMAT)


def _row(source: ArchivedSource) -> dict[str, Any]:
    marker, mark = source.marker, source.last_batch
    return {
        "topic": source.name.topic,
        "source": f"{source.name.session_id:#x}",
        "first": source.first,
        "last": source.last,
        "lineage": [{"epoch": each.epoch, "first": each.first} for each in source.lineage.terms],
        "losses": [
            {"first": each.first, "last": each.last, "epoch": each.epoch} for each in source.losses
        ],
        "promised_epoch": source.promised_epoch,
        "reg_id": source.reg_id,
        "marker": None
        if marker is None
        else {"sequence": marker.sequence, "epoch": marker.epoch, "value": marker.value},
        "last_batch": None if mark is None else {"first": mark.first, "checksum": mark.checksum},
        "membership": membership_to_wire(source.membership).SerializeToString(),
        "information": source.information.SerializeToString(),
    }


def _source(row: Mapping[str, Any]) -> ArchivedSource:
    marker, mark = row["marker"], row["last_batch"]
    return ArchivedSource(
        SourceName(row["topic"], int(row["source"], 16)).checked(),
        Lineage(tuple(Term(each["epoch"], each["first"]) for each in row["lineage"])),
        row["first"],
        row["last"],
        membership_from_wire(v1.Membership.FromString(row["membership"])),
        v1.SourceInformation.FromString(row["information"]),
        row["promised_epoch"],
        row["reg_id"],
        tuple(HeldRange(each["first"], each["last"], each["epoch"]) for each in row["losses"]),
        None if marker is None else Marker(marker["sequence"], marker["epoch"], marker["value"]),
        None if mark is None else BatchMark(mark["first"], mark["checksum"]),
    )
