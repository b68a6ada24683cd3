"""Records all transcripts anew: what changes is to be reviewed as a diff."""

from __future__ import annotations

from tests.transcripts.recorded import STORIES, path_of, played
from tests.transcripts.scenarios import SCENARIOS

if __name__ == "__main__":
    STORIES.mkdir(exist_ok=True)
    for stale in {*STORIES.glob("*.txt")} - {path_of(scenario) for scenario in SCENARIOS}:
        stale.unlink()
        print(f"{stale.name}: removed")
    for scenario in SCENARIOS:
        path, transcript = path_of(scenario), played(scenario)
        if not path.exists() or path.read_text() != transcript:
            path.write_text(transcript)
            print(f"{path.name}: recorded")
