"""The rows of a data directory: a valid one of each kind, and its reader, for the fuzzer."""

from __future__ import annotations

from collections.abc import Callable

from quorate.protocol.begin import BeginRecord
from quorate.protocol.bookmarks import Place
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.store.storage import maintenance_records as maintenance
from quorate.store.storage import records, state_records
from quorate.store.storage.large_batches import large_row, pack_large
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_ORDERS = SourceName("orders", 0x10)
_RANGES = RangeSet([Range(0, 5), Range(8, 9)])
_LINEAGE = Lineage((Term(1, 0), Term(3, 6)))
_GREETING = store_v1.Greeting(store_name="b", incarnation=b"i", former=[b"f"])
_REGISTRATION = records.Registration(
    _ORDERS,
    3,
    b"instance",
    BeginRecord(_LINEAGE, Membership((), ())),
    v1.SourceInformation(epoch=3),
)
_STORE = records.StoreRecord(b"i", 2, "why", founders=(_GREETING,), former=(b"f",))
_LOSS = maintenance.LossRecord(_ORDERS, 1, 2, "why", 5, _LINEAGE)
_CANDIDATE = state_records.Candidate(0x10, 1, 5, 6, 7, 0, b"body")
_PROGRESS = state_records.Progress(_ORDERS, Place(1, 5), 0, -1)
_LARGE = encode_batch(_ORDERS, 1, 0, [b"x"], 5)
_INDEX_KEY, _PAIR_KEY = records.index_key(1, 0), records.marker_key(1, 5)

RECORDS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "index": (
        records.pack_index(7, 5, 1, 2, 3),
        lambda row: records.unpack_index(_INDEX_KEY, row),
    ),
    "registration": (records.pack_registration(_REGISTRATION), records.unpack_registration),
    "held": (records.pack_held(records.Held(_RANGES)), records.unpack_held),
    "released": (records.pack_released(1, 5), records.unpack_released),
    "marker": (
        records.pack_marker(Marker(5, 1, b"value")),
        lambda row: records.unpack_marker(_PAIR_KEY, row),
    ),
    "receiver": (records.pack_receiver(records.ReceiverRecord(1, 2)), records.unpack_receiver),
    "commit": (records.pack_commit(records.CommitRecord(1, 2)), records.unpack_commit),
    "store": (records.pack_store(_STORE), records.unpack_store),
    "greeting": (records.pack_greeting(_GREETING), records.unpack_greeting),
    "ranges": (maintenance.pack_ranges(_RANGES), maintenance.unpack_ranges),
    "loss": (maintenance.pack_loss(_LOSS), maintenance.unpack_loss),
    "scrub": (maintenance.pack_scrub(maintenance.ScrubRecord(1)), maintenance.unpack_scrub),
    "candidate": (
        state_records.pack_candidate(_CANDIDATE),
        lambda row: state_records.unpack_candidate(b"key-of-a-row", row),
    ),
    "progress": (
        state_records.pack_progress(_PROGRESS),
        lambda row: state_records.unpack_progress(b"key-of-a-row", row),
    ),
    "large": (pack_large(1, len(_LARGE), _LARGE), large_row),
}
