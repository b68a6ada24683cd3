"""Records all transcripts anew: what changes is to be reviewed as a diff."""

from __future__ import annotations

import logging
from pathlib import Path

from tests.transcripts.recorded import INDEX, STORIES, index, path_of, played
from tests.transcripts.scenarios import SCENARIOS


def _record(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(f"{path.name}: recorded")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # Stores complain of what happens to them.
    STORIES.mkdir(exist_ok=True)
    for stale in {*STORIES.glob("*.txt")} - {path_of(scenario) for scenario in SCENARIOS}:
        stale.unlink()
        print(f"{stale.name}: removed")
    for scenario in SCENARIOS:
        _record(path_of(scenario), played(scenario))
    _record(INDEX, index())
