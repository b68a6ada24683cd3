"""Everything that `quorate check` finds: for each finding answers with it, and answers without."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.console.group.test_status import POLICY, group, grouped, source, store

from quorate.console.group.rules.agreement import Clock
from quorate.console.group.rules.assessment import Look, assess
from quorate.console.group.rules.findings import (
    Bounds,
    Finding,
    Kind,
    Severity,
    is_healthy,
    worst_first,
)
from quorate.console.group.rules.source_findings import Tails, tails
from quorate.console.group.rules.source_status import views_of
from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import (
    AccessDenied,
    QuorateError,
    StorageFailed,
    StoreStopping,
    TlsFailed,
    Unreachable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.wire import begin_to_wire
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY, HeldRange
from quorate.v1.store_pb2 import (
    POISON_MARKED,
    POISON_REMOVED,
    Conflict,
    LossRecord,
    PeerStatus,
    SourceStatus,
    StatusResponse,
    SubscriptionStatus,
)

ORDERS = SourceName("orders", 0x10)
DAY = 86_400


def look(*answers: StatusResponse | QuorateError) -> Look:
    return Look(group(*answers), {}, {})


def found(
    *answers: StatusResponse | QuorateError,
    bounds: Bounds | None = None,
    earlier: Tails | None = None,
) -> list[Finding]:
    return assess(look(*answers), bounds or Bounds(), earlier or {})


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    assert finding.what
    assert finding.means.endswith(".")
    assert finding.next.endswith(".")
    return finding


def pair(**fields: object) -> tuple[StatusResponse, StatusResponse]:
    """Two stores that agree; the second one has these fields of its own."""
    one, other = store("a", source(99)), store("b", source(99))
    other.MergeFrom(StatusResponse(**fields))  # type: ignore[arg-type]
    return one, other


def test_nothing_is_wrong_with_stores_that_agree() -> None:
    assert found(*pair()) == []
    assert is_healthy([])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unreachable("host:1", "refused"), Kind.UNREACHABLE),
        (StoreStopping("b"), Kind.UNREACHABLE),
        (StorageFailed("/data/b", "the disk is full"), Kind.WRITE_ERROR),
        (AccessDenied("ada", "operate", ""), Kind.REFUSED),
        (TlsFailed("host:1", "the certificate has ended"), Kind.REFUSED),
    ],
)
def test_a_store_that_gives_no_status(error: QuorateError, kind: Kind) -> None:
    finding = only(found(store("a", source(99)), error))
    assert (finding.severity, finding.kind, finding.subject) == (Severity.CRITICAL, kind, "s1")
    assert finding.what.startswith("Store s1 at host:1 gives no status: ")
    assert ".." not in finding.what


def test_a_store_in_limbo() -> None:
    one, other = pair(limbo=True, limbo_reason="it waits for c")
    finding = only(found(one, other))
    assert finding.kind is Kind.LIMBO
    assert "store readmit b" in finding.next
    one, other = pair()
    other.sources[0].limbo = True
    other.sources[0].limbo_reason = "it waits for c"
    assert only(found(one, other)).subject == "orders/0x10"


def test_messages_that_lack_or_cannot_be_read() -> None:
    holed = source(99, holes=(HeldRange(first=3, last=5),))
    finding = only(found(store("a", source(99)), store("b", holed)))
    assert (finding.kind, finding.severity) == (Kind.HOLE, Severity.WARNING)
    assert "`quorate repair`" in finding.next
    nowhere = SourceStatus()
    nowhere.CopyFrom(source(99))
    del nowhere.held[:]
    nowhere.held.extend([HeldRange(first=0, last=2), HeldRange(first=6, last=99)])
    nowhere.unreadable.append(HeldRange(first=3, last=5))
    finding = only(found(store("a", nowhere)))
    assert (finding.kind, finding.severity) == (Kind.UNREADABLE, Severity.CRITICAL)
    assert "`quorate loss accept 3-5" in finding.next


def test_a_store_that_is_behind() -> None:
    behind = store("a", source(99)), store("b", source(89))
    assert found(*behind) == []
    finding = only(found(*behind, bounds=Bounds(lag_max=9)))
    assert finding.kind is Kind.LAG
    assert "Store b is 10 stable messages behind in orders/0x10." in finding.what


def test_a_disk_that_is_nearly_full_and_one_that_gives_no_space_back() -> None:
    one, other = pair(disk_free_bytes=99 << 20, disk_free_warning_bytes=100 << 20)
    assert only(found(one, other)).kind is Kind.DISK
    other.disk_free_bytes = 100 << 20
    assert found(one, other) == []
    other.retention.held_up = "the row of 7 cannot be read."
    assert only(found(one, other)).kind is Kind.RETENTION


def test_a_source_without_a_quorum_streams_to_too_few_stores() -> None:
    stores = [store(f"node{number}", grouped(99, POLICY)) for number in range(4)]
    assert found(*stores) == []
    for each in stores[1:3]:
        each.sources[0].live = False
    finding = only(found(*stores))
    assert (finding.kind, finding.severity) == (Kind.NO_QUORUM, Severity.CRITICAL)
    assert "it streams to a, d" in finding.what
    for each in stores:
        each.sources[0].live = False
    assert found(*stores) == [], "a source that is away needs no quorum"


def test_stable_messages_on_too_few_stores() -> None:
    uptos = (99, 99, 99, 5)
    stores = [store(f"node{n}", grouped(upto, POLICY)) for n, upto in enumerate(uptos)]
    assert only(found(*stores)).kind is Kind.POLICY


def test_a_tail_that_does_not_move() -> None:
    answers = store("a", source(120)), store("b", source(120))
    earlier = tails(look(*answers).views())
    assert earlier == {ORDERS: 99}
    finding = only(found(*answers, earlier=earlier))
    assert (finding.kind, finding.severity) == (Kind.TAIL, Severity.CRITICAL)
    assert "21 messages wait" in finding.what
    assert found(*answers, earlier={ORDERS: 98}) == [], "a part of it became stable"
    assert found(*answers) == [], "the tail is new"
    assert tails(look(*pair()).views()) == {}


def test_what_has_just_become_stable_may_not_be_in_each_answer() -> None:
    uptos = (199, 150, 150, 199)
    stores = [store(f"node{number}", grouped(upto, POLICY)) for number, upto in enumerate(uptos)]
    stores[0].sources[0].stable_upto = 199
    kinds = [each.kind for each in found(*stores)]
    assert kinds == [Kind.POLICY]
    assert found(*stores, earlier={ORDERS: 150}) == []
    assert [each.kind for each in found(*stores, earlier={ORDERS: 151})] == [Kind.POLICY]


def test_stores_without_messages_leave_no_tail() -> None:
    empty = source(-1)
    empty.live = False
    assert views_of(group(store("a", empty)))[0].tail == 0


def test_the_tail_of_a_source_that_is_away() -> None:
    answers = store("a", source(120)), store("b", source(120))
    for each in answers:
        each.sources[0].live = False
    finding = only(found(*answers))
    assert (finding.kind, finding.severity) == (Kind.TAIL, Severity.WARNING)
    assert "its last 21 messages" in finding.what


def test_a_receiver_that_is_far_behind() -> None:
    finding = only(found(*pair(), bounds=Bounds(receiver_lag_max=9)))
    assert finding.kind is Kind.RECEIVER
    assert "Receiver 0x20 is 10 messages behind in orders/0x10." in finding.what
    assert "`quorate deregister --source orders/0x10 --receiver 0x20`" in finding.next
    assert found(*pair(), bounds=Bounds(receiver_lag_max=10)) == []


def released(*retained_from: int) -> list[StatusResponse]:
    """Stores that let go of what is below a number; receiver 0x20 has acknowledged up to 89."""
    answers = [store(f"node{n}", source(99)) for n in range(len(retained_from))]
    for answer, first in zip(answers, retained_from, strict=True):
        answer.sources[0].retained_from = first
        answer.sources[0].held[0].first = first
    return answers


def test_a_receiver_of_which_messages_have_gone() -> None:
    finding = only(found(*released(95, 97)))
    assert (finding.kind, finding.severity) == (Kind.RECEIVER, Severity.NOTE)
    assert "[90, 94] of orders/0x10" in finding.what
    assert "receiver 0x20" in finding.what
    assert "`RELEASED`" in finding.means
    assert 'retain_until = ["acknowledged"]' in finding.next


def test_a_receiver_that_can_still_get_all_of_its_messages() -> None:
    assert found(*released(90, 97)) == [], "one store has them"
    assert found(*released(90, 90)) == [], "they were acknowledged"


def test_a_new_receiver_begins_with_what_is_there() -> None:
    answers = released(95, 95)
    for answer in answers:
        answer.sources[0].receivers[0].acknowledged_upto = -1
    assert found(*answers) == []


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("receiver 0x20 has acknowledged up to 5 only", "deregister --source orders/0x10 --rec"),
        ("an archive has it up to 5 only", "`quorate archive`"),
        ("the subscription of ipv4:h:1 has read up to 5 only", "Make the subscriber faster"),
        ("c was not heard yet, and may know more receivers", "See to the cause"),
    ],
)
def test_what_retention_waits_for(reason: str, step: str) -> None:
    one, other = pair()
    for each in (one, other):
        each.sources[0].kept_because = reason
    finding = only(found(one, other))
    assert finding.kind is Kind.HELD
    assert f"at a, b: {reason}." in finding.what
    assert step in finding.next


def test_a_subscriber_that_is_far_behind() -> None:
    slow = SubscriptionStatus(client="ipv4:h:1", topic="orders", behind=11)
    seen = replace(look(*pair()), subscriptions={"a": [slow]})
    finding = only(assess(seen, Bounds(subscriber_lag_max=10), {}))
    assert finding.kind is Kind.SUBSCRIBER
    assert "ipv4:h:1 to orders at store a is 11 messages behind" in finding.what
    assert assess(seen, Bounds(subscriber_lag_max=11), {}) == []


def test_rows_that_are_far_behind() -> None:
    one, other = pair()
    for each in (one, other):
        each.sources[0].rows.upto = each.sources[0].stable_upto
    one.sources[0].rows.upto -= 11
    one.sources[0].rows.behind_seconds = 2.5
    assert found(one, other, bounds=Bounds(row_lag_max=11, row_lag_seconds=2.5)) == []
    for bounds in (Bounds(row_lag_max=10), Bounds(row_lag_seconds=2.4)):
        finding = only(found(one, other, bounds=bounds))
        assert (finding.kind, finding.severity) == (Kind.ROWS_BEHIND, Severity.WARNING)
        assert "rows of orders/0x10 at store a are 11 messages and 2.5 s behind" in finding.what


def test_a_certificate_that_ends_soon() -> None:
    one, other = pair(clock_ns=1_000 * DAY * 10**9, certificate_ends=1_010.0 * DAY)
    finding = only(found(one, other))
    assert (finding.kind, finding.severity) == (Kind.CERTIFICATE, Severity.WARNING)
    assert "ends in 10.0 days, at 1972-10-07" in finding.what
    assert found(one, other, bounds=Bounds(certificate_days=10)) == []
    other.certificate_ends = 999.0 * DAY
    assert only(found(one, other)).severity is Severity.CRITICAL


def test_clocks_that_are_apart() -> None:
    one = Clock.read(10_000_000_000, 9_000_000_000, 11_000_000_000)
    late = Clock.read(13_500_000_000, 9_000_000_000, 11_000_000_000)
    assert one.seconds_apart(late) == late.seconds_apart(one) == 1.5
    seen = replace(look(*pair()), clocks={"a": one, "b": late})
    finding = only(assess(seen, Bounds(), {}))
    assert finding.kind is Kind.CLOCK
    assert "the stores a and b are 1.5 s apart" in finding.what
    assert assess(seen, Bounds(clock_seconds=1.5), {}) == []


def test_versions_and_settings_that_differ() -> None:
    one, other = pair(shared_settings={"retention_bytes": "7"})
    one.shared_settings["retention_bytes"] = "8"
    finding = only(found(one, other))
    assert finding.kind is Kind.CONFIGURATION
    assert "retention_bytes is 8 at a; 7 at b" in finding.what
    one.shared_settings["retention_bytes"] = "null"
    assert "retention_bytes is not set at a; 7 at b" in only(found(one, other)).what
    other.durability = DURABILITY_STATE_ONLY
    assert found(one, other) == []
    one, other = pair(version="2")
    one.version = "1"
    finding = only(found(one, other))
    assert finding.kind is Kind.VERSION
    assert "a 1, b 2" in finding.what


def test_one_store_under_two_addresses() -> None:
    assert only(found(store("a"), store("a"))).kind is Kind.SAME_STORE


def test_stores_that_disagree_on_lineages() -> None:
    one, other = pair()
    for each, first in ((one, 50), (other, 60)):
        lineage = Lineage((Term(1, 0), Term(2, first)))
        each.sources[0].begun.CopyFrom(begin_to_wire(BeginRecord(lineage)))
    finding = only(found(one, other))
    assert (finding.kind, finding.severity) == (Kind.LINEAGES, Severity.CRITICAL)
    assert "from 50 on, though both have begun epoch 2" in finding.what
    other.sources[0].begun.lineage.add(epoch=3, first_sequence=70)
    assert found(one, other) == [], "a store that has begun another epoch adopts its lineage"


def test_stores_that_disagree_on_content() -> None:
    one, other = pair()
    one.sources[0].conflicts.append(Conflict(other="b", first=3, last=5))
    finding = only(found(one, other))
    assert (finding.kind, finding.severity) == (Kind.CONFLICT, Severity.CRITICAL)
    assert "`quorate conflict settle --source orders/0x10 --keep a --reason WHY`" in finding.next
    one, other = pair()
    other.repair.divergent = 2
    assert only(found(one, other)).kind is Kind.CONFLICT


def test_a_peer_that_a_store_does_not_reach() -> None:
    peers = [PeerStatus(address="h:1", store_name="a"), PeerStatus(address="h:2", reachable=True)]
    finding = only(found(*pair(peers=peers)))
    assert finding.kind is Kind.PEER
    assert "Store b does not reach its peer a at h:1." in finding.what
    away = PeerStatus(address="host:2", store_name="c")
    findings = found(*pair(peers=[away]), Unreachable("host:2", "refused"))
    assert only(findings).kind is Kind.UNREACHABLE, "that the peer is away, too, is no news"


def test_what_people_should_know_makes_no_group_unhealthy() -> None:
    one, other = pair()
    other.repair.scrub.unreadable = 7
    other.accepted_losses.extend(
        [
            LossRecord(first=-1, last=-1, reason="gone; Bob", time_ns=10**18),
            LossRecord(first=3, last=5, reason="gone; Ada", time_ns=10**18),
            LossRecord(first=3, last=5, reason="right; Ada", time_ns=10**18, kept="a"),
        ]
    )
    findings = found(one, other)
    assert is_healthy(findings)
    assert [each.kind for each in findings] == [Kind.DAMAGE, Kind.LOSS, Kind.LOSS, Kind.LOSS]
    assert [each.what.partition(" (")[0] for each in findings[1:]] == [
        "An operator had store b leave limbo",
        "An operator accepted at store b that [3, 5] of /0x0 is lost",
        "An operator settled a conflict at store b: [3, 5] of /0x0 is as a has it",
    ]


def test_a_mark_of_poison_is_one_note_while_it_counts() -> None:
    marked = LossRecord(first=3, last=5, poison=POISON_MARKED, reason="bad; Ada", time_ns=10**18)
    removed = LossRecord(
        first=5, last=5, poison=POISON_REMOVED, reason="mended; Ada", time_ns=10**18 + 1
    )
    one, other = pair()
    for answer in (one, other):
        for record in (marked, removed):
            added = answer.accepted_losses.add()
            added.CopyFrom(record)
            added.source.CopyFrom(answer.sources[0].information.source)
        answer.sources[0].poisoned.add(first=3, last=4)
    finding = only(found(one, other))
    assert (finding.kind, finding.severity) == (Kind.POISON, Severity.NOTE)
    assert finding.what == (
        "[3, 4] of orders/0x10 is poison at a, b (2001-09-09T01:46:40+00:00; bad; Ada)."
    )
    assert "`quorate poison remove orders/0x10 3-4 --reason WHY`" in finding.next
    for answer in (one, other):
        answer.sources[0].ClearField("poisoned")
    assert found(one, other) == []


def test_calls_that_were_denied_of_late_and_long_ago() -> None:
    finding = only(found(*pair(denied=3, denied_seconds_ago=12.0)))
    assert (finding.kind, finding.severity) == (Kind.DENIED, Severity.WARNING)
    assert "denied 3 calls" in finding.what
    assert only(found(*pair(denied=3, denied_seconds_ago=7200.0))).severity is Severity.NOTE


def test_the_worst_comes_first() -> None:
    answers = (
        store("a", source(120)),
        Unreachable("host:1", "refused"),
        store("c", source(99), limbo=True),
    )
    answers[2].version = "2"
    findings = found(*answers, earlier={ORDERS: 99})
    assert [each.kind for each in findings] == [
        Kind.TAIL, Kind.UNREACHABLE, Kind.LIMBO, Kind.VERSION,
    ]  # fmt: skip
    assert worst_first(reversed(findings)) == findings
    assert not is_healthy(findings)
