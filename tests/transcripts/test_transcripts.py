"""Each story goes as its transcript says; `make transcripts` records them anew on purpose."""

from __future__ import annotations

import pytest
from tests.transcripts.recorded import INDEX, STORIES, index, path_of, played
from tests.transcripts.scenarios import SCENARIOS

pytestmark = pytest.mark.expects_log(".*")  # Stores complain of what happens to them.


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_scenario_goes_as_recorded(scenario: str) -> None:
    transcript = played(scenario)
    assert transcript == path_of(scenario).read_text(), "make transcripts, and review the diff"


def test_the_index_is_as_recorded() -> None:
    assert index() == INDEX.read_text(), "make transcripts"


def test_there_is_no_transcript_without_a_scenario() -> None:
    assert {path.stem for path in STORIES.glob("*.txt")} == set(SCENARIOS)
