"""Findings about stores side by side: clocks, versions, settings, identities and lineages.

Pure. The stores find conflicts of content themselves: quorate.console.group.rules.conflict_status.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from quorate.console.group.rules.findings import Bounds, Finding, Kind, Severity
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.wire import lineage_from_wire
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY
from quorate.v1.store_pb2 import SourceStatus, StatusResponse

NOT_SET = "null"
"""The value that a store reports for a setting that its configuration leaves out."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Bounds on the difference between a store's clock and that of the command, in ns."""

    low_ns: int
    high_ns: int

    @staticmethod
    def read(shown_ns: int, asked_ns: int, answered_ns: int) -> Clock:
        """Return the bounds for a clock that was read between a question and its answer."""
        return Clock(shown_ns - answered_ns, shown_ns - asked_ns)

    def seconds_apart(self, other: Clock) -> float:
        """Return the seconds that the two clocks are apart at least."""
        return max(0, self.low_ns - other.high_ns, other.low_ns - self.high_ns) / 1e9


def clocks_apart(clocks: Mapping[str, Clock], bounds: Bounds) -> Iterator[Finding]:
    """Yield the two stores whose clocks are furthest apart, if that is too much."""
    apart, one, other = max(
        (
            (first.seconds_apart(second), a, b)
            for (a, first), (b, second) in combinations(sorted(clocks.items()), 2)
        ),
        default=(0.0, "", ""),
    )
    if apart > bounds.clock_seconds:
        yield Finding(
            Severity.WARNING, Kind.CLOCK, "",
            f"The clocks of the stores {one} and {other} are {apart:,.1f} s apart.",
            "Retention by age, expiry, and replays from a time differ between the stores. No "
            "message is lost by that.",
            "Let the hosts take their time from one server (NTP).",
        )  # fmt: skip


def same_store_twice(answers: Sequence[StatusResponse]) -> Iterator[Finding]:
    """Yield whether two addresses answer as one store."""
    names = {answer.store_name for answer in answers}
    incarnations = {answer.incarnation for answer in answers}
    if min(len(names), len(incarnations)) < len(answers):
        yield Finding(
            Severity.CRITICAL, Kind.SAME_STORE, "",
            "Two addresses answer as one store: they have the same name or the same incarnation.",
            "One store counts twice, or a copy of its directory runs. A quorum may not be one.",
            "Name each store once. Stop the copy, and give each store a name and a directory of "
            "its own.",
        )  # fmt: skip


def versions_differ(answers: Sequence[StatusResponse]) -> Iterator[Finding]:
    """Yield whether the stores run different versions."""
    if len({answer.version for answer in answers}) > 1:
        shown = ", ".join(f"{answer.store_name} {answer.version}" for answer in answers)
        yield Finding(
            Severity.WARNING, Kind.VERSION, "",
            f"The stores run different versions: {shown}.",
            "That is so during an upgrade, and should be so for no longer.",
            "Complete the upgrade, one store at a time.",
        )  # fmt: skip


def settings_differ(answers: Sequence[StatusResponse]) -> Iterator[Finding]:
    """Yield each setting that differs. Stores that keep state only may have others."""
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        if answer.durability != DURABILITY_STATE_ONLY:
            for name, value in sorted(answer.shared_settings.items()):
                values[name][value].append(answer.store_name)
    for name, stores_by_value in values.items():
        if len(stores_by_value) > 1:
            shown = "; ".join(
                f"{'not set' if value == NOT_SET else value} at {', '.join(stores)}"
                for value, stores in stores_by_value.items()
            )
            yield Finding(
                Severity.WARNING, Kind.CONFIGURATION, "",
                f"The stores are configured differently: {name} is {shown}.",
                "One store keeps, refuses or permits what another one does not.",
                f"Give `{name}` one value in the configuration of all stores.",
            )  # fmt: skip


def lineages_differ(name: SourceName, at: Mapping[str, SourceStatus]) -> Iterator[Finding]:
    """Yield whether stores that have begun one epoch name different epochs for a number.

    at: the status of the source at each store.
    """
    found: dict[int, tuple[str, Lineage]] = {}
    for store, source in at.items():
        lineage = lineage_from_wire(source.begun.lineage)
        if not lineage.terms:
            continue
        one, seen = found.setdefault(lineage.epoch, (store, lineage))
        if seen != lineage:
            yield Finding(
                Severity.CRITICAL, Kind.LINEAGES, str(name),
                f"Stores {one} and {store} name different epochs for the messages of {name} from "
                f"{diverges_at(seen, lineage)} on, though both have begun epoch "
                f"{lineage.epoch}.",
                "The stores disagree on which messages belong to the stream. That must not be.",
                f"Stop the source. Run `quorate audit --topic {name.topic}`, keep its output, and "
                "report it.",
            )  # fmt: skip
            return
