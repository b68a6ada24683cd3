"""The bookmarks of receipts and messages, and the position of a receiver: real stores."""

from __future__ import annotations

from tests.receiver.real_peers import Stores, numbered, receiver, source, take

from quorate.client import connect
from quorate.client.replay import ReplayedMessage


async def test_bookmarks_and_the_position_are_those_that_a_subscriber_takes(stores: Stores) -> None:
    async with connect(stores.addresses) as client, await source(stores) as sending:
        receipts = [await sending.publish(b"%d" % number) for number in range(6)]
        async with await receiver(stores, acknowledge="explicit") as one:
            messages = [await one.receive(60) for _ in range(4)]
            assert [each.bookmark for each in messages if each is not None] == [
                each.bookmark for each in receipts[:4]
            ]
            for each in (messages[0], messages[1], messages[3]):
                assert each is not None
                each.acknowledge()
            assert one.position == {receipts[1].source: receipts[1].bookmark.place}
            for begin in (one.position, str(one.position), receipts[1].bookmark):
                async with client.subscriber(
                    "orders", begin=begin, end=receipts[5].bookmark
                ) as replay:
                    found = [
                        each.payload async for each in replay if isinstance(each, ReplayedMessage)
                    ]
                    assert found == [b"2", b"3", b"4", b"5"]


async def test_the_position_of_a_receiver_that_goes_on_is_where_it_goes_on(stores: Stores) -> None:
    async with await source(stores) as sending:
        receipts = [await sending.publish(b"%d" % number) for number in range(6)]
        async with await receiver(stores) as one:
            assert await take(one, 6) == numbered(0, 5)
        await stores.until_positions(a=5, b=5, c=5)
        async with await receiver(stores) as again:
            assert again.position == {receipts[5].source: receipts[5].bookmark.place}
