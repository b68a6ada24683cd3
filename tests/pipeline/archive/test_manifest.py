"""Manifests: written down and read back, and what cannot be one; names of files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from tests.pipeline.archive.support import DAY_NS, MEMBERSHIP, NOON_NS, ORDERS, TRADES

from quorate.archive.directory import ArchiveDirectory
from quorate.archive.layout import (
    content_of,
    day_of,
    directory_of,
    file_of,
    key_of,
    manifest_version,
)
from quorate.archive.manifest import (
    ArchivedFile,
    ArchivedSource,
    BatchMark,
    Dropped,
    Manifest,
    from_json,
    to_json,
)
from quorate.protocol.errors import ArchiveInvalid, ArchiveNewer
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1

LINEAGE = Lineage((Term(1, 0), Term(4, 50)))


def file(
    first: int, last: int, *terms: tuple[int, int], source: SourceName = ORDERS
) -> ArchivedFile:
    lineage = Lineage(tuple(Term(*term) for term in terms or ((1, first),)))
    path = file_of(source, "2026-11-21", first, last, 0xABC)
    mark = BatchMark(last, 5)
    return ArchivedFile(
        path, source, first, last, lineage, 3, 1000, NOON_NS, NOON_NS + 1, 0xABC, mark
    )


def source(first: int, last: int, lineage: Lineage = LINEAGE, **fields: Any) -> ArchivedSource:
    information = v1.SourceInformation(source=source_to_wire(ORDERS), epoch=4, version=2)
    made = ArchivedSource(ORDERS, lineage, first, last, MEMBERSHIP, information, 9, 7)
    return replace(made, **fields)


WHOLE = Manifest().archived([source(0, 99)], [file(0, 59, (1, 0), (4, 50)), file(60, 99, (4, 60))])


def sealed(values: dict[str, Any]) -> str:
    """With the checksum that belongs to these values, whoever may have written them."""
    rest = {name: value for name, value in values.items() if name != "crc32c"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps(rest | {"crc32c": f"{google_crc32c.value(canonical):08x}"})


def test_a_manifest_is_read_as_it_was_written() -> None:
    made = WHOLE.replaced([WHOLE.files[0]], [WHOLE.files[0]], 17).stamped(NOON_NS, "a test")
    made = replace(
        made,
        sources={
            ORDERS: source(0, 109, losses=(HeldRange(100, 109, 4),), marker=Marker(0, 1, b"m"))
        },
    )
    assert from_json(to_json(made), "x") == made


@pytest.mark.parametrize(
    ("sources", "files", "problem"),
    [
        ([source(0, 99)], [file(0, 59, (1, 0), (4, 50))], r"\[60, 99\] is in no file"),
        (
            [source(0, 99)],
            [file(0, 60, (1, 0), (4, 50)), file(60, 99, (4, 60))],
            r"\[60, 60\] is in two",
        ),
        ([source(0, 99)], [file(0, 99)], "epochs of"),
        ([source(10, 99)], [file(0, 99, (1, 0), (4, 50))], "outside of"),
        ([], [file(0, 9)], "which is not one of the sources"),
        (
            [source(0, 9, Lineage((Term(1, 0),)), losses=(HeldRange(5, 9, 1),))],
            [file(0, 9)],
            "archived and lost",
        ),
        ([source(0, 9)], [file(0, 9)], "begins after its last number"),
    ],
)
def test_a_contradiction_is_found(
    sources: list[ArchivedSource], files: list[ArchivedFile], problem: str
) -> None:
    made = Manifest().archived(sources, files)
    with pytest.raises(ArchiveInvalid, match=problem):
        from_json(to_json(made), "x")


def test_a_newer_format_is_told_from_a_damaged_one() -> None:
    values = json.loads(to_json(WHOLE))
    with pytest.raises(ArchiveNewer):
        from_json(sealed({"format": 3, "something": "else"}), "x")
    for damaged in (
        *("", "{}", "[]", to_json(WHOLE)[:-9], json.dumps(values | {"format": 3})),
        sealed(values | {"files": [{}]}),
    ):
        with pytest.raises(ArchiveInvalid):
            from_json(damaged, "x")


def test_no_change_of_a_manifest_goes_unnoticed() -> None:
    text = to_json(WHOLE.stamped(NOON_NS, "ä test"))
    refused = 0
    for at in range(len(text)):
        changed = text[:at] + chr(ord(text[at]) ^ 1 << at % 7) + text[at + 1 :]
        try:
            assert from_json(changed, "x") == from_json(text, "x"), (at, changed)
        except ArchiveInvalid:
            refused += 1
    assert refused > 0.9 * len(text)


@pytest.mark.parametrize(
    "value", [None, "x", -1, 5, True, 2**70, [], {}, {"nested": [None]}, "crc32c"]
)
def test_other_values_of_a_manifest_do_not_go_unnoticed(value: object) -> None:
    for place in ("promised_epoch", "reg_id", "marker", "information", "lineage"):
        changed = json.loads(to_json(WHOLE))
        changed["sources"][0][place] = value
        if changed != json.loads(to_json(WHOLE)):
            with pytest.raises(ArchiveInvalid, match="the checksum of its values is"):
                from_json(json.dumps(changed), "x")


def test_a_manifest_without_a_checksum_is_refused_and_says_what_to_do() -> None:
    values = json.loads(to_json(WHOLE))
    del values["crc32c"]
    with pytest.raises(ArchiveInvalid, match="it has no checksum"):
        from_json(json.dumps(values), "x")
    with pytest.raises(
        ArchiveInvalid, match=r"before the first release.*Archive .* to another path"
    ):
        from_json(json.dumps(values | {"format": 1}), "x")


def test_versions_follow_on_each_other() -> None:
    assert [Manifest().version, WHOLE.version, WHOLE.without_dropped([]).version] == [0, 1, 2]
    assert [manifest_version(name) for name in ("00000000000000000007.json", ".writing-1")] == [
        7,
        None,
    ]


def test_days_are_of_utc_and_exact_to_the_nanosecond() -> None:
    midnight = NOON_NS - NOON_NS % DAY_NS
    assert [day_of(midnight - 1), day_of(midnight), day_of(-1)] == [
        "2026-11-20",
        "2026-11-21",
        "1969-12-31",
    ]


def test_a_topic_can_be_any_text() -> None:
    names = [directory_of(topic, "2026-11-21") for topic in ("a/b", "a%2Fb", "..", "ü" * 100)]
    assert len(set(names)) == 4
    for name in names:
        parts = name.split("/")
        assert parts[0] == "data"
        assert len(parts) == 3, name
        assert all(len(part.encode()) <= 255 and part not in ("..", ".") for part in parts)
    assert directory_of("é" * 120, "d") != directory_of("é" * 121, "d")
    assert "0xfffffffffffffff0" in file_of(TRADES, "2026-11-21", 0, 1, 2)


@pytest.mark.parametrize("topic", ["orders", "a/b=c", "ü" * 100, "topic=x-1"])
def test_a_path_says_what_is_in_the_file(topic: str) -> None:
    name = SourceName(topic, 0xFFFF_FFFF_FFFF_FFF0)
    path = file_of(name, "2026-11-21", 5, 2**63, 0xABC)
    assert content_of(path) == (key_of(name), Range(5, 2**63))
    for other in ("data/README", path + "~", path.replace(".parquet", ".crc"), "manifest/1.json"):
        assert content_of(other) is None


@pytest.mark.parametrize(
    "path", ["/etc/hosts", "data/../../x", "data//x", "data", "manifest/7.json", ""]
)
def test_a_manifest_names_nothing_that_is_no_file_with_messages(path: str) -> None:
    """What it says was dropped would be removed."""
    for changed in (
        replace(WHOLE, dropped=(Dropped(path, 1),)),
        replace(WHOLE, files=(replace(WHOLE.files[0], path=path), WHOLE.files[1])),
    ):
        with pytest.raises(ArchiveInvalid, match="is not a file of an archive"):
            from_json(to_json(changed), "x")


@pytest.mark.parametrize("value", [None, "x", -1, [1], {}, 2**70])
@pytest.mark.parametrize(
    ("part", "field"),
    [("sources", "first"), ("sources", "last"), ("files", "first"), ("files", "last")],
)
def test_a_number_that_is_none_is_a_damaged_manifest(part: str, field: str, value: object) -> None:
    changed = json.loads(to_json(WHOLE))
    changed[part][0][field] = value
    with pytest.raises(ArchiveInvalid):
        from_json(sealed(changed), "x")


@pytest.mark.parametrize(
    ("part", "field"), [("sources", "topic"), ("files", "topic"), ("files", "path")]
)
def test_a_name_that_is_none_is_a_damaged_manifest(part: str, field: str) -> None:
    changed = json.loads(to_json(WHOLE))
    changed[part][0][field] = 5
    with pytest.raises(ArchiveInvalid):
        from_json(sealed(changed), "x")


def test_a_manifest_that_is_no_text_is_a_damaged_one(tmp_path: Path) -> None:
    directory = ArchiveDirectory(str(tmp_path))
    directory.commit(WHOLE)
    (written,) = (tmp_path / "manifest").iterdir()
    written.write_bytes(b"\xff\xfe" + written.read_bytes())
    with pytest.raises(ArchiveInvalid, match="it is not text"):
        directory.newest()
