"""A subscriber with a file of bookmarks: it prints each message that it consumes, until it ends."""

import sys
import time

from quorate.client import connect_blocking
from quorate.client.replay import MOST_RECENT, FileBookmarkStore, ReplayedMessage
from quorate.errors import BookmarksTakenOver

stores, file = sys.argv[1:]
try:
    with (
        connect_blocking(stores) as client,
        client.subscriber(
            "orders",
            begin=MOST_RECENT,
            bookmarks=FileBookmarkStore(file),
            name="risk",
            save_interval=0.05,
        ) as replay,
    ):
        for item in replay:
            if isinstance(item, ReplayedMessage):
                print(item.payload.decode(), flush=True)
                item.consumed()
                time.sleep(0.001)
except BookmarksTakenOver:
    print("taken over", flush=True)
