"""The verdict on a receiver: its records compared with the input.

Every duplicate needs a reason: the receiver was killed before it acknowledged the message, or the
source before the message was stable. A duplicate without one is a problem, like a message that is
missing, altered or out of order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quorate.console.demo.facts import Facts, Kill
from quorate.console.demo.records import Record, read_records, run_files
from quorate.console.demo.verdict import ReceiverVerdict

RECEIVER_RESTART = "after its restart"
SOURCE_RESTART = "after the source's restart"

Expected = Mapping[str, Sequence[str]]
"""The digest of each message by topic; its place is its sequence number."""


@dataclass(slots=True)
class _Topic:
    """The progress of a receiver in one topic."""

    upto: int = -1
    before: Record | None = None
    """The record before this one in the same life."""
    handed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The life and the epoch of the last handover, by sequence number."""


class ReceiverVerifier:
    """The comparison of one receiver's records, in the order in which they were written."""

    def __init__(self, name: str, expected: Expected, facts: Facts) -> None:
        self.verdict = ReceiverVerdict(name)
        self._name = name
        self._expected = expected
        self._facts = facts
        self._topics = {topic: _Topic() for topic in expected}
        self._ends: dict[int, Kill] = {
            kill.run: kill for kill in facts.kills if kill.victim == name
        }

    def verify(self, directory: Path) -> ReceiverVerdict:
        """Return the verdict on all lives of the receiver."""
        files = run_files(directory, self._name)
        self.verdict.runs = len(files)
        if len(files) != len(self._ends) + 1:
            self._problem(f"{len(files)} files of records for {len(self._ends) + 1} lives")
        for run, path in enumerate(files, start=1):
            records, rest = read_records(path)
            if rest and run not in self._ends:
                self._problem(f"its last record is cut short though it was not killed: {rest!r}")
            self._take_life(run, records)
        for topic, state in self._topics.items():
            if state.upto + 1 < len(self._expected[topic]):
                self._problem(
                    f"it was handed {topic} up to {state.upto} only, "
                    f"of {len(self._expected[topic]) - 1}"
                )
        self.verdict.distinct = sum(len(state.handed) for state in self._topics.values())
        return self.verdict

    def _take_life(self, run: int, records: list[Record]) -> None:
        for state in self._topics.values():
            state.before = None
        for record in records:
            self.verdict.records += 1
            self.verdict.retransmitted += record.retransmitted
            if not self._is_expected(record):
                continue
            state = self._topics[record.topic]
            self._check_order(record, state)
            if record.sequence in state.handed:
                self._explain(run, record, state.handed[record.sequence])
            state.handed[record.sequence] = (run, record.epoch)
            state.before = record
            state.upto = max(state.upto, record.sequence)

    def _is_expected(self, record: Record) -> bool:
        expected = self._expected.get(record.topic, ())
        if record.session_id != self._facts.source_session_id or not (
            0 <= record.sequence < len(expected)
        ):
            self._problem(f"{_name(record)} was never published")
            return False
        if record.digest != expected[record.sequence]:
            self._problem(f"{_name(record)} has other content than the input")
        return True

    def _check_order(self, record: Record, state: _Topic) -> None:
        due = state.upto + 1 if state.before is None else state.before.sequence + 1
        if record.sequence > due:
            self._problem(f"{_name(record)} was handed when {due} was due")
        elif state.before and record.sequence < due and record.epoch <= state.before.epoch:
            self._problem(
                f"{_name(record)} was handed after {state.before.sequence}, "
                "and no new epoch of the source explains it"
            )

    def _explain(self, run: int, record: Record, earlier: tuple[int, int]) -> None:
        """Find the reason of a duplicate, by the positions when its process was killed."""
        earlier_run, earlier_epoch = earlier
        if earlier_run < run:
            acknowledged = self._ends[run - 1].acknowledged if run - 1 in self._ends else None
            why, known = RECEIVER_RESTART, "acknowledged"
        else:
            kills = [
                kill
                for kill in self._facts.kills
                if kill.victim == "source"
                and kill.time_ns <= record.time_ns
                and record.epoch > earlier_epoch
            ]
            acknowledged = kills[-1].stable_upto if kills else None
            why, known = SOURCE_RESTART, "stable"
        if acknowledged is None:
            self._problem(f"{_name(record)} was handed twice, and nothing explains it")
        elif record.sequence <= acknowledged.get(record.topic, -1):
            self._problem(
                f"{_name(record)} was handed again {why}, "
                f"though {acknowledged[record.topic]} was {known} by then"
            )
        else:
            self.verdict.duplicates[why] += 1

    def _problem(self, text: str) -> None:
        self.verdict.problems.add(f"{self._name}: {text}")


def _name(record: Record) -> str:
    return f"{record.topic}/{record.session_id:#x} {record.sequence}"
