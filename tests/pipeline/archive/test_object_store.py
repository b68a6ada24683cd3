"""An archive in an object store: a server of S3 on this machine, in a process of its own."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests import seams
from tests.pipeline.archive.support import (
    DAY_NS,
    NOON_NS,
    ORDERS,
    TRADES,
    FakeStores,
    Stream,
    batch,
    here,
)

from quorate.archive.history import History
from quorate.archive.location import Location
from quorate.archive.reading import Archive
from quorate.archive.table import Table
from quorate.pipeline import schema
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.archive.tasks import Entry
from quorate.pipeline.archive.upkeep import compact, vacuum
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveChanged, InvalidArgument
from quorate.protocol.framing import encode_batch
from quorate.protocol.ranges import Range

pytestmark = [pytest.mark.processes, pytest.mark.long]

SECRET = "secret-of-the-tests"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with a bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = f"http://127.0.0.1:{port}"
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        made = urllib.request.Request(f"{at}/bucket", method="PUT")
        give_up_at = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(made):
                    break
            except OSError:
                assert time.monotonic() < give_up_at, "the server does not answer"
                assert process.poll() is None
                time.sleep(0.1)
        yield at
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def path(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place for an archive, with the settings in the environment."""
    settings = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/{request.node.name}"


def test_an_archive_lives_in_an_object_store(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [batch(at, at + 9, time_ns=NOON_NS, marker=b"m") for at in range(0, 40, 10)]
    orders, trades = Stream(), Stream(frames=[batch(0, 9, source=TRADES)], stable_upto=9)
    stores = FakeStores({ORDERS: orders, TRADES: trades})
    for frame, stable_upto in zip(frames, (9, 19, 29, 39), strict=True):
        orders.frames.append(frame)
        orders.stable_upto = stable_upto
        report = archive(here, stores, path)
        assert report.failures == {}
        assert SECRET not in str(report.as_object())
    assert archive(here, stores, path).messages == 0

    begun = Archive(path)
    assert begun.sources[ORDERS].last == 39
    done = compact(path)
    assert (done.before, done.after) == (4, 1)
    seams.ARCHIVE_TABLE_VACUUM_SECONDS_MIN.replace(monkeypatch, 0)
    removed = vacuum(path, keep_seconds=0).removed
    assert len([each for each in removed if not each.startswith("_")]) == 4
    for each in (begun, Archive(path)):
        assert [piece.frame for piece in each.pieces(ORDERS, 0, 39)] == frames
        rows = each.record_batches(ORDERS, 5, 35, schema.ARROW)
        assert [n for part in rows for n in part.column("sequence").to_pylist()] == [*range(5, 36)]
    parts = History(Archive(path)).parts({ORDERS: Range(0, 39), TRADES: Range(0, 9)})
    assert sum(part.last - part.first + 1 for part in parts if isinstance(part, Piece)) == 50


def test_large_files_and_histories_are_written_too(path: str) -> None:
    location = Location(path)
    content = bytes(range(256)) * 12_000
    location.write("large", content)
    with location.files.open_input_file("large") as opened:
        assert opened.read() == content
    payloads = [random.Random(at).randbytes(400_000) for at in range(20)]
    frame = encode_batch(ORDERS, 1, 0, payloads, NOON_NS, b"")
    archive(here, FakeStores({ORDERS: Stream(frames=[frame], stable_upto=19)}), path)
    assert [piece.frame for piece in Archive(path).pieces(ORDERS, 0, 19)] == [frame]


def test_of_two_jobs_one_is_refused(path: str) -> None:
    tomorrow = batch(10, 19, time_ns=NOON_NS + DAY_NS)
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 9), tomorrow], stable_upto=19)})

    def slow(parts: Sequence[Any], task: Callable[[Any], Iterator[Entry]]) -> list[Entry]:
        told = here(parts, task)
        archive(here, stores, path)  # another one is faster
        return told

    with pytest.raises(ArchiveChanged):
        archive(slow, stores, path)
    table = Table.open(Location(path))
    assert table is not None
    assert sum(file.count for file in table.files) == 20


def test_an_address_without_a_bucket_is_refused() -> None:
    for wrong in ("s3://", "ftp://bucket/archive"):
        with pytest.raises(InvalidArgument):
            Archive(wrong)


def test_a_bucket_that_is_not_there_is_an_error_without_secrets(path: str) -> None:
    stores = FakeStores({ORDERS: Stream(frames=[batch(0, 9)], stable_upto=9)})
    with pytest.raises(Exception, match="cannot be used") as caught:
        archive(here, stores, path.replace("bucket", "nowhere"))
    assert SECRET not in str(caught.value)
