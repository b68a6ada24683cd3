"""Whether a store was stopped cleanly, and what a host that went down meanwhile has lost.

While a store runs its directory has the file `running`: on which boot of the host it was begun, and
how durable its topics were. It is removed once a clean stop has synced everything. What was in the
page cache outlives the process, but not the host; what was in memory outlives neither.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from quorate.protocol.errors import DataDirectoryCorrupt
from quorate.store.storage.data_directory import sync_directory

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

REASON = (
    "its host went down, or its disk failed, while messages were only in the page cache "
    "(durability = os)"
)
MEMORY_REASON = (
    "it was not stopped cleanly while messages were only in its memory (durability = memory)"
)


@dataclass(frozen=True, slots=True)
class Run:
    """How a store ran."""

    boot: str
    """Of the host; empty if it can not be told, or if what it cached may be gone already."""
    durability: str
    """Of topics that no pattern matches: `fsync`, `os`, `memory` or `state-only`."""
    topics: tuple[tuple[str, str], ...] = ()
    """Patterns, in order, and how durable such topics were."""

    def durability_of(self, topic: str) -> str:
        """Where what was acknowledged of a topic was."""
        for pattern, durability in self.topics:
            if re.fullmatch(pattern, topic):
                return durability
        return self.durability

    def may_have_lost(self, topic: str, boot: str) -> str:
        """Why something of a topic may be gone, now that the host has this boot; empty: it is not.

        The run did not end cleanly.
        """
        match self.durability_of(topic):
            case "fsync" | "state-only":
                return ""
            case "memory":
                return MEMORY_REASON
            case _:
                return REASON if self.boot != boot or not boot else ""


def boot_id() -> str:
    """Of the host as it runs now; empty if it can not be told."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def left_over(directory: Path) -> Run | None:
    """The run that did not end cleanly; None if it did. Raises DataDirectoryCorrupt."""
    try:
        fields = json.loads((directory / "running").read_text())
        topics = tuple((str(pattern), str(durability)) for pattern, durability in fields["topics"])
        return Run(str(fields["boot"]), str(fields["durability"]), topics)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataDirectoryCorrupt(str(directory), f"running can not be read: {error!r}") from None


def begin(directory: Path, run: Run) -> None:
    """Note how the store runs from now on; durable when it returns. Raises OSError."""
    new = directory / "running.new"
    with new.open("w") as file:
        file.write(json.dumps(asdict(run)) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(directory / "running")
    sync_directory(directory)


def end(directory: Path) -> None:
    """Note that the store stopped cleanly: everything is on the disk. Raises OSError."""
    (directory / "running").unlink(missing_ok=True)
