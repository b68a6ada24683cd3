"""Stores that know nothing of each other, each given exactly what a test wants it to have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from tests.pipeline.archive.support import here
from tests.pipeline.group import Group, until
from tests.store.support import Client, batch

from quorate.pipeline.audit.verdict import AuditReport
from quorate.pipeline.jobs.audit import audit
from quorate.pipeline.stores.client import Stores
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.store.storage.rocksdb import RocksStorage
from quorate.v1 import messages_pb2 as v1

NAMES = ("s0", "s1", "s2")
POLICY = Policy.majority_of(NAMES)
NOWHERE = tuple((name, f"127.0.0.1:{number}") for number, name in enumerate(NAMES, 1))
"""Where the source says that its stores are: they can not repair what a test wants them to lack."""
MEMBERSHIP = Membership((POLICY,), (POLICY,), NOWHERE)
FIRST = Lineage((Term(1, 0),))
SECOND = Lineage((Term(1, 0), Term(2, 50)))

Item = bytes | tuple[int, int]
"""A batch, or a range that the source no longer has."""


class Strangers(Group):
    """A group whose stores never ask each other for anything."""

    def _peers(self, address: str) -> list[str]:
        del address
        return []

    def give(
        self,
        number: int,
        source: SourceName,
        items: Iterable[Item],
        stable_upto: int,
        lineage: Lineage = FIRST,
    ) -> None:
        """Have a store take these from the source, and be told what is stable."""
        asyncio.run(_give(self.addresses[number], source, list(items), stable_upto, lineage))
        until(
            f"store {number} has heard what is stable of {source}",
            lambda: (
                Stores([self.addresses[number]]).sources().sources[source].stable_upto
                >= stable_upto
            ),
        )

    def storage(self, number: int) -> RocksStorage:
        """What a store has on its disk, which must not run."""
        assert number not in self._processes
        return RocksStorage(self.directory / f"s{number}" / "rocksdb")

    def audited(self, topic: str, *, thorough: bool = False) -> AuditReport:
        return audit(here, self.addresses, selects=lambda each: each == topic, thorough=thorough)


async def _give(
    address: str, source: SourceName, items: list[Item], stable_upto: int, lineage: Lineage
) -> None:
    async with Client(address) as client:
        epoch = lineage.epoch
        await client.promise(epoch, source=source)
        await client.begin(lineage, source, membership=MEMBERSHIP)
        stream = await client.open(epoch, source=source, stable_upto=stable_upto)
        last = -1
        for item in items:
            if isinstance(item, bytes):
                last = read_header(item).last
                await stream.batch(item, stable_upto)
            else:
                skip = v1.Skip(first=item[0], last=item[1])
                await stream.send(v1.Frame(skip=skip, stable_upto=stable_upto))
        if last >= 0:
            await stream.durable(last)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto))
        await stream.close()


def frames(
    source: SourceName, last: int, step: int, first: int = 0, **fields: object
) -> list[Item]:
    """Batches of `step` messages each."""
    return [
        batch(at, min(at + step - 1, last), source=source, **fields)  # type: ignore[arg-type]
        for at in range(first, last + 1, step)
    ]


def strangers(directory: Path) -> Strangers:
    made = Strangers(directory)
    made.start()
    return made
