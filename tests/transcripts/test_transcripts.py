"""Each scenario goes as its transcript says; `make transcripts` records them anew on purpose."""

from __future__ import annotations

import pytest
from tests.transcripts.recorded import STORIES, path_of, played
from tests.transcripts.scenarios import SCENARIOS

COMPLAINTS = {
    "two_wiped_stores_of_three_stall": "in limbo as a whole",
    "operator_accepts_a_loss": "in limbo as a whole|no peer could give it|is lost",
    "directory_put_back_from_a_copy": "enters limbo: .* it was put back from a copy",
    "restart_with_divergent_tails": "epoch 2 of .* set [0-9]+ messages aside",
    "batch_that_straddles_what_is_kept": "epoch 2 of .* set [0-9]+ messages aside",
    "old_source_makes_nothing_stable": "epoch 2 of .* set [0-9]+ messages aside",
}
"""Lines of the log that belong to a scenario."""


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(name, marks=[pytest.mark.expects_log(COMPLAINTS[name])])
        if name in COMPLAINTS
        else name
        for name in SCENARIOS
    ],
)
def test_the_scenario_goes_as_recorded(scenario: str) -> None:
    transcript = played(scenario)
    assert transcript == path_of(scenario).read_text(), "make transcripts, and review the diff"


def test_there_is_no_transcript_without_a_scenario() -> None:
    assert {path.stem for path in STORIES.glob("*.txt")} == set(SCENARIOS)
