"""The restore: the job that gives the messages of an archive to wiped stores, or to a new group.

First the job announces every source to every store, so that no source takes the group for a new one
while it is filled. Then Spark schedules ranges; a Python worker sends their batches from Parquet to
the stores. At the end every store reports what it lacks. Each store itself decides what it
takes. A job that runs again goes on where the last one ended, and compares what the stores have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from quorate.archive.reading import Archive
from quorate.archive.rules.source import ArchivedSource
from quorate.pipeline.archive.tasks import Entry, Run, failed_from_json, failed_to_json
from quorate.pipeline.jobs.refill import (
    Answered,
    Sender,
    ask,
)
from quorate.pipeline.options import parse_source
from quorate.pipeline.stores.client import Stores
from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import OtherHistory, QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import diverges_at
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.wire import (
    held_to_wire,
    lineage_to_wire,
    markers_to_wire,
    membership_to_wire,
    policy_to_wire,
    source_to_wire,
)
from quorate.transport.delays import retrying_blocking
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

PATIENCE_SECONDS = 30.0
"""Seconds for which a store that is not ready is asked again. A new group is founded in less."""
UNSEEN_EPOCHS = 1000
"""Epochs that a source may have begun since it was archived, at stores that are all lost."""
PART_MESSAGES = 1_000_000
"""Messages of a task."""


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


@dataclass(slots=True)
class StoreRestored:
    """The result of restoring one source to one store."""

    store: str
    written: int = 0
    held_already: int = 0
    lacking: tuple[HeldRange, ...] = ()
    """Ranges of the archive that the store lacks."""
    lacked_last: bool = False
    """The store lacked the archive's last message. One that held it was only mended."""
    left_to_source: int = 0
    """Number of the archive's last messages that the live source itself sends to this store."""
    vouches: bool = False
    """The store is not in limbo for the source."""
    failure: QuorateError | None = None

    @property
    def done(self) -> bool:
        return self.failure is None and self.vouches and not self.lacking

    def as_object(self) -> dict[str, Any]:
        return {
            "store": self.store,
            "written": self.written,
            "held_already": self.held_already,
            "lacking": [[each.first, each.last] for each in self.lacking],
            "left_to_source": self.left_to_source,
            "vouches": self.vouches,
            "failure": None
            if self.failure is None
            else {"error": type(self.failure).__name__, "message": str(self.failure)},
        }


@dataclass(slots=True)
class RestoreReport:
    """The result of a restore."""

    archive: str
    version: int
    """The version of the table that was restored."""
    sources: dict[SourceName, dict[str, StoreRestored]] = field(default_factory=dict)
    """By source and name of the store."""
    lasts: dict[SourceName, int] = field(default_factory=dict)
    """By source, the last number in the archive."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Every store has every message of the archive."""
        return all(store.done for stores in self.sources.values() for store in stores.values())

    @property
    def warnings(self) -> list[str]:
        """Lines for the operator about what has to be done now."""
        return [
            f"{source} goes on at {last + 1}. Messages that it had sent above {last}, and that no "
            "store has, are lost, and other messages will get their numbers. Running receivers are "
            "told (Withdrawn). An application that remembers a position of its own must forget "
            "what is above. If the source reports missing messages, it remembers more than the "
            "stores have: start it anew, without its publish store."
            for source, last in self.lasts.items()
            if any(store.written and store.lacked_last for store in self.sources[source].values())
        ]

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "archive": self.archive,
            "version": self.version,
            "done": self.done,
            "seconds": round(self.seconds, 3),
            "sources": [
                {
                    "topic": source.topic,
                    "source": f"{source.session_id:#x}",
                    "last": self.lasts[source],
                    "stores": [store.as_object() for store in stores.values()],
                }
                for source, stores in self.sources.items()
            ],
            "warnings": self.warnings,
        }


def restore(
    run: Run,
    path: str,
    layout: Layout,
    *,
    selects: Callable[[str], bool] = lambda _: True,
    told: Callable[[str], None] = _quiet,
    patience: float = PATIENCE_SECONDS,
) -> RestoreReport:
    """Give these stores every message of an archive.

    - run: runs the tasks, as quorate.pipeline.archive.tasks.on_spark does.
    - layout: the stores, and the policy of the streams from now on. A source whose archived
      policies name only these stores keeps them.
    - selects: returns whether a topic is to be restored.
    - told: a function that gets lines about the progress.
    - patience: seconds for which a store that is not ready is asked again.

    The report lists what could not be restored.
    Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable.
    """
    began = time.monotonic()
    job = _Restoring(run, Archive(path), layout, told, patience)
    report = job.run(selects)
    report.seconds = time.monotonic() - began
    return report


