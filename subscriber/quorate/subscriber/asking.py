"""The request to a store: where the subscription begins there, and where it ends. No I/O."""

from __future__ import annotations

from quorate.protocol.bookmarks import Position
from quorate.protocol.wire import bookmarks_to_wire, position_to_wire
from quorate.subscriber.begin import Ahead, Begin, Behind, End, Epoch, MostRecent, Now, Time
from quorate.v1 import store_pb2 as store_v1


def request_of(
    asked: store_v1.SubscribeRequest, begin: Begin, end: End | None
) -> store_v1.SubscribeRequest:
    """Return the request with its beginning and its end.

    - asked: what is the same for each store.
    - end: None: the subscription does not end.
    """
    request = store_v1.SubscribeRequest()
    request.CopyFrom(asked)
    match begin:
        case Epoch():
            request.position.SetInParent()
        case Now():
            request.now = True
        case Time(time_ns):
            request.since_ns = time_ns
        case Position():
            request.position.CopyFrom(position_to_wire(begin))
        case Behind(bookmarks):
            request.bookmarks.CopyFrom(bookmarks_to_wire(bookmarks))
        case Ahead(bookmarks):
            request.before_bookmarks.CopyFrom(bookmarks_to_wire(bookmarks))
        case MostRecent():
            raise AssertionError("the bookmark store has said where")
    match end:
        case Now():
            request.end_now = True
        case Time(time_ns):
            request.end_before_ns = time_ns
        case Position():
            request.end_position.CopyFrom(position_to_wire(end))
        case Behind(bookmarks):
            request.end_bookmarks.CopyFrom(bookmarks_to_wire(bookmarks))
        case Ahead(bookmarks):
            request.end_before_bookmarks.CopyFrom(bookmarks_to_wire(bookmarks))
    return request


def request_behind(
    asked: store_v1.SubscribeRequest, position: Position, end: End | None, ends: Position | None
) -> store_v1.SubscribeRequest:
    """Return the request of a subscription that goes on behind a position.

    ends: the position that a store made of the end; None: there is none yet. A time goes with it,
    as no message of that time or later is given.
    """
    request = request_of(asked, position, end)
    if ends is not None:
        request.end_position.CopyFrom(position_to_wire(ends))
    return request
