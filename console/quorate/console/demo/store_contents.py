"""The contents of a stopped store's disk, read without a store running."""

from __future__ import annotations

from pathlib import Path

from quorate.console.demo.records import digest
from quorate.console.demo.verify_store import Contents
from quorate.protocol.framing import read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.store.offline import OfflineStore


def read_store(directory: Path) -> dict[SourceName, Contents]:
    """Return the store's messages of every source. Each batch is checked as it is read.

    Raises DataDirectoryInUse and other errors of a data directory.
    """
    with OfflineStore(directory) as store:
        return {
            source.name: _read(store, source.name, Contents(source.lineage))
            for source in store.sources()
        }


def _read(store: OfflineStore, name: SourceName, contents: Contents) -> Contents:
    for batch in store.batches(name):
        if batch.problem:
            contents.corrupt.append(f"{name} {batch.part}: {batch.problem}")
            continue
        header = read_header(batch.frame)
        payloads = read_payloads(batch.frame, header)
        if header.source != name or contents.lineage.epoch_at(batch.part.first) != header.epoch:
            contents.corrupt.append(
                f"{name} {batch.part}: a batch of {header.source} in epoch {header.epoch}"
            )
        contents.messages += (
            (sequence, digest(payloads[sequence - header.first]))
            for sequence in range(batch.part.first, batch.part.last + 1)
        )
    return contents