class _Restoring:
    """One run of the job."""

    def __init__(
        self,
        run: Run,
        archive: Archive,
        layout: Layout,
        told: Callable[[str], None],
        patience: float,
    ) -> None:
        self._run = run
        self._archive = archive
        self._layout = layout
        self._told = told
        self._patience = patience

    def run(self, selects: Callable[[str], bool]) -> RestoreReport:
        report = RestoreReport(self._archive.path, self._archive.table.version)
        archived = self._archive.sources.values()
        sources = [each for each in archived if selects(each.name.topic)]
        for each in sources:
            report.lasts[each.name] = each.last
            report.sources[each.name] = {
                store.name: StoreRestored(store.name) for store in self._layout.stores
            }
        with ThreadPoolExecutor(max(1, len(self._layout.stores))) as executor:
            promised = self._check_histories(sources, report)
            requests = {
                each.name: opening(each, self._layout, promised.get(each.name)) for each in sources
            }
            self._told(f"opening {len(sources):,} sources at {len(self._layout.stores)} stores")
            self._ask_all(executor, requests, report)
            self._fill(requests, report)
            self._ask_all(executor, requests, report)
        for store in self._layout.stores:
            # The archive has these messages, so retention may release them again.
            done = {
                name: report.lasts[name]
                for name, restored in report.sources.items()
                if restored[store.name].done
            }
            Stores([store.address]).tell_archived(done)
        return report

    def _check_histories(
        self, sources: Sequence[ArchivedSource], report: RestoreReport
    ) -> dict[SourceName, int]:
        """Fail each source of which a store has another history, before any store is given it.

        Returns, by source that a store knows, the highest epoch that any store has promised.
        """
        promised: dict[SourceName, int] = {}
        for store in self._layout.stores:
            try:
                known = Stores([store.address]).sources().sources
            except QuorateError:
                continue  # _ask_store asks it again, and reports its error
            for each in sources:
                has = known.get(each.name)
                if has is None:
                    continue
                promised[each.name] = max(promised.get(each.name, 0), has.promised_epoch)
                parts_at = diverges_at(has.lineage, each.lineage)
                missed = has.lineage.epoch < each.lineage.epoch and parts_at > has.stable_upto
                if parts_at > each.last or missed:
                    continue
                error = OtherHistory(
                    str(each.name),
                    parts_at,
                    has.lineage.epoch_at(parts_at),
                    each.lineage.epoch_at(parts_at),
                    store.name,
                )
                for restored in report.sources[each.name].values():
                    restored.failure = error
        return promised

    def _ask_all(
        self,
        executor: ThreadPoolExecutor,
        requests: Mapping[SourceName, store_v1.RestoreOpen],
        report: RestoreReport,
    ) -> None:
        list(
            executor.map(
                lambda store: self._ask_store(store, requests, report), self._layout.stores
            )
        )

    def _ask_store(
        self,
        store: StoreAddress,
        requests: Mapping[SourceName, store_v1.RestoreOpen],
        report: RestoreReport,
    ) -> None:
        """Announce all sources to a store, and note what it lacks."""
        give_up_at = time.monotonic() + self._patience
        for source, request in requests.items():
            restored = report.sources[source][store.name]
            if restored.failure is not None:
                continue
            patience = max(0.0, give_up_at - time.monotonic())
            try:
                answered = retrying_blocking(REPEAT, patience=patience)(ask, store.address, request)
            except QuorateError as error:
                restored.failure = error
            else:
                note(restored, answered, request)

    def _fill(
        self, requests: Mapping[SourceName, store_v1.RestoreOpen], report: RestoreReport
    ) -> None:
        ranges = []
        for source, request in requests.items():
            stores = tuple(
                (store.name, store.address)
                for store in self._layout.stores
                if report.sources[source][store.name].failure is None
            )
            if stores:
                opened = request.SerializeToString()
                ranges += [
                    RestoreRange(source, opened, each, stores)
                    for each in _cut(self._archive.has(source))
                ]
        parts = list(_packed(ranges))
        count = sum(len(each.numbers) for each in ranges)
        self._told(f"restoring {count:,} messages in {len(parts):,} parts")
        task = partial(restore_part, archive=self._archive)
        for entry in self._run(parts, task):
            source = parse_source(entry["source"])
            restored = report.sources[source][entry["store"]]
            if "failed" in entry:
                restored.failure = restored.failure or failed_from_json(entry)[1]
                continue
            restored.written += entry["written"]
            restored.held_already += entry["held_already"]


