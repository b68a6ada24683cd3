"""The subscriber: replays the stores' journal from a point, filtered, and goes on with what comes.

Applications open one through quorate.client.
"""

from quorate.protocol.bookmarks import Bookmark as Bookmark
from quorate.protocol.bookmarks import Place as Place
from quorate.protocol.bookmarks import Position as Position
from quorate.protocol.payloads import PayloadFormat as PayloadFormat
from quorate.subscriber.begin import EPOCH as EPOCH
from quorate.subscriber.begin import MOST_RECENT as MOST_RECENT
from quorate.subscriber.begin import NOW as NOW
from quorate.subscriber.begin import Begin as Begin
from quorate.subscriber.bookmarks import BookmarkStore as BookmarkStore
from quorate.subscriber.bookmarks import FileBookmarkStore as FileBookmarkStore
from quorate.subscriber.bookmarks import MemoryBookmarkStore as MemoryBookmarkStore
from quorate.subscriber.changes import Left as Left
from quorate.subscriber.changes import LeftReason as LeftReason
from quorate.subscriber.changes import Updated as Updated
from quorate.subscriber.items import Completed as Completed
from quorate.subscriber.items import Gap as Gap
from quorate.subscriber.items import GapCause as GapCause
from quorate.subscriber.items import Item as Item
from quorate.subscriber.items import ReplayedBatch as ReplayedBatch
from quorate.subscriber.items import ReplayedMessage as ReplayedMessage
from quorate.subscriber.items import Withdrawn as Withdrawn
from quorate.subscriber.options import Delivered as Delivered
from quorate.subscriber.options import OnUnknownBookmark as OnUnknownBookmark
from quorate.subscriber.protocol.chooser import Spread as Spread
from quorate.subscriber.protocol.chooser import StoreChooser as StoreChooser
from quorate.subscriber.protocol.chooser import Tried as Tried
from quorate.subscriber.protocol.chooser import in_order as in_order
from quorate.subscriber.rows import Answer as Answer
from quorate.subscriber.rows import Rows as Rows
from quorate.subscriber.state import State as State
from quorate.subscriber.subscriber import Subscriber as Subscriber
from quorate.subscriber.watching import Watching as Watching
