"""The demo itself, with real processes on a short input; and what its verdict is worth.

It runs once; each test then takes something away from what it kept, and the verdict must say so.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests import forks

from quorate.console.demo.facts import Facts
from quorate.console.demo.records import run_files
from quorate.console.demo.verdict import RunVerdict
from quorate.console.demo.verify import verify
from quorate.protocol.framing import encode_batch, read_header, read_payloads
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.rocksdb import RocksStorage

pytestmark = [pytest.mark.processes, pytest.mark.long]

MESSAGES = 4000
SECONDS = 9


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that ran to its end, as it was kept."""
    directory = tmp_path_factory.mktemp("demo")
    lines = directory / "lines.txt"
    words = random.Random(1)
    lines.write_text("".join(f"{number} {words.random()}\n" for number in range(MESSAGES)))
    command = [sys.executable, "-m", "quorate.console.main", "demo", "--input", str(lines)]
    result = subprocess.run(
        [*command, "--rate", str(MESSAGES // SECONDS), "--keep", str(directory / "kept")],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"VERIFIED: {MESSAGES:,} messages, 4 processes killed" in result.stdout
    assert result.stdout.count("verifying ") == 1
    return directory / "kept"


@pytest.fixture
def kept(ran: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy to tamper with."""
    copy = tmp_path / "kept"
    shutil.copytree(ran, copy)
    yield copy
    shutil.rmtree(copy)


def test_ctrl_c_leaves_nothing_behind(ran: Path, tmp_path: Path) -> None:
    lines = Facts.load(ran).input
    assert lines
    with forks.none():
        demo = subprocess.Popen(
            [sys.executable, "-m", "quorate.console.main", "demo", "--input", lines],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
    with demo:
        assert demo.stdout is not None
        assert any(b"registered in epoch 1" in line for line in demo.stdout)
        children = psutil.Process(demo.pid).children()
        assert len(children) == 6
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
        assert demo.wait(30) == 130
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert list(tmp_path.iterdir()) == []


def problems(directory: Path) -> str:
    verdict: RunVerdict = verify(directory)
    assert not verdict.good
    assert verdict.line().startswith("FAILED")
    return "\n".join(verdict.words())


def test_the_kills_hit_in_mid_stream(ran: Path) -> None:
    kills = Facts.load(ran).kills
    assert [kill.victim for kill in kills] == ["store-2", "receiver-1", "source", "store-1"]
    assert [kill.stable for kill in kills] == sorted(kill.stable for kill in kills)
    assert all(0 < kill.stable < MESSAGES for kill in kills)


def test_an_untouched_copy_is_verified_again(kept: Path) -> None:
    assert verify(kept).good


def test_a_dropped_record_is_found(kept: Path) -> None:
    path = run_files(kept / "receivers", "receiver-2")[0]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:700] + lines[701:]))
    assert "was handed when 700 was due" in problems(kept)


def test_a_duplicated_record_is_found(kept: Path) -> None:
    path = run_files(kept / "receivers", "receiver-1")[1]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:50], lines[49], *lines[50:]]))
    assert "nothing explains it" in problems(kept)


def test_records_out_of_order_are_found(kept: Path) -> None:
    path = run_files(kept / "receivers", "receiver-2")[0]
    lines = path.read_text().splitlines(keepends=True)
    lines[10], lines[11] = lines[11], lines[10]
    path.write_text("".join(lines))
    assert "11 was handed when 10 was due" in problems(kept)


def test_another_input_is_found(kept: Path) -> None:
    facts = Facts.load(kept)
    assert facts.input
    other = kept / "lines.txt"
    other.write_text(Path(facts.input).read_text().replace("17 0.", "17 1.", 1))
    facts.input = str(other)
    facts.save(kept)
    assert "has other content" in problems(kept)


def journal(directory: Path, store: str) -> RocksStorage:
    return RocksStorage(directory / "stores" / store / "rocksdb")


def test_a_flipped_bit_on_a_store_is_found(kept: Path) -> None:
    storage = journal(kept, "store-3")
    ((key, frame),) = storage.scan(Table.JOURNAL, b"", b"\xff" * 9, 1)
    storage.write([Write(Table.JOURNAL, key, frame[:-1] + bytes([frame[-1] ^ 1]))])
    storage.close()
    assert "store-3: " in problems(kept)


def test_other_content_under_a_valid_checksum_is_found(kept: Path) -> None:
    storage = journal(kept, "store-1")
    ((key, frame),) = storage.scan(Table.JOURNAL, b"", b"\xff" * 9, 1)
    header = read_header(frame)
    payloads = read_payloads(frame, header)
    payloads[0] = payloads[0][::-1]
    forged = encode_batch(header.source, header.epoch, header.first, payloads, header.timestamp_ns)
    storage.write([Write(Table.JOURNAL, key, forged)])
    storage.close()
    assert "store-1: " in problems(kept)


def test_a_batch_that_a_store_lost_is_found(kept: Path) -> None:
    storage = journal(kept, "store-2")
    rows = storage.scan(Table.JOURNAL, b"", b"\xff" * 9, 3)
    storage.write([Write(Table.JOURNAL, rows[2][0], None)])
    storage.close()
    assert "store-2: " in problems(kept)


def test_a_receiver_that_is_handed_what_it_had_acknowledged_is_found(kept: Path) -> None:
    facts = Facts.load(kept)
    (kill,) = (kill for kill in facts.kills if kill.victim == "receiver-1")
    (topic,) = kill.acknowledged
    # A store that has just come back may know of no position yet. Then the test says that 0 was.
    kill.acknowledged[topic] = max(kill.acknowledged[topic], 0)
    facts.save(kept)
    first, second = run_files(kept / "receivers", "receiver-1")
    earlier = first.read_text().splitlines(keepends=True)[kill.acknowledged[topic]]
    second.write_text(earlier + second.read_text())
    assert "was acknowledged by then" in problems(kept)
