"""Hears the network and the disks of a world, and tells what is worth telling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import Message
from tests.transcripts import calls
from tests.transcripts.rows import Rows
from tests.transcripts.telling import ON_DISK, TO, Story
from tests.world.channel import Call
from tests.world.network import Tap

from quorate.protocol.begin import BeginRecord
from quorate.protocol.wire import begin_from_wire
from quorate.store.storage.interface import Write
from quorate.transport.failures import failure_of_abort
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import source_pb2 as source_v1
from quorate.v1 import store_pb2 as store_v1

Kinds = dict[str, tuple[type[Message], type[Message]]]
"""By the name of a method: the classes of what is asked and answered."""


def _kinds() -> Kinds:
    return {
        f"/{service.full_name}/{method.name}": (
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
        )
        for module in (store_v1, source_v1)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


class Listener(Tap):
    """Tells a story of what it hears."""

    def __init__(self, story: Story, is_in_limbo: Callable[[str], bool]) -> None:
        """Begin. is_in_limbo: whether the store with this name is."""
        self._story = story
        self.tells_peers = False
        """Whether it is told what stores that are in limbo, or start, hear from others."""
        self._is_in_limbo = is_in_limbo
        self._kinds = _kinds()
        self._names: dict[bytes, str] = {}
        """Sources and receivers by their instance."""
        self._asked: dict[tuple[Call, int], Any] = {}
        """The request of each call, or with each number of a bundle."""
        self._begins: dict[tuple[str, str], BeginRecord] = {}
        """The begin of the newest epoch of each source at each store, as it was sent first."""
        self._sources: dict[str, str] = {}
        """Sources by the address where they serve their receivers."""
        self._rows: dict[str, Rows] = defaultdict(lambda: Rows(self._name_of))

    def _name_of(self, instance: bytes) -> str:
        return self._names[instance] if instance else "nobody"

    def _tells_peers_of(self, store: str) -> bool:
        return self.tells_peers and self._is_in_limbo(store)

    # The network.

    def asked(self, call: Call, message: bytes) -> None:
        """Tell what a server got."""
        who, whom = call.connection.up.sender.name, call.connection.up.taker.name
        for number, part in self._parts(call, message, 0):
            self._note(who, part)
            self._asked[call, number] = part
            if isinstance(part, store_v1.BeginRequest) and self._confirms(who, whom, part):
                says = calls.confirm(part)
            elif isinstance(part, store_v1.InventoryRequest):
                says = calls.asked_of_peer(part) if self._tells_peers_of(who) else ""
            elif isinstance(part, v1.Frame) and part.HasField("keepalive"):
                says = ""  # Nothing depends on when a store hears that.
            else:
                says = calls.said(part)
            self._tell(who, whom, says)

    def answered(self, call: Call, message: bytes) -> None:
        """Tell what a client got."""
        who, whom = call.connection.down.sender.name, call.connection.down.taker.name
        for number, part in self._parts(call, message, 1):
            if isinstance(part, store_v1.InventoryResponse):
                says = calls.known_by_peer(part) if self._tells_peers_of(whom) else ""
            elif isinstance(part, store_v1.WatchResponse):
                says = self._directory(who, part)
            else:
                says = calls.answered(part, self._asked.get((call, number)))
            self._tell(who, whom, says)

    def ended(self, call: Call, code: grpc.StatusCode, trailing: Any) -> None:
        """Tell why a server refused."""
        failure = failure_of_abort(code, "", trailing)
        if failure.kind:
            who, whom = call.connection.down.sender.name, call.connection.down.taker.name
            self._tell(who, whom, calls.failure(failure))

    def _confirms(self, who: str, whom: str, asked: store_v1.BeginRequest) -> bool:
        """Return whether this begin was sent before, and named more policies then."""
        record = begin_from_wire(asked.begin)
        first = self._begins.get((who, whom))
        if first is None or first.epoch != record.epoch:
            self._begins[who, whom] = record
            return False
        return len(first.policies) > len(record.policies)

    def _parts(self, call: Call, message: bytes, end: int) -> Iterator[tuple[int, Any]]:
        if call.method in self._kinds:
            yield from calls.parts(self._kinds[call.method][end].FromString(message))

    def _note(self, who: str, part: Any) -> None:
        """Remember whose instance it is, and whose address."""
        if isinstance(part, store_v1.PromiseRequest | store_v1.RegisterReceiverRequest):
            self._names[part.instance] = who
        elif isinstance(part, v1.Frame) and part.HasField("open"):
            self._sources[part.open.information.address] = who

    def _directory(self, who: str, part: store_v1.WatchResponse) -> str:
        if not part.HasField("entry"):
            return ""
        entry = part.entry
        source = self._sources.get(entry.information.address, "a source")
        if entry.live:
            return f"{source} sends, in epoch {entry.information.epoch}"
        return f"{source} is away" + (", I answer for it" if entry.proxy == who else "")

    def _tell(self, who: str, whom: str, says: str) -> None:
        if says:
            self._story.tell(who, TO, whom, says)

    # The disks.

    def synced(self, path: Path, writes: Sequence[Write]) -> None:
        """Tell what is on the disk of a store. path: the database in its directory."""
        store = path.parent.name
        for says in self._rows[store].synced(writes):
            self._story.tell(store, ON_DISK, "", says)

    def wiped(self, store: str) -> None:
        """Forget what was on the disk of a store."""
        del self._rows[store]
