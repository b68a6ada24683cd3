"""The transcripts as files: one for each scenario, beside this module."""

from __future__ import annotations

import inspect
from pathlib import Path

from tests.transcripts.scenarios import SCENARIOS

STORIES = Path(__file__).parent / "stories"


def path_of(scenario: str) -> Path:
    return STORIES / f"{scenario}.txt"


def played(scenario: str) -> str:
    """Play the scenario; returns its whole transcript."""
    play = SCENARIOS[scenario]
    title = scenario.replace("_", " ").capitalize()
    head = inspect.cleandoc(play.__doc__ or "")
    story = str(play().story).lstrip("\n")
    return f"{title}\n{'=' * len(title)}\n\n{head}\n\n{story}"
