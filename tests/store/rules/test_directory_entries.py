"""What stores tell each other of sources: who lives, where, and who answers for it."""

from __future__ import annotations

from dataclasses import replace

from tests.begun import rebegun
from tests.store.support import FIRST_LINEAGE, ORDERS

from quorate.protocol.begin import BeginRecord
from quorate.store.rules.directory_entries import (
    Claim,
    Elsewhere,
    merged,
    proxy_among,
)
from quorate.store.rules.peer_knowledge import (
    PeerAnswer,
    SourceKnowledge,
)
from quorate.v1 import messages_pb2 as v1


def saying(known: SourceKnowledge) -> PeerAnswer:
    return PeerAnswer("s2", "s2:1", b"s2", sources={ORDERS: known})


def claim(epoch: int = 1, version: int = 1, *, live: bool = False, proxy: bool = False) -> Claim:
    stores = [v1.StoreEntry(name="b:7301", address="b:1")]
    information = v1.SourceInformation(epoch=epoch, version=version, stores=stores)
    return Claim("b:1" if proxy else "a:1", information, live, proxy)


def test_the_newest_information_wins_and_it_lives_if_it_does_anywhere() -> None:
    assert merged({}, "a") is None
    entry = merged({"a": claim(), "b": claim(version=2), "c": claim(live=True)}, "a")
    assert entry is not None
    assert (entry.information.version, entry.live) == (2, True)
    entry = merged({"a": claim(epoch=2), "b": claim(version=9, live=True)}, "a")
    assert entry is not None
    assert (entry.information.epoch, entry.live) == (2, False), "a live older epoch is fenced"


def test_the_proxy_is_named_unless_the_source_lives() -> None:
    c = replace(claim(proxy=True), address="c:1")
    away = {"b": claim(proxy=True), "c": c, "a": claim()}
    assert proxy_among(away, "d") == "b:7301", "the first, as its policies call it"
    assert proxy_among(away, "c") == "c", "a store that knows the source speaks for itself"
    assert proxy_among(away, "a") == ""
    assert proxy_among(away | {"a": claim(live=True)}, "c") == ""
    assert proxy_among(away | {"a": claim(epoch=2)}, "c") == "", "the newest information counts"
    entry = merged(away, "d")
    assert entry is not None
    assert entry.proxy == "b:7301"


def test_only_what_changed_is_told_and_ended_ones_are_not_listed() -> None:
    elsewhere = Elsewhere()
    information = v1.SourceInformation(epoch=1)
    known = SourceKnowledge(1, b"a", BeginRecord(FIRST_LINEAGE), information=information)
    assert elsewhere.hear([saying(known)], [ORDERS]) == [ORDERS]
    assert elsewhere.hear([saying(known)], [ORDERS]) == []
    assert elsewhere.hear([saying(replace(known, live=True))], [ORDERS]) == [ORDERS]
    assert elsewhere.hear([saying(rebegun(known, generation=1))], [ORDERS]) == [ORDERS]
    assert not elsewhere.sources
