"""What the answers of several stores come to, taken together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests import seams
from tests.pipeline.archive.support import here
from tests.pipeline.group import Group, numbered, until
from tests.store.support import free_addresses
from typer.testing import CliRunner

from quorate.console import main
from quorate.pipeline.jobs.audit import audit
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.stores.client import Stores, _merge, nobody, stub_of
from quorate.pipeline.timeouts import Timeouts
from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import NotAStore, Unreachable, VersionMismatch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import ArchivedPlace, Lineage, Term
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.wire import begin_to_wire, held_to_wire, source_to_wire
from quorate.v1 import store_pb2 as store_v1

ORDERS = SourceName("orders", 0x10)
FORCE = Lineage((Term(7, 0), Term(8, 100)))


def said(
    lineage: Lineage, stable_upto: int, held: RangeSet, **fields: object
) -> store_v1.SourceInventory:
    return store_v1.SourceInventory(
        begun=begin_to_wire(BeginRecord(lineage)),
        stable_upto=stable_upto,
        held=held_to_wire(lineage.parted(held)),
        **fields,  # type: ignore[arg-type]
    )


def test_an_epoch_that_led_nowhere_names_nothing_of_what_is_stable() -> None:
    cut_off = said(Lineage((Term(7, 0), Term(9, 50))), 49, RangeSet([Range(0, 60)]))
    known = _merge(
        ORDERS,
        [
            ("c", cut_off),
            ("a", said(FORCE, 150, RangeSet([Range(0, 170)]), promised_epoch=8, reg_id=3)),
            ("b", said(Lineage((Term(7, 0),)), 80, RangeSet([Range(0, 99)]), promised_epoch=9)),
        ],
    )
    assert (known.lineage, known.stable_upto) == (FORCE, 150)
    assert known.held == RangeSet([Range(0, 150)])
    assert (known.promised_epoch, known.reg_id) == (9, 3)


def test_lost_is_what_an_operator_accepted_and_none_of_them_has() -> None:
    lost = held_to_wire((HeldRange(10, 29, 7),))
    known = _merge(
        ORDERS,
        [
            ("a", said(FORCE, 150, RangeSet([Range(30, 150)]), accepted_losses=lost)),
            ("b", said(FORCE, 150, RangeSet([Range(0, 14)]))),
        ],
    )
    assert known.losses == (HeldRange(15, 29, 7),)


def test_that_nobody_answers_says_each_address_and_each_reason_once() -> None:
    refused = "Connection refused"
    one = str(nobody({"a:1": Unreachable("a:1", refused)}))
    assert one == str(Unreachable("a:1", refused))
    away = {each: Unreachable(each, refused) for each in ("a:1", "b:2")}
    said = str(nobody({**away, "c:3": NotAStore("c:3", "it is a web server")}))
    assert said.startswith("a:1, b:2, c:3 cannot be reached (Connection refused; c:3 answers, but")
    assert said.count("Check that it is running") == said.count(refused) == said.count("a:1") == 1


def test_one_that_speaks_another_version_says_more_than_one_that_is_away() -> None:
    newer = VersionMismatch("b:2", 1, 2)
    assert nobody({"a:1": Unreachable("a:1", "Connection refused"), "b:2": newer}) is newer


def test_stores_of_another_version_are_called_that_wherever_they_are_asked(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = group.publish("versions", numbered(0, 9))
    client = Stores(group.addresses)
    known = client.sources().sources[name]
    for version in (
        seams.PIPELINE_CLIENT_PROTOCOL_VERSION,
        seams.FETCH_ANSWERS_PROTOCOL_VERSION,
        seams.AUDIT_ANSWERS_PROTOCOL_VERSION,
    ):
        version.replace(monkeypatch, PROTOCOL_VERSION + 1)
    asked: list[Callable[[], object]] = [
        client.sources,
        lambda: client.first_since(name, 0),
        lambda: list(client.fetch(name, known.lineage, 0, 9)),
        lambda: audit(here, group.addresses),
    ]
    for ask in asked:
        with pytest.raises(VersionMismatch) as caught:
            ask()
        assert caught.value.address in group.addresses
        assert (caught.value.theirs, caught.value.ours) == (PROTOCOL_VERSION, PROTOCOL_VERSION + 1)
        assert "Upgrade the older" in str(caught.value)
    # For the command it is an error that says what to do, and no store that is away.
    result = CliRunner().invoke(main.app, ["stats", "--stores", group.stores])
    assert "speaks protocol version" in result.stderr
    assert result.exit_code == 1


def test_all_stores_of_a_source_are_told_what_is_archived(group: Group) -> None:
    name = group.publish("told", numbered(0, 99))
    one = Stores(group.addresses[:1])
    assert name in one.sources().sources
    assert one.tell_archived({name: 49}) == {}
    assert one.sources().sources[name].archived_upto == 49
    other = SourceName("unknown", 1)
    asked = [(name, 0), (name, 100), (other, 0)]
    less = store_v1.ArchivedRequest(
        sources=[
            store_v1.ArchivedSource(source=source_to_wire(source), upto=upto)
            for source, upto in asked
        ],
        protocol_version=PROTOCOL_VERSION,
    )
    for address in group.addresses:
        low, high, unknown = stub_of(address).Archived(less).answers
        assert (low.archived_upto, low.refused) == (49, "")
        assert "100 is not known to be stable here" in high.refused
        assert "unknown" in unknown.refused


def place(known: KnownSource) -> ArchivedPlace:
    """All that is stable."""
    return ArchivedPlace(known.stable_upto, known.lineage.epoch)


def test_only_sources_with_news_are_told_to_an_archive(group: Group) -> None:
    name, other = (group.publish("news", numbered(0, 99), session) for session in (1, 2))
    stores = Stores(group.addresses, "news")
    places = {each.name: place(each) for each in stores.sources().sources.values()}
    assert stores.sources_with_news(places).sources.keys() == {name, other}, "nobody was told"
    stores.tell_archived({name: 99, other: 99})
    told = stores.sources_with_news(places)
    assert (told.sources, len(told.answered)) == ({}, 3)
    assert stores.sources_with_news({other: places[other]}).sources.keys() == {name}
    group.publish("news", numbered(100, 109), session_id=1)
    (found,) = stores.sources_with_news(places).sources.values()
    assert (found.name, found.stable_upto, len(found.stores)) == (name, 109, 3)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_sources_of_a_large_archive_are_named_page_by_page(
    group: Group, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    seams.PIPELINE_CLIENT_ARCHIVED_PLACES_MAX.replace(monkeypatch, most)
    topic = f"paged.{most}"
    first, *names, last = (group.publish(topic, numbered(0, 9), session) for session in range(1, 7))
    stores = Stores(group.addresses, topic)
    places = {each.name: place(each) for each in stores.sources().sources.values()}
    stores.tell_archived(dict.fromkeys(places, 9))
    assert stores.sources_with_news(places).sources == {}
    del places[last]
    assert stores.sources_with_news(places).sources.keys() == {last}
    del places[first], places[names[1]]
    found = stores.sources_with_news(places)
    assert found.sources.keys() == {first, names[1], last}
    assert all(len(each.stores) == 3 for each in found.sources.values())
    assert len(stores.sources_with_news({}).sources) == 6


def test_what_one_store_leaves_out_is_asked_for_if_another_one_names_it(group: Group) -> None:
    name, other = (group.publish("differing", numbered(0, 99), session) for session in (1, 2))
    stores = Stores(group.addresses, "differing")
    places = {each.name: place(each) for each in stores.sources().sources.values()}
    stores.tell_archived({other: 99})
    # An object that was never told of the other stores tells only one.
    Stores(group.addresses[:1]).tell_archived({name: 99})
    (found,) = stores.sources_with_news(places).sources.values()
    assert (found.name, len(found.stores), found.archived_upto) == (name, 3, -1)
    assert Stores(group.addresses[:1], "differing").sources_with_news(places).sources == {}


def test_a_store_that_does_not_know_a_source_is_no_store_that_leaves_it_out(group: Group) -> None:
    everywhere = group.publish("known", numbered(0, 99), session_id=1)
    with group.open("known", 2, stores=",".join(group.addresses[:2])) as source:
        source.send_many(numbered(0, 9))
    group.until_stable(everywhere, 99)
    some = source.name
    stores = Stores(group.addresses, "known")
    until("both are stable", lambda: stores.sources().sources[some].stable_upto == 9)
    places = {each.name: place(each) for each in stores.sources().sources.values()}
    stores.tell_archived({everywhere: 99})
    Stores(group.addresses[:2], "known").tell_archived({some: 9})
    assert stores.sources_with_news(places).sources == {}
    before = {**places, some: ArchivedPlace(4, 1)}
    (found,) = stores.sources_with_news(before).sources.values()
    assert (found.name, len(found.stores)) == (some, 2)


def test_stores_have_as_long_to_answer_as_a_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    class Store:
        def Inventory(self, _: object, timeout: float) -> list[store_v1.InventoryResponse]:
            asked.append(timeout)
            return []

    seams.STUB_OF_IN_PIPELINE_CLIENT.replace(monkeypatch, lambda _: Store())
    Stores(["a:1"], timeouts=Timeouts(answer_seconds=0.25)).sources()
    assert asked == [0.25]


def test_everything_is_told_if_a_store_does_not_answer(group: Group) -> None:
    name = group.publish("silence", numbered(0, 9))
    stores = Stores(group.addresses, "silence")
    (known,) = stores.sources().sources.values()
    stores.tell_archived({name: 9})
    (nowhere,) = free_addresses(1)
    told = Stores([*group.addresses, nowhere], "silence").sources_with_news({name: place(known)})
    assert (list(told.sources), list(told.silent)) == ([name], [nowhere])
