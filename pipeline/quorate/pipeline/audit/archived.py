"""The copy that an archive has of each source, as facts of an audit beside those of the stores.

The audit reads the archive twice. Messages that it had before the stores were asked must be stable.
Messages that stores have released by their answer must be in it afterwards. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from quorate.archive.reading import Archive
from quorate.archive.rules.source import ArchivedSource
from quorate.pipeline.audit.answers import Answers, ask
from quorate.pipeline.audit.facts import ArchivedCopy, SourceFacts, StoreFacts


def ask_with_archive(
    addresses: Sequence[str], archive: Archive, selects: Callable[[str], bool]
) -> Answers:
    """Return what the stores answer, with the copy of the archive for each source.

    Raises as quorate.pipeline.audit.answers.ask, ArchiveInvalid, ArchiveNewer, ArchiveUnusable.
    """
    before = archive.sources
    answers = ask(addresses, selects)
    archive.refresh()
    after = {name: each for name, each in archive.sources.items() if selects(name.topic)}
    known = {facts.name: facts for facts in answers.sources}
    sources = tuple(
        replace(
            known.get(name) or _unknown(after[name], answers.stores),
            archived=_copy(after.get(name), before.get(name)),
        )
        for name in sorted({*known, *after})
    )
    return Answers(answers.stores, sources)


def _copy(after: ArchivedSource | None, before: ArchivedSource | None) -> ArchivedCopy:
    if after is None:
        return ArchivedCopy()
    told_upto = before.last if before is not None else -1
    return ArchivedCopy(after.lineage, after.first, after.last, told_upto, after.has)


def _unknown(archived: ArchivedSource, stores: Sequence[StoreFacts]) -> SourceFacts:
    """Return the facts of a source that no store knows."""
    unseen: Mapping[str, str] = {
        store.name: store.silence or store.limbo for store in stores if store.silence or store.limbo
    }
    return SourceFacts(archived.name, archived.lineage, -1, {}, unseen=unseen)
