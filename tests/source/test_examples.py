"""The layouts under docs/examples on real stores: what they survive, and where they stop."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import runpy
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.source.real_stores import HURRIED, RealStores
from tests.source.support import event_of

from quorate.protocol.errors import NotRegistered
from quorate.source import (
    BackupSteppedBack,
    BackupSteppedIn,
    IntergroupRule,
    Layout,
    QuorumLost,
    RegistrationComplete,
    Source,
    StoreUnresponsive,
)

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

pytestmark = pytest.mark.expects_log(
    "does not take|lost its quorum|goes to|stands in|no peer could"
)


class Example:
    """An example's layout, on stores that run here."""

    def __init__(self, stores: RealStores) -> None:
        self.stores = stores
        self.layout = Layout.plain("nowhere:1")
        self.text = ""

    async def start(self, file: str) -> None:
        text = (EXAMPLES / file).read_text()
        names = re.findall(r'"([\w-]+)=[\d.]+:\d+"', text)
        await self.stores.start(names)
        self.text = re.sub(
            r'"([\w-]+)=[\d.]+:\d+"', lambda m: f'"{m[1]}={self.stores.address(m[1])}"', text
        )
        self.layout = Layout.from_toml(self.text)
        assert {store.name for store in self.layout.stores} == set(names)

    async def stop(self, location: str, *numbers: int) -> None:
        await self.stores.stop(f"{location}-{number}" for number in numbers)

    async def open(self, **changes: Any) -> Source:
        return await self.stores.open(self.layout, **changes)


@pytest.fixture
async def example(tmp_path: Path) -> AsyncIterator[Example]:
    stores = RealStores(tmp_path)
    yield Example(stores)
    await stores.stop_all()


async def stable(source: Source, payload: bytes) -> None:
    """Publish it, however often the source registers anew until it is accepted."""
    while True:
        try:
            await source.publish(payload)
        except NotRegistered:
            await asyncio.sleep(0.02)
        else:
            return


async def until_refused(source: Source, *whole: str) -> None:
    """Until messages are not accepted; those that were on the way may stay unstable.

    whole: the groups that are still there.
    """
    assert (await event_of(source, QuorumLost)).groups == whole
    with pytest.raises(NotRegistered):
        await source.send(b"no")


async def test_three_locations_go_on_while_two_are_active(
    example: Example, caplog: pytest.LogCaptureFixture
) -> None:
    await example.start("three-locations.toml")
    async with await example.open() as source:
        assert (await source.publish(b"0")).groups == ("london", "frankfurt", "dublin")
        await example.stop("london", 1, 2, 3)
        for nth in (1, 2, 3):
            assert not (await event_of(source, StoreUnresponsive, nth)).quorum_lost
        receipt = await source.publish(b"1")
        assert receipt.groups == ("frankfurt", "dublin")
        await example.stop("frankfurt", 1, 2)
        await until_refused(source, "dublin")
        assert "groups left: dublin" in caplog.text
        await example.stores.start(["frankfurt-1"])
        back = await event_of(source, RegistrationComplete, nth=2)
        assert back.groups == ("frankfurt", "dublin")
        assert (await source.publish(b"2")).groups == ("frankfurt", "dublin")


async def test_with_any_a_single_group_is_enough_and_none_is_not(example: Example) -> None:
    await example.start("three-locations.toml")
    policy = replace(example.layout.policy, rule=IntergroupRule.ANY)
    example.layout = Layout(policy, example.layout.stores)
    source = await example.open()
    await source.publish(b"0")
    # Two whole locations.
    await example.stop("london", 1, 2, 3, 4, 5)
    await example.stop("dublin", 1, 2, 3, 4, 5)
    await event_of(source, StoreUnresponsive, nth=10)
    assert (await source.publish(b"1")).groups == ("frankfurt",)
    # 3 + 2 + 3: no group has a quorum.
    await example.stores.start(["london-1", "london-2", "dublin-1", "dublin-2"])
    await example.stop("frankfurt", 1, 2)
    await until_refused(source)
    await example.stores.start(["dublin-3"])
    await event_of(source, RegistrationComplete, nth=2)
    assert (await source.publish(b"2")).groups == ("dublin",)
    await source.close()


async def test_one_store_per_location_survives_a_location_and_has_a_spare(example: Example) -> None:
    await example.start("one-store-per-location.toml")
    async with await example.open(options=replace(HURRIED, registration_interval=0.3)) as source:
        await source.publish(b"0")
        await example.stop("london", 1, 2)
        assert await event_of(source, BackupSteppedIn) == BackupSteppedIn(
            "first", "london-1", "london-3"
        )
        await source.publish(b"1")
        assert "london-3" in {entry.name for entry in source._core.information().stores}
        await example.stop("frankfurt", 2)
        # The second group has lost its quorum; the first has it, with its spare.
        receipt = await source.publish(b"2")
        assert receipt.groups == ("first",)
        # No change of the stores now: a registration needs the second group, too.
        await example.stores.start(["london-1", "frankfurt-2"])
        assert await event_of(source, BackupSteppedBack) == BackupSteppedBack(
            "first", "london-1", "london-3"
        )
        # It goes to the former stores in an epoch of its own.
        await stable(source, b"3")
        messages = {number: b"%d" % number for number in range(4)}
        await example.stores.until_held(["london-1", "dublin-1"], messages)


async def test_the_program(
    example: Example, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await example.start("three-locations.toml")
    spec = importlib.util.spec_from_file_location("groups_example", EXAMPLES / "groups.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["groups.py"])
        with pytest.raises(SystemExit, match=r"python docs/examples/groups\.py"):
            runpy.run_path(str(EXAMPLES / "groups.py"), run_name="__main__")
    groups = await program.send(Layout.from_toml(example.text), "orders", 2, 0.0)
    assert groups == [("london", "frankfurt", "dublin")] * 2
    assert "RegistrationComplete" in capsys.readouterr().out
