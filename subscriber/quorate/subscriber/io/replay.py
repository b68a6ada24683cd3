"""One call of Subscribe to one store: its responses become batches and notices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.errors import CorruptBatch, Unreachable
from quorate.protocol.fragments import Assembly, LargeBatch
from quorate.protocol.framing import BatchHeader, body_of, check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.wire import position_from_wire, source_from_wire
from quorate.subscriber.io.archived import Archived
from quorate.subscriber.items import Completed, Gap, GapCause, Notice, ReplayedBatch, Withdrawn
from quorate.subscriber.protocol.follower import Follower
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

Given = ReplayedBatch | Notice


class Replay:
    """One call of Subscribe under way."""

    def __init__(
        self,
        store: str,
        stub: Any,
        request: store_v1.SubscribeRequest,
        archived: Archived | None = None,
    ) -> None:
        """Call the store behind the stub.

        - store: its address, for errors.
        - archived: the archive that fills gaps; None: there is none.
        """
        self._store = store
        self._archived = archived
        self._call = stub.Subscribe(request)
        self._assembly: Assembly | None = None

    def cancel(self) -> None:
        """End the call."""
        self._call.cancel()

    async def begun(self) -> Follower:
        """Wait until the store says where the subscription begins, and ends if it knows.

        Raises grpc.aio.AioRpcError, Unreachable.
        """
        response = await self._read()
        ends = position_from_wire(response.ends) if response.HasField("ends") else None
        return Follower(position_from_wire(response.begins), ends)

    async def given(self, follower: Follower) -> AsyncIterator[Given]:
        """Yield what the store gives.

        Raises grpc.aio.AioRpcError, BrokenAnswer, CorruptBatch, and one of ARCHIVE_FAILURES.
        """
        while True:
            response = await self._read()
            if response.HasField("ends"):
                follower.ends = position_from_wire(response.ends)
            for given in response.given:
                is_poison = given.gone.why == v1.LOOKUP_POISONED
                if self._archived is not None and given.HasField("gone") and not is_poison:
                    gap, epoch = _gap(given.gone), given.gone.epoch
                    async for part in self._archived.filling(follower, gap, epoch, self._store):
                        yield part
                    continue
                item = self._item(follower, given)
                if item is not None:
                    yield item
            if response.completed:
                follower.finish()
                yield Completed(follower.position)

    async def _read(self) -> store_v1.SubscribeResponse:
        response = await self._call.read()
        if not isinstance(response, store_v1.SubscribeResponse):
            raise Unreachable(self._store, "it ended the subscription")
        return response

    def _item(self, follower: Follower, given: store_v1.Given) -> Given | None:
        stable_upto = given.stable_upto if given.HasField("stable_upto") else SEQUENCE_MAX
        match given.WhichOneof("kind"):
            case "fetched":
                return self._fetched(follower, given.fetched, stable_upto)
            case "selected":
                return self._selected(follower, given.selected, stable_upto)
            case "gone":
                return self._gone(follower, given.gone)
            case "moved":
                source = source_from_wire(given.moved.source)
                place = Place(given.moved.epoch, given.moved.sequence)
                follower.moved(self._store, source, place)
            case "set_aside":
                return self._set_aside(follower, given.set_aside)
        return None

    def _fetched(
        self, follower: Follower, fetched: v1.Fetched, stable_upto: int
    ) -> ReplayedBatch | None:
        first, last = fetched.first, fetched.last
        if fetched.HasField("fragment"):
            large = self._joined(fetched.fragment)
            if large is None:
                return None
            header, frame = large.header, large.joined()
        else:
            frame = fetched.batch
            header = check_batch(frame)
        self._check(header, first, last)
        source = header.source
        before = follower.place(source) if first else NO_PLACE
        follower.consecutive(self._store, source, header.epoch, first, last)
        rows = slice(first - header.first, last - header.first + 1)
        body, numbers = body_of(frame, header), range(first, last + 1)
        return ReplayedBatch(header, body, rows, numbers, before, stable_upto=stable_upto)

    def _check(self, header: BatchHeader, first: int, last: int) -> None:
        if not header.first <= first <= last <= header.last:
            problem = f"[{first}, {last}] is not of the batch [{header.first}, {header.last}]"
            raise CorruptBatch(self._store, problem)

    def _joined(self, fragment: v1.Fragment) -> LargeBatch | None:
        if self._assembly is None or not fragment.at:
            self._assembly = Assembly(self._store)
        self._assembly.take(fragment.at, fragment.size, fragment.data)
        if not self._assembly.is_whole:
            return None
        batch, self._assembly = self._assembly.batch(), None
        return batch

    def _selected(
        self, follower: Follower, selected: store_v1.Selected, stable_upto: int
    ) -> ReplayedBatch:
        header = check_batch(selected.batch)
        numbers = [header.first + offset for offset in selected.offsets]
        if len(numbers) != header.last - header.first + 1 or numbers[-1] > selected.upto:
            raise CorruptBatch(self._store, "the numbers of its messages are not one for each")
        before = follower.place(header.source)
        if header.epoch > before.epoch and numbers[0] <= before.sequence:
            before = NO_PLACE
        self._check_numbers(numbers, before.sequence + 1)
        follower.moved(self._store, header.source, Place(header.epoch, selected.upto))
        body = body_of(selected.batch, header)
        rows = slice(0, len(numbers))
        return ReplayedBatch(header, body, rows, numbers, before, stable_upto=stable_upto)

    def _check_numbers(self, numbers: list[int], due: int) -> None:
        before = due - 1
        for number in numbers:
            if number <= before:
                raise CorruptBatch(self._store, f"number {number} comes behind {before}")
            before = number

    def _gone(self, follower: Follower, gone: store_v1.Gone) -> Gap:
        gap = _gap(gone)
        follower.consecutive(self._store, gap.source, gone.epoch, gap.first, gap.last)
        return gap

    def _set_aside(self, follower: Follower, void: store_v1.SetAside) -> Withdrawn:
        source: SourceName = source_from_wire(void.source)
        if self._archived is not None:
            self._archived.check_agrees(source, follower.place(source), void.first)
        place = follower.taken_back(self._store, source, void.first, void.epoch)
        return Withdrawn(source, void.first, void.last, place)


_CAUSES = {v1.LOOKUP_LOST: GapCause.LOST, v1.LOOKUP_POISONED: GapCause.POISONED}


def _gap(gone: store_v1.Gone) -> Gap:
    cause = _CAUSES.get(gone.why, GapCause.RELEASED)
    return Gap(source_from_wire(gone.source), gone.first, gone.last, cause)
