"""The verdict on a run: counts, problems in words, and their form for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

PROBLEMS_SHOWN = 10


@dataclass(slots=True)
class Problems:
    """Problems of one kind of evidence: the first few in words, the rest counted."""

    shown: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, text: str) -> None:
        """Add one problem in words."""
        self.count += 1
        if len(self.shown) < PROBLEMS_SHOWN:
            self.shown.append(text)


@dataclass(slots=True)
class ReceiverVerdict:
    """One receiver against the input."""

    name: str
    problems: Problems = field(default_factory=Problems)
    runs: int = 0
    records: int = 0
    distinct: int = 0
    """Different messages that it was handed."""
    retransmitted: int = 0
    duplicates: Counter[str] = field(default_factory=Counter)
    """Duplicates by their reason."""

    def row(self) -> dict[str, Any]:
        """Return the row of a table for people."""
        return {
            "receiver": self.name,
            "lives": self.runs,
            "messages": self.distinct,
            "from the stores": self.retransmitted,
            "duplicates": self.records - self.distinct,
            "why": ", ".join(f"{count:,} {why}" for why, count in self.duplicates.items()) or "-",
            "verdict": _word(self.problems),
        }


@dataclass(slots=True)
class StoreVerdict:
    """One store against the input."""

    name: str
    problems: Problems = field(default_factory=Problems)
    messages: int = 0
    epochs: int = 0
    """Epochs of the source in this store's lineages, summed over the topics."""

    def row(self) -> dict[str, Any]:
        """Return the row of a table for people."""
        return {
            "store": self.name,
            "messages": self.messages,
            "epochs": self.epochs,
            "verdict": _word(self.problems),
        }


@dataclass(slots=True)
class RunVerdict:
    """The verdict on a whole run."""

    expected: int
    receivers: list[ReceiverVerdict] = field(default_factory=list)
    stores: list[StoreVerdict] = field(default_factory=list)
    run: Problems = field(default_factory=Problems)
    """Problems of the run itself: a kill that did not happen, a process that failed."""
    kills: list[dict[str, Any]] = field(default_factory=list)

    @property
    def all_problems(self) -> list[Problems]:
        """The problems of the run, the receivers and the stores."""
        return [
            self.run,
            *(receiver.problems for receiver in self.receivers),
            *(store.problems for store in self.stores),
        ]

    @property
    def good(self) -> bool:
        """Whether there is no problem."""
        return not any(problems.count for problems in self.all_problems)

    def words(self) -> list[str]:
        """Return every problem that is shown, with the number of others."""
        lines: list[str] = []
        for problems in self.all_problems:
            lines += problems.shown
            if problems.count > len(problems.shown):
                lines.append(f"… and {problems.count - len(problems.shown):,} more like these")
        return lines

    def line(self) -> str:
        """Return the verdict in one line."""
        if not self.good:
            count = sum(problems.count for problems in self.all_problems)
            return f"FAILED: {count:,} problem{'s' if count != 1 else ''} found."
        duplicates = sum(receiver.records - receiver.distinct for receiver in self.receivers)
        return (
            f"VERIFIED: {self.expected:,} messages, {len(self.kills)} processes killed in "
            f"mid-stream. {len(self.receivers)} receivers: none lost, none out of order, none "
            f"altered ({duplicates:,} handed twice, each explained). {len(self.stores)} stores "
            "agree message by message with the input."
        )


def _word(problems: Problems) -> str:
    return f"{problems.count:,} problems" if problems.count else "complete, in order, unaltered"
