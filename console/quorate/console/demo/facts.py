"""What the demo noted while it ran, for the verdict: who ran, what was killed, what was known then.

Written to the demo's directory, so that the verdict on a kept run can be repeated.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_FILE = "facts.json"


@dataclass(slots=True)
class Kill:
    """A process that was ended with kill -9, and what the stores said right after it."""

    victim: str
    pid: int
    run: int
    """The victim's how-manieth life this ended; counted from 1."""
    sent: int
    """Messages that the source had sent."""
    stable: int
    time_ns: int
    stable_upto: dict[str, int] = field(default_factory=dict)
    """By topic, the highest that a store knew."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Of a receiver, by topic: the lowest position among the stores that know it."""


@dataclass(slots=True)
class Facts:
    """Everything the verifier needs besides the input, the records and the stores."""

    input: str | None
    source_session_id: int
    receivers: list[str]
    stores: list[str]
    planned: list[str] = field(default_factory=list)
    """Victims that the plan names."""
    kills: list[Kill] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What went wrong in the run itself."""

    def save(self, directory: Path) -> None:
        (directory / _FILE).write_text(json.dumps(asdict(self), indent=2))

    @staticmethod
    def load(directory: Path) -> Facts:
        """Raises OSError or ValueError if this is no directory of a demo."""
        content: dict[str, Any] = json.loads((directory / _FILE).read_text())
        kills = [Kill(**kill) for kill in content.pop("kills")]
        return Facts(**content, kills=kills)