def note(restored: StoreRestored, answered: Answered, request: store_v1.RestoreOpen) -> None:
    """Note what a store answered, before it is filled and afterwards."""
    restored.lacking = answered.lacking
    if any(each.first <= request.last <= each.last for each in answered.lacking):
        restored.lacked_last = True
    restored.vouches = not answered.limbo
    restored.left_to_source = max(0, request.last - max(answered.upto, request.first - 1))


def _cut(numbers: Iterable[Range]) -> Iterator[Range]:
    """Yield the numbers in ranges of which none is longer than a part."""
    for each in numbers:
        for first in range(each.first, each.last + 1, PART_MESSAGES):
            yield Range(first, min(each.last, first + PART_MESSAGES - 1))


def _packed(ranges: Iterable[RestoreRange]) -> Iterator[tuple[RestoreRange, ...]]:
    """Yield the ranges in order, as many at a time as one task takes."""
    part: list[RestoreRange] = []
    messages = 0
    for each in ranges:
        if part and messages + len(each.numbers) > PART_MESSAGES:
            yield tuple(part)
            part, messages = [], 0
        part.append(each)
        messages += len(each.numbers)
    if part:
        yield tuple(part)


def opening(
    source: ArchivedSource, layout: Layout, promised: int | None = None
) -> store_v1.RestoreOpen:
    """Return the announcement of a source to a store: its history, and its policies from now on.

    promised: the highest epoch that stores have promised; None: no store knows the source.
    Without a store that knows the source, all epochs that it may have begun since are fenced.
    Otherwise a lost epoch could be begun again, and give other messages the lost numbers. A
    receiver of the lost messages would take the new ones for them.
    """
    if promised is None:
        promised = max(source.promised_epoch, source.lineage.epoch) + UNSEEN_EPOCHS
    names = {store.name for store in layout.stores}
    policies = source.membership.to_policies
    if not policies or any(policy.stores - names for policy in policies):
        policies = (layout.policy,)
    addresses = tuple((store.name, store.address) for store in layout.stores)
    information = v1.SourceInformation()
    information.CopyFrom(source.information)
    information.source.CopyFrom(source_to_wire(source.name))
    information.policy.CopyFrom(policy_to_wire(policies[-1]))
    del information.stores[:]
    information.stores.extend(v1.StoreEntry(name=name, address=at) for name, at in addresses)
    return store_v1.RestoreOpen(
        source=source_to_wire(source.name),
        lineage=lineage_to_wire(source.lineage),
        membership=membership_to_wire(Membership(policies, policies, addresses)),
        first=source.first,
        last=source.last,
        accepted_losses=held_to_wire(source.losses),
        information=information,
        promised_epoch=max(source.promised_epoch, promised),
        reg_id=source.reg_id,
        protocol_version=PROTOCOL_VERSION,
        markers=markers_to_wire([source.marker] if source.marker is not None else []),
    )


# Tasks, which run in a worker.


@dataclass(frozen=True, slots=True)
class RestoreRange:
    """Messages of one source, and the stores that are given them."""

    source: SourceName
    opened: bytes
    """The RestoreOpen of the source, serialized."""
    numbers: Range
    stores: tuple[tuple[str, str], ...]
    """The name and the address of each store."""


def restore_part(part: Sequence[RestoreRange], *, archive: Archive) -> Iterator[Entry]:
    """Send the batches of each range to its stores. Yield the answer of each store."""
    for each in part:
        yield from _restore_range(each, archive)


def _restore_range(part: RestoreRange, archive: Archive) -> Iterator[Entry]:
    request = store_v1.RestoreOpen.FromString(part.opened)
    senders = {name: Sender(address, request) for name, address in part.stores}
    broken: QuorateError | None = None
    try:
        for piece in archive.pieces(part.source, part.numbers.first, part.numbers.last):
            if piece.header.first < part.numbers.first:
                continue  # the range that has its first message sends all of a batch
            for sender in senders.values():
                sender.send(piece.frame)
    except QuorateError as error:
        broken = error
    for store, sender in senders.items():
        try:
            answered = sender.finish()
            if broken is not None:
                raise broken
            yield {
                "source": str(part.source),
                "store": store,
                "written": answered.written,
                "held_already": answered.held_already,
            }
        except QuorateError as error:
            yield {**failed_to_json(part.source, error), "store": store}
