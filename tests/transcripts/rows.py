"""How the rows that become durable at a store read in a story."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.transcripts import words

from quorate.protocol.framing import read_header
from quorate.store.rules.identity_records import (
    ENDED_KEYS,
    GONE_KEYS,
    EndRecord,
    unpack_end,
    unpack_end_record,
)
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.records import (
    STORE_KEY,
    ReceiverRecord,
    Registration,
    StoreRecord,
    unpack_held,
    unpack_receiver,
    unpack_registration,
    unpack_store,
)


class Rows:
    """The rows of one store that were on its disk so far, to tell what is new."""

    def __init__(self, name_of: Callable[[bytes], str]) -> None:
        """Begin with a blank disk. name_of: the source or receiver that an instance is."""
        self._name_of = name_of
        self._registrations: dict[bytes, Registration] = {}
        self._receivers: dict[bytes, ReceiverRecord] = {}
        self._set_aside: dict[bytes, int] = {}
        self._ended: dict[bytes, EndRecord] = {}
        self._store: StoreRecord | None = None

    def synced(self, writes: Sequence[Write]) -> Iterator[str]:
        """Yield what is on the disk from now on."""
        for write in writes:
            if write.value is not None:
                yield from self._synced(write.table, write.key, write.value)

    def _synced(self, table: Table, key: bytes, value: bytes) -> Iterator[str]:
        match table:
            case Table.JOURNAL:
                header = read_header(value)
                yield f"{words.messages(header.first, header.last)} of epoch {header.epoch}"
            case Table.REGISTRATIONS:
                before = self._registrations.get(key)
                now = self._registrations[key] = unpack_registration(value)
                yield from self._registered(before, now)
            case Table.HELD:
                count = unpack_held(value).set_aside
                if count > self._set_aside.get(key, 0):
                    yield f"{count - self._set_aside.get(key, 0)} set aside"
                self._set_aside[key] = count
            case Table.RECEIVERS:
                receiver = self._receivers.get(key)
                self._receivers[key] = unpack_receiver(value)
                yield from self._received(receiver, self._receivers[key])
            case Table.META if key == STORE_KEY:
                store, self._store = self._store, unpack_store(value)
                yield from _stood(store, self._store)
            case Table.META if GONE_KEYS[0] <= key <= GONE_KEYS[1]:
                ended = self._ended.get(key)
                self._ended[key] = unpack_end_record(value)
                yield from _ended(ended, self._ended[key], self._name_of)
            case Table.META if ENDED_KEYS[0] <= key <= ENDED_KEYS[1]:
                end = unpack_end(value)
                yield f"the receiver ended in epoch {end.epoch}" + (
                    ", and all stores know" if end.settled else ""
                )

    def _registered(self, before: Registration | None, now: Registration) -> Iterator[str]:
        if before is None or before.promised_epoch != now.promised_epoch:
            yield f"promise of epoch {now.promised_epoch} to {self._name_of(now.promised_to)}"
        record = now.begun
        if record.epoch and before is not None and before.begun.epoch == record.epoch:
            if before.begun.policies != record.policies:
                yield words.confirmed(record)
        elif record.epoch:
            change = words.membership(record.membership) if record.membership is not None else ""
            end = ", the end of the stream" if record.ended else ""
            yield f"begin of {words.lineage(record.lineage)}{end}{change}"

    def _received(self, before: ReceiverRecord | None, now: ReceiverRecord) -> Iterator[str]:
        name = self._name_of(now.instance)
        if before is None or before.ballot != now.ballot:
            yield f"{name} has epoch {now.epoch}"
        if before is not None and before.acknowledged_upto != now.acknowledged_upto:
            yield f"{name} is done with {words.upto(now.acknowledged_upto)}"


def _ended(
    before: EndRecord | None, now: EndRecord, name_of: Callable[[bytes], str]
) -> Iterator[str]:
    promised, epoch = now.registration.promised_epoch, now.registration.begun.epoch
    if before is not None and before.registration.promised_epoch != promised:
        yield f"promise of epoch {promised} to {name_of(now.registration.promised_to)}"
    if epoch and (before is None or before.registration.begun.epoch != epoch):
        yield f"epoch {epoch} ends the stream"
    if now.durable and (before is None or not before.durable):
        yield f"epoch {epoch} counts"


def _stood(before: StoreRecord | None, now: StoreRecord) -> Iterator[str]:
    if now.limbo and (before is None or not before.limbo):
        yield "in limbo, blank" if now.blank else f"in limbo, {now.limbo}"
    if before is not None and before.limbo and not now.limbo:
        yield "no longer in limbo"
    if now.founders and (before is None or not before.founders):
        names = sorted(founder.store_name for founder in now.founders)
        yield f"founder of a group with {', '.join(names)}"
