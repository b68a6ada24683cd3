"""A stream moves to other stores, with real ones: nothing is lost, and the old ones can go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.source.real_stores import HURRIED, Crash, RealStores, crash, numbered
from tests.source.support import event_of

from quorate.protocol.errors import NoQuorum, PolicyNotInForce
from quorate.protocol.identity import StoreAddress
from quorate.source import Layout, MembershipChanged, Source, StoreGroup

pytestmark = pytest.mark.expects_log(
    "goes to|does not take|lost its quorum|no peer could give|another lineage|cannot go on|"
    "repair of|limbo"
)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    yield made
    await made.stop_all()


async def begin(stores: RealStores, names: str, last: int = 99) -> None:
    """A stream of some messages on these stores, which its source leaves."""
    async with await stores.open(names) as source:
        await source.send_many(numbered(0, last).values())


async def confirmed(source: Source) -> MembershipChanged:
    """Until the change is through."""
    nth = 1
    while not (changed := await event_of(source, MembershipChanged, nth)).confirmed:
        nth += 1
    return changed


async def moved(source: Source, names: str) -> None:
    """Until only these stores matter: those that were left are told so first.

    A crash may have come when that was so already.
    """
    async with asyncio.timeout(60):
        while {entry.name for entry in source._core.information().stores} != set(names):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("old", "new"),
    [("abc", "abd"), ("abc", "def"), ("abc", "abcde"), ("abcde", "abc")],
    ids=["replace one", "move all", "grow", "shrink"],
)
async def test_from_stores_to_stores(stores: RealStores, old: str, new: str) -> None:
    await stores.start(sorted({*old, *new}))
    await begin(stores, old)
    async with await stores.open(new, previous_policies=[stores.named(old)]) as source:
        assert source.next_sequence == 100
        await source.send_many(numbered(100, 149).values())
        changed = await confirmed(source)
        assert [set(policy.stores) for policy in changed.to_policies] == [set(new)]
        receipt = await source.publish(b"150")
        assert set(receipt.stores) <= set(new)
        await moved(source, new)
        await stores.until_held(new, numbered(0, 150))
    await stores.stop(set(old) - set(new))
    async with await stores.open(new) as source:
        assert source.next_sequence == 151
        await source.publish(b"151")
        await stores.until_held(new, numbered(0, 151))


async def test_adding_a_group(stores: RealStores) -> None:
    await stores.start("abcdef")
    one = Layout.of(StoreGroup("left", stores.named("abc")))
    both = Layout.of(
        StoreGroup("left", stores.named("abc")),
        StoreGroup("right", stores.named("def")),
        rule="all",
    )
    async with await stores.open(one) as source:
        await source.send_many(numbered(0, 99).values())
    async with await stores.open(both, previous_policies=[one]) as source:
        await confirmed(source)
        receipt = await source.publish(b"100")
        assert len(set(receipt.stores) & set("def")) >= 2
        assert receipt.groups == ("left", "right")
        await stores.until_held("abcdef", numbered(0, 100))


async def test_an_old_configuration_that_somebody_still_runs(stores: RealStores) -> None:
    await stores.start("abcdef")
    await begin(stores, "abc")
    async with await stores.open("def", previous_policies=[stores.named("abc")]) as source:
        await confirmed(source)
        await moved(source, "def")
        await source.publish(b"100")
        with pytest.raises(PolicyNotInForce, match="quorum of d, e, f") as raised:
            await stores.open("abc", take_over=True)
        assert "quorum of a, b, c" in str(raised.value)
        # Neither lost nor wedged: the one in force goes on as if nothing had been.
        await source.publish(b"101")
        await stores.until_held("def", numbered(0, 101))
    with pytest.raises(PolicyNotInForce):
        await stores.open("abc")
    async with await stores.open("def") as source:
        assert source.next_sequence == 102


async def interrupted(stores: RealStores, old: str, new: str, nth: int) -> None:
    """A move that ends in a crash after so many of its steps."""
    watch = Crash()
    opening = asyncio.create_task(
        stores.open(new, previous_policies=[stores.named(old)], on_event=watch)
    )
    await asyncio.wait_for(watch.until(MembershipChanged, nth), 60)
    if opening.done():
        await crash(opening.result())
    else:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)


async def test_only_configured_stores_are_told_to_take_over(
    stores: RealStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, bool] = {}

    begun = seams.STORE_SESSION_INIT.real()

    def begin_session(self: Any, store: StoreAddress, *, take_over: bool, **more: Any) -> None:
        begun(self, store, take_over=take_over, **more)
        asked[store.name] = take_over

    await stores.start("abcdef")
    await begin(stores, "abc")
    await interrupted(stores, "abc", "def", 1)
    seams.STORE_SESSION_INIT.replace(monkeypatch, begin_session)
    async with await stores.open("abc", take_over=True):
        pass
    assert {name for name in asked if asked[name]} == set("abc")
    assert {name for name in asked if not asked[name]} == set("def")


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize(("old", "new"), [("abc", "abd"), ("abc", "def")])
async def test_a_crash_in_the_middle(stores: RealStores, old: str, new: str, nth: int) -> None:
    await stores.start(sorted({*old, *new}))
    await begin(stores, old)
    await interrupted(stores, old, new, nth)
    async with await stores.open(
        new, previous_policies=[stores.named(old)], take_over=True
    ) as source:
        assert source.next_sequence == 100
        await source.publish(b"100")
        await moved(source, new)
        await stores.until_held(new, numbered(0, 100))
    await stores.stop(set(old) - set(new))
    async with await stores.open(new) as source:
        assert source.next_sequence == 101


async def test_the_old_configuration_takes_an_interrupted_change_back(
    stores: RealStores,
) -> None:
    await stores.start("abcdef")
    await begin(stores, "abc")
    await interrupted(stores, "abc", "def", 1)
    # Its configuration knows nothing of d, e, f: the stores tell.
    async with await stores.open("abc", take_over=True) as source:
        assert source.next_sequence == 100
        await moved(source, "abc")
        await source.publish(b"100")
    await stores.stop("def")
    async with await stores.open("abc") as source:
        assert source.next_sequence == 101
        await stores.until_held("abc", numbered(0, 100))


async def test_the_old_stores_are_needed_until_the_change_was_confirmed(
    stores: RealStores,
) -> None:
    await stores.start("abcdef")
    await begin(stores, "abc")
    await interrupted(stores, "abc", "def", 1)
    await stores.stop("ab")
    with pytest.raises(NoQuorum, match="a, b") as raised:
        await stores.open("def", previous_policies=[stores.named("abc")], timeout=2)
    assert "c" in str(raised.value)
    await stores.start("ab")
    async with await stores.open("def", previous_policies=[stores.named("abc")]) as source:
        await confirmed(source)
        await stores.until_held("def", numbered(0, 99))


async def test_a_source_sends_on_while_its_stream_moves(stores: RealStores) -> None:
    await stores.start("abcdef")
    await begin(stores, "abc", 4999)
    previous = [stores.named("abc")]
    async with await stores.open("def", previous_policies=previous, options=HURRIED) as source:
        sent = 5000
        moved = asyncio.create_task(confirmed(source))
        while not moved.done():
            assert await source.send(b"%d" % sent) == sent
            assert (await source.commit([b"%d" % (sent + 1)], b"marker"))[0] == sent + 1
            sent += 2
            await source.flush(60)
        await source.flush(60)
        await stores.until_held("def", numbered(0, sent - 1))
