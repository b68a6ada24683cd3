"""A store that takes back what a subscriber has from its archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.archive.support import NOON_NS, ORDERS, FakeStores, Stream, batch
from tests.pipeline.archive.test_archiving import run

from quorate.errors import ArchiveDiffers
from quorate.protocol.bookmarks import Place, Position
from quorate.protocol.wire import source_to_wire
from quorate.subscriber.io.archived import Archived
from quorate.subscriber.io.replay import Replay
from quorate.subscriber.items import Withdrawn
from quorate.subscriber.protocol.follower import Follower
from quorate.v1 import store_pb2 as store_v1


class Stub:
    """A store that takes back from a number on."""

    def __init__(self, first: int, last: int) -> None:
        void = store_v1.SetAside(source=source_to_wire(ORDERS), first=first, last=last, epoch=1)
        self._response = store_v1.SubscribeResponse(given=[store_v1.Given(set_aside=void)])

    def Subscribe(self, _: Any) -> Stub:
        return self

    async def read(self) -> store_v1.SubscribeResponse:
        return self._response


async def test_what_the_archive_has_is_never_withdrawn(tmp_path: Path) -> None:
    frames = [batch(first, first + 9, time_ns=NOON_NS) for first in range(0, 60, 10)]
    run(FakeStores({ORDERS: Stream(frames=frames, stable_upto=59)}), tmp_path)
    archived = Archived(tmp_path, lambda _: True, None, None)

    def given(first: int, last: int) -> Any:
        replay = Replay("h:1", Stub(first, last), store_v1.SubscribeRequest(), archived)
        return replay.given(Follower(Position({ORDERS: Place(1, last)})))

    with pytest.raises(ArchiveDiffers, match=r"orders/0x10, from 50 on"):
        await anext(given(50, 59))
    assert isinstance(await anext(given(60, 69)), Withdrawn)
