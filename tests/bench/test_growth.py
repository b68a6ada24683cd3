"""The cost of a message, and how it is shown."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from bench.growth.cost import Cost, Used, cost, paced
from bench.growth.dimensions import DIMENSIONS
from bench.growth.report import draw, table

(SOURCES,) = (each for each in DIMENSIONS if each.name == "sources")


def of(size: float, stores_us: float = 300.0) -> Cost:
    """The cost at a size."""
    return Cost(size, 500.0, 200.0, stores_us, 0.01, 0.025, 1.25, 7.0)


def test_a_message_costs_what_is_used_more_than_when_nothing_is_sent() -> None:
    found = cost(
        size=10,
        took=[0.004, 0.002, 0.003],
        spent=Used(clients=0.5, stores=1.0),
        seconds=4.0,
        idle=Used(clients=0.1, stores=0.05),
        idle_seconds=2.0,
    )
    assert found.clients_us == pytest.approx((0.5 - 4 * 0.05) / 3 * 1e6)
    assert found.stores_us == pytest.approx((1.0 - 4 * 0.025) / 3 * 1e6)
    assert (found.clients_idle, found.stores_idle) == pytest.approx((0.05, 0.025))
    assert (found.rate, found.p50_ms, found.p99_ms) == pytest.approx((0.75, 3.0, 3.0))


def test_a_message_costs_nothing_if_idleness_costs_as_much() -> None:
    found = cost(1, [0.001], Used(0.1, 0.1), 1.0, Used(0.2, 0.2), 1.0)
    assert (found.clients_us, found.stores_us) == (0.0, 0.0)


async def test_messages_come_at_a_rate_and_are_timed_from_when_they_were_due() -> None:
    published: list[int] = []

    async def publish(number: int) -> None:
        published.append(number)
        if number == 3:
            time.sleep(0.02)  # noqa: ASYNC251 - so that the next ones are late

    began = time.perf_counter()
    took = await paced(publish, 1000.0, 0.01)
    assert published == list(range(10))
    assert len(took) == 10
    assert time.perf_counter() - began >= 0.009
    assert took[4] >= 0.015


async def test_a_message_that_is_slow_holds_up_no_other() -> None:
    ends = asyncio.Event()

    async def publish(number: int) -> None:
        if number == 0:
            await ends.wait()
        if number == 4:
            ends.set()

    assert len(await paced(publish, 1000.0, 0.005)) == 5


def test_a_table_has_a_row_for_each_size() -> None:
    head, line, *found = table(SOURCES, [of(1), of(10_000, 1234.5)]).splitlines()
    assert head.startswith("| sources of one client | messages/s |")
    assert line.count("---") == head.count("|") - 1
    assert found == [
        "| 1 | 500 | 200 | 300 | 1.0 | 2.5 | 1.2 / 7.0 |",
        "| 10,000 | 500 | 200 | 1,234 | 1.0 | 2.5 | 1.2 / 7.0 |",
    ]


def test_a_picture_is_drawn_and_twice_the_same(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    costs = [of(1), of(10), of(100, 400.0)]
    picture = draw(SOURCES, costs, tmp_path)
    first = picture.read_bytes()
    assert picture.name == "growth-sources.svg"
    assert b"<svg" in first
    assert draw(SOURCES, costs, tmp_path).read_bytes() == first


def test_sizes_grow_and_quick_ones_are_small() -> None:
    for each in DIMENSIONS:
        for sizes in (each.sizes, each.quick):
            assert list(sizes) == sorted(sizes)
        assert each.quick[-1] < each.sizes[-1]
