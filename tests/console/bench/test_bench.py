"""The bench's parts without processes: what it sends, what it finds wrong, what it sums up."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests import seams

from quorate.console.bench import latency, source_process
from quorate.console.bench.driver import BenchOutcome
from quorate.console.bench.messages import (
    BLOCK_MAX,
    LAST,
    BlockCheck,
    pattern,
    stamped,
    unstamped_tail,
)
from quorate.console.bench.receiver_process import Handed
from quorate.console.bench.report import figures, rows
from quorate.console.bench.settings import BenchSettings, rate_of_all
from quorate.console.bench.source_process import TIMER_NS, BenchSender
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.source.publish_store import FilePublishStore

BLOCK = 64
"""The messages of a block in these tests."""


def settings(**changes: Any) -> BenchSettings:
    values: dict[str, Any] = {
        "stores": 3,
        "sources": 1,
        "processes": 1,
        "messages": 10 * BLOCK,
        "warm_up": None,
        "size": 40,
        "durability": "fsync",
        "rate": None,
        "receivers": 1,
        "delivery": "live",
        "publish_store": "memory",
        "tls": False,
        "kill_store": False,
        "pause_store": None,
    }
    return BenchSettings(**values | changes)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"durability": "perhaps"}, "--durability"),
        ({"size": 15}, "--size"),
        ({"size": 2**20 + 1}, "--size"),
        ({"rate": 0.0}, "--rate"),
        ({"rate": float("nan")}, "--rate"),
        ({"pause_store": 0.0}, "--pause-store"),
        ({"pause_store": 1.0, "kill_store": True}, "--pause-store"),
        ({"kill_store": True, "stores": 2}, "--stores"),
        ({"pause_store": 1.0, "stores": 1}, "--stores"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument, match=argument):
        settings(**changes)


@pytest.mark.parametrize(
    ("messages", "sources", "block", "measured", "warm_up"),
    [
        (1, 1, 1, 1, 1),
        (5119, 1, 511, 11 * 511, 511),
        (5121, 1, BLOCK_MAX, 11 * BLOCK_MAX, BLOCK_MAX),
        (10**7, 1, BLOCK_MAX, 19532 * BLOCK_MAX, 100 * BLOCK_MAX),
        (50_000, 500, 10, 100, 10),
        (50_001, 500, 10, 110, 10),
        (3, 500, 1, 1, 1),
    ],
)
def test_each_source_sends_whole_blocks(
    messages: int, sources: int, block: int, measured: int, warm_up: int
) -> None:
    found = settings(messages=messages, sources=sources)
    assert (found.block, found.each_measured, found.each_warm_up) == (block, measured, warm_up)
    alike = settings(messages=messages, processes=sources)
    assert (alike.block, alike.each_measured, alike.each_warm_up) == (block, measured, warm_up)


def test_a_warm_up_is_as_long_as_asked_for() -> None:
    found = settings(messages=50_000, sources=50, processes=10, warm_up=20_000)
    assert (found.all_sources, found.each_warm_up) == (500, 40)


def test_a_rate_is_that_of_all_sources_or_of_each() -> None:
    assert rate_of_all(None, None, 50, 10) is None
    assert rate_of_all(7.5, None, 50, 10) == 7.5
    assert rate_of_all(None, 0.5, 50, 10) == 250.0
    assert settings(rate=250.0, sources=50, processes=10).interval_ns == 2e9
    assert settings().interval_ns is None
    for rate, each in ((5.0, 1.0), (None, 0.0), (None, float("inf"))):
        with pytest.raises(InvalidArgument, match="--messages-per-source-per-second"):
            rate_of_all(rate, each, 50, 10)


async def test_the_source_keeps_its_messages_where_it_was_told(tmp_path: Path) -> None:
    assert source_process.publish_store(settings(), tmp_path) is None
    for kept_in, is_synced in (("file", False), ("synced", True)):
        made = source_process.publish_store(settings(publish_store=kept_in), tmp_path / kept_in)
        assert isinstance(made, FilePublishStore)
        assert (made.slow, made.place) == (is_synced, str(tmp_path / kept_in))


def block(size: int, first: int = 0) -> list[bytes]:
    """A block of right messages, none of which has its send time."""
    tail = unstamped_tail(size)
    return [number.to_bytes(8, "little") + tail for number in range(first, first + BLOCK)]


@pytest.mark.parametrize("size", [16, 17, 23, 100, 1000])
def test_right_blocks_pass_and_give_their_send_times(size: int) -> None:
    check = BlockCheck(size, BLOCK)
    assert check.take(block(size)) == array("Q", [0] * BLOCK)
    second = block(size, BLOCK)
    second[7] = stamped(BLOCK + 7, 12_345_678_901, pattern(size))
    second[-1] = stamped(2 * BLOCK - 1, LAST | 5, pattern(size))
    times = check.take(second)
    assert times is not None
    assert (times[6], times[7], times[-1]) == (0, 12_345_678_901, LAST | 5)
    assert check.next_number == 2 * BLOCK


@pytest.mark.parametrize("size", [17, 100])
def test_every_way_in_which_a_block_can_be_wrong(size: int) -> None:
    right = block(size)
    for wrong in (
        [*right[:9], *right[10:], right[9]],  # out of order
        [*right[:9], right[8], *right[10:]],  # a duplicate in place of another
        [*right[:9], *right[10:], BLOCK.to_bytes(8, "little") + unstamped_tail(size)],  # missing
        [*right[:9], right[9][:-1], *right[10:]],  # too short
        [*right[:9], right[9][:-1], right[10] + b"x", *right[11:]],  # the sum of lengths is right
        [*right[:9], right[9][:-1] + b"\0", *right[10:]],  # other content
        [b"", *right[1:]],
        block(size, BLOCK),  # a whole block too far
    ):
        check = BlockCheck(size, BLOCK)
        assert check.take(wrong) is None
        assert "is wrong" in check.problem
        assert check.next_number == 0


def test_percentiles_by_nearest_rank() -> None:
    assert latency.percentiles([n * 1_000_000 for n in range(1000, 0, -1)]) == {
        "p50": 500.0,
        "p99": 990.0,
        "p999": 999.0,
    }
    assert latency.percentiles([7_000_000]) == {"p50": 7.0, "p99": 7.0, "p999": 7.0}
    assert latency.percentiles([]) == {"p50": None, "p99": None, "p999": None}


def test_latencies_keep_in_files(tmp_path: Path) -> None:
    latency.save(array("q", [1, -2, 3]), tmp_path / "x")
    assert latency.load(tmp_path / "x") == array("q", [1, -2, 3])


class FakeSource:
    """Keeps what is sent; everything is stable as soon as somebody waits for it."""

    def __init__(self, stalled_send: int = -1) -> None:
        self.sent: list[bytes] = []
        self.stable_upto = -1
        self._stalled_send = stalled_send

    async def send(self, payload: bytes) -> int:
        if len(self.sent) == self._stalled_send:
            await asyncio.sleep(0.05)
        self.sent.append(payload)
        return len(self.sent) - 1

    async def flush(self) -> None:
        await self.wait_stable(len(self.sent) - 1)

    async def wait_stable(self, upto: int) -> None:
        await asyncio.sleep(0)
        self.stable_upto = max(self.stable_upto, upto)


def sender(source: FakeSource, of: BenchSettings) -> BenchSender:
    return BenchSender(source, of)  # type: ignore[arg-type]


def never(_: int) -> bool:
    return False


@pytest.mark.parametrize("rate", [None, 100_000.0])
async def test_what_is_sent_passes_the_check_and_ends_with_the_last(rate: float | None) -> None:
    source = FakeSource()
    sending = sender(source, settings(rate=rate))
    await sending.send(BLOCK, never, last=False)
    began = time.monotonic_ns()
    await sending.send(2 * BLOCK, never, last=True)
    check = BlockCheck(40, BLOCK)
    stamps = []
    for first in range(0, 3 * BLOCK, BLOCK):
        times = check.take(source.sent[first : first + BLOCK])
        assert times is not None, check.problem
        stamps.append(times)
    assert check.next_number == len(source.sent) == 3 * BLOCK
    assert stamps[1][-1] < LAST <= stamps[2][-1]
    measured = [time & LAST - 1 for times in stamps[1:] for time in times if time]
    assert len(measured) == (2 if rate is None else 2 * BLOCK)
    # One that is late is stamped with when it was due; one before it with when it was sent.
    assert all(later >= earlier - TIMER_NS for earlier, later in pairwise(measured))
    assert began - 1 <= measured[0] <= measured[-1] <= time.monotonic_ns()
    assert source.stable_upto == 3 * BLOCK - 1
    assert len(sending.stable_latencies) == len(measured)


async def test_a_rate_is_kept() -> None:
    source = FakeSource()
    sending = sender(source, settings(rate=20_000.0))
    began = time.monotonic()
    await sending.send(8 * BLOCK, never, last=True)
    assert time.monotonic() - began >= (8 * BLOCK - 1) / 20_000


@pytest.mark.parametrize("rate", [None, 50_000.0])
async def test_a_stalled_send_is_found(rate: float | None) -> None:
    source = FakeSource(stalled_send=70)
    sending = sender(source, settings(rate=rate))
    await sending.send(3 * BLOCK, never, last=True)
    assert sending.longest_stall_ns >= 49_000_000


async def test_messages_behind_a_stall_are_as_late_as_they_are() -> None:
    source = FakeSource(stalled_send=50)
    sending = sender(source, settings(rate=50_000.0))
    await sending.send(BLOCK, never, last=True)
    times = BlockCheck(40, BLOCK).take(source.sent)
    assert times is not None
    # Due 20 µs behind the one that stalled: not stamped with when its turn came, 50 ms later.
    assert times[51] - times[50] < 10_000_000


async def test_sending_goes_on_until_a_fault_is_over() -> None:
    source = FakeSource()
    seen: list[int] = []

    def more(sent: int) -> bool:
        seen.append(sent)
        return sent < 5 * BLOCK

    await sender(source, settings()).send(2 * BLOCK, more, last=True)
    assert len(source.sent) == 6 * BLOCK
    assert seen == [n * BLOCK for n in range(6)]


def test_the_fault_is_at_half_way_and_sending_outlasts_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5
    seams.BENCH_SOURCE_PROCESS_CLOCK.replace(monkeypatch, lambda: now)
    more = source_process._milestones(settings(pause_store=2.0))
    assert [more(n * BLOCK) for n in (0, 4)] == [False, False]
    assert capsys.readouterr().out == ""
    assert [more(n * BLOCK) for n in (5, 6, 10)] == [True, True, True]
    assert capsys.readouterr().out == '{"kind": "half"}\n'
    now += 3_000_000_000
    assert not more(11 * BLOCK)


async def test_sources_take_turns_within_an_interval() -> None:
    sources = [FakeSource(), FakeSource()]
    of = settings(sources=2, rate=2.0 * 1_000)
    senders = [
        BenchSender(source, of, late)  # type: ignore[arg-type]
        for source, late in zip(sources, (0.0, 0.5), strict=True)
    ]
    began = time.monotonic_ns()
    await source_process.send_all(senders, of.block, never, last=True)
    first, second = (int.from_bytes(source.sent[0][8:16], "little") for source in sources)
    assert [len(source.sent) for source in sources] == [of.block, of.block]
    assert first >= began
    assert second >= began + 500_000


@dataclass
class FakeBatch:
    source: SourceName


@dataclass
class FakeMessage:
    batch: FakeBatch
    sequence: int
    payload: bytes
    retransmitted: bool = False


class FakeReceiver:
    def __init__(self, messages: list[FakeMessage]) -> None:
        self._messages = messages

    async def __aiter__(self) -> AsyncIterator[FakeMessage]:
        for message in self._messages:
            yield message


def messages_of(
    payloads: list[bytes], number: int = 1, shifted: int = 0, recovered: bool = False
) -> list[FakeMessage]:
    """The messages of a source, as a receiver is handed them."""
    batch = FakeBatch(SourceName("bench", number))
    return [
        FakeMessage(batch, at + shifted, payload, recovered) for at, payload in enumerate(payloads)
    ]


async def received(came: list[FakeMessage], **changes: Any) -> Handed:
    handed = Handed(settings(**changes))
    await handed.receive(FakeReceiver(came))  # type: ignore[arg-type]
    return handed


async def sent(rate: float | None = None) -> list[bytes]:
    """The messages of a source: a block to warm up, and two that are measured."""
    source = FakeSource()
    sending = sender(source, settings(rate=rate))
    await sending.send(BLOCK, never, last=False)
    await sending.send(2 * BLOCK, never, last=True)
    return source.sent


@pytest.mark.parametrize("rate", [None, 100_000.0])
async def test_a_receiver_takes_what_the_source_sends(rate: float | None) -> None:
    handed = await received(messages_of(await sent(rate), recovered=True), rate=rate)
    assert handed.problem == ""
    assert handed.messages == 2 * BLOCK
    assert handed.retransmitted_blocks == 2
    assert len(handed.latencies) == (2 if rate is None else 2 * BLOCK)
    assert all(0 <= sample < 60_000_000_000 for sample in handed.latencies)


async def test_a_receiver_takes_what_several_sources_send() -> None:
    rate = 100_000.0
    first, second = messages_of(await sent(rate), 1), messages_of(await sent(rate), 2)
    mixed = [
        each for at in range(0, 3 * BLOCK, 7) for part in (first, second) for each in part[at:][:7]
    ]
    both = {"sources": 2, "messages": 20 * BLOCK, "rate": rate}
    handed = await received(mixed, **both)
    assert (handed.problem, handed.messages, len(handed.latencies)) == ("", 4 * BLOCK, 4 * BLOCK)
    handed = await received(mixed[:-1], **both)
    assert "ended before the last" in handed.problem
    assert handed.messages == 3 * BLOCK
    mixed[11], mixed[12] = mixed[12], mixed[11]
    assert "message 4 is wrong" in (await received(mixed, **both)).problem


async def test_a_receiver_complains() -> None:
    good = [*block(40), *block(40, BLOCK)]
    assert "ended before the last" in (await received(messages_of(good))).problem
    wrong = messages_of([*good[:70], *good[71:], good[70]])
    assert "message 70 is wrong" in (await received(wrong)).problem
    shifted = messages_of(good, shifted=1)
    assert "came as sequence number" in (await received(shifted)).problem


def test_figures_and_rows() -> None:
    outcome = BenchOutcome(
        sources={
            "source-1": {
                "messages": 500_000,
                "began_ns": 20,
                "ended_ns": 2_000_000_010,
                "longest_stall_ms": 0.5,
            },
            "source-2": {
                "messages": 1_500_000,
                "began_ns": 10,
                "ended_ns": 1_000_000_010,
                "longest_stall_ms": 1.25,
            },
        },
        receivers={
            "receiver-1": {
                "messages": 2_000_000,
                "delivered_ns": 4_000_000_010,
                "retransmitted_blocks": 0,
            }
        },
        stable_latencies=array("q", [1_000_000]),
        live_latencies=latency.empty(),
        cpu_seconds={"sources": 1.5, "stores": 0.5},
        peak_rss={"sources": 50_000_000},
    )
    result = figures(settings(), outcome)
    assert list(result) == [
        "stable_messages_per_second",
        "delivered_messages_per_second",
        "megabytes_per_second",
        "live_latency_ms",
        "stable_latency_ms",
        "longest_stall_ms",
        "cpu_seconds",
        "cpu_seconds_per_million",
        "peak_rss_mb",
        "settings",
    ]
    assert result["stable_messages_per_second"] == 1_000_000
    assert result["delivered_messages_per_second"] == 500_000
    assert result["megabytes_per_second"] == 40.0
    assert result["longest_stall_ms"] == 1.25
    assert result["cpu_seconds"] == {"sources": 1.5, "stores": 0.5, "all": 2.0}
    assert result["cpu_seconds_per_million"] == {"sources": 0.75, "stores": 0.25, "all": 1.0}
    assert result["peak_rss_mb"] == {"sources": 50.0}
    assert result["stable_latency_ms"]["p50"] == 1.0
    shown = {row["figure"]: row["value"] for row in rows(result)}
    assert shown["made stable"] == "1,000,000"
    assert shown["source to receiver"] == "- / - / -"
