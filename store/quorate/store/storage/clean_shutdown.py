"""The trace of an unclean stop, and the topics that may have lost messages by it.

While a store runs its data directory has the file `running`. The file names the boot of the host
and the durability of the topics; a clean stop syncs everything and then removes the file. Messages
in the page cache outlive the process, but not the host. Messages in memory outlive neither. The
limbo that follows is not decided here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from quorate.disk.files import replace_file
from quorate.protocol.errors import DataDirectoryCorrupt
from quorate.protocol.patterns import topic_pattern

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
    """One run of a store: the boot of its host, and the durability of its topics."""

    boot: str
    """The boot ID of the host; empty if it is unknown, or if cached writes may be lost already."""
    durability: str
    """The durability of topics that no pattern matches: `fsync`, `os`, `memory` or `state-only`."""
    topics: tuple[tuple[str, str], ...] = ()
    """Patterns in order, each with the durability of the topics that it matches."""

    def durability_of(self, topic: str) -> str:
        """Return the durability that this topic had."""
        for pattern, durability in self.topics:
            if topic_pattern(pattern).matches(topic):
                return durability
        return self.durability

    def may_have_lost(self, topic: str, boot: str) -> str:
        """Return why messages of a topic may be lost after this unclean run; empty: none is.

        boot: the boot ID of the host as it runs now.
        """
        match self.durability_of(topic):
            case "fsync" | "state-only":
                return ""
            case "memory":
                return MEMORY_REASON
            case _:
                return REASON if self.boot != boot or not boot else ""


def boot_id() -> str:
    """Return the boot ID of the host as it runs now; empty if the host does not tell it."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def left_over(directory: Path) -> Run | None:
    """Return the run that did not end cleanly; None if the last one did.

    Raises DataDirectoryCorrupt.
    """
    try:
        fields = json.loads((directory / "running").read_text())
        topics = tuple((str(pattern), str(durability)) for pattern, durability in fields["topics"])
        return Run(str(fields["boot"]), str(fields["durability"]), topics)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        detail = f"the file 'running' cannot be read: {error!r}"
        raise DataDirectoryCorrupt(str(directory), detail) from None


def begin(directory: Path, run: Run) -> None:
    """Write the file `running`, durable on return. Raises OSError."""
    replace_file(directory / "running", f"{json.dumps(asdict(run))}\n".encode())


def end(directory: Path) -> None:
    """Remove the file `running`; the caller has synced everything. Raises OSError."""
    (directory / "running").unlink(missing_ok=True)
