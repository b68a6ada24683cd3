"""The order of changes, and the agendas of tasks."""

from __future__ import annotations

from tests.store.support import ORDERS, TRADES

from quorate.protocol.identity import SourceName
from quorate.store.rules.changes import Agenda, Changes

OTHER = SourceName("other", 0x12)


def test_changes_since_a_moment_come_once_each_in_the_order_of_the_last() -> None:
    changes = Changes()
    for source in (ORDERS, TRADES, OTHER, ORDERS):
        changes.note(source)
    assert changes.since(0) == [TRADES, OTHER, ORDERS]
    assert changes.since(2) == [OTHER, ORDERS]
    assert changes.since(changes.count) == []


def test_a_moment_that_is_too_old_or_never_was_is_not_known() -> None:
    changes = Changes()
    changes.note(ORDERS)
    assert changes.since(2) is None
    changes.note(TRADES)
    changes.forget_all_but({ORDERS})
    assert len(changes) == 1
    assert changes.since(1) is None, "the change of the other source is forgotten"
    assert changes.since(2) == []


def test_a_source_is_due_once_for_all_its_changes() -> None:
    changes = Changes()
    agenda = Agenda(changes, [OTHER])
    assert list(agenda.due(0.0)) == [OTHER]
    assert not list(agenda.due(1.0))
    for source in (ORDERS, TRADES, ORDERS):
        changes.note(source)
    assert list(agenda.due(2.0)) == [TRADES, ORDERS]
    assert not list(agenda.due(3.0))


def test_a_source_is_due_at_the_earliest_of_its_times() -> None:
    agenda = Agenda(Changes())
    for at in (5.0, 3.0, 4.0):
        agenda.again(ORDERS, at)
    assert not list(agenda.due(2.9))
    assert list(agenda.due(3.0)) == [ORDERS]
    assert not list(agenda.due(9.0)), "the later times no longer count"


def test_a_change_takes_the_place_of_the_time() -> None:
    changes = Changes()
    agenda = Agenda(changes)
    agenda.again(ORDERS, 5.0)
    changes.note(ORDERS)
    assert list(agenda.due(1.0)) == [ORDERS]
    agenda.again(ORDERS, 8.0)
    assert not list(agenda.due(5.0))
    assert list(agenda.due(8.0)) == [ORDERS]


def test_sources_that_were_not_taken_stay_due() -> None:
    agenda = Agenda(Changes(), [ORDERS, TRADES])
    assert next(agenda.due(0.0)) == ORDERS
    agenda.owe([OTHER])
    assert list(agenda.due(0.0)) == [TRADES, OTHER]


def test_a_source_that_becomes_due_meanwhile_is_due_the_next_time() -> None:
    agenda = Agenda(Changes(), [ORDERS])
    for source in agenda.due(0.0):
        agenda.again(source, 0.0)
    assert list(agenda.due(0.0)) == [ORDERS]


def test_an_agenda_that_looks_rarely_is_owed_all_that_is_left_after_changes_were_forgotten() -> (
    None
):
    changes = Changes()
    agenda = Agenda(changes)
    changes.note(ORDERS)
    changes.note(TRADES)
    changes.forget_all_but({ORDERS})
    assert list(agenda.due(0.0)) == [ORDERS]
