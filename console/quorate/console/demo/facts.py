"""The facts of a run, for the verdict: the processes, the kills, and the positions at each kill.

They are written to the demo's directory, so that the verdict on a kept run can be repeated.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from quorate.disk.files import replace_file

_FILE = "facts.json"


@dataclass(slots=True)
class Kill:
    """A process that was ended with kill -9, and the stores' positions right after it."""

    victim: str
    pid: int
    run: int
    """The number of the life of the victim that this ended, from 1."""
    sent: int
    """Messages that the source had sent."""
    stable: int
    time_ns: int
    stable_upto: dict[str, int] = field(default_factory=dict)
    """The highest `stable_upto` that a store knew, by topic."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """The lowest position of a killed receiver among the stores that know it, by topic."""


@dataclass(slots=True)
class Facts:
    """The facts that the verifier needs besides the input, the records and the stores."""

    input: str | None
    source_session_id: int
    receivers: list[str]
    stores: list[str]
    planned: list[str] = field(default_factory=list)
    """Victims that the plan names."""
    kills: list[Kill] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Problems of the run itself."""

    def save(self, directory: Path) -> None:
        """Write the facts to the demo's directory."""
        replace_file(directory / _FILE, json.dumps(asdict(self), indent=2).encode())

    @staticmethod
    def load(directory: Path) -> Facts:
        """Return the facts of a run. Raises OSError or ValueError for another directory."""
        content: dict[str, Any] = json.loads((directory / _FILE).read_text())
        kills = [Kill(**kill) for kill in content.pop("kills")]
        return Facts(**content, kills=kills)
