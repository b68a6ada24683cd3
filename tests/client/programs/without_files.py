"""A subscriber that keeps no files: it prints each message that it consumes, until it is killed."""

import sys
import time

from quorate.client import connect_blocking
from quorate.client.replay import MOST_RECENT, ReplayedMessage, TopicBookmarkStore

with connect_blocking(sys.argv[1]) as client:
    bookmarks = TopicBookmarkStore(client, "bookmarks")
    with client.subscriber(
        "orders", begin=MOST_RECENT, bookmarks=bookmarks, name="risk", save_interval=0.05
    ) as replay:
        for item in replay:
            if isinstance(item, ReplayedMessage):
                print(item.payload.decode(), flush=True)
                item.consumed()
                time.sleep(0.001)
