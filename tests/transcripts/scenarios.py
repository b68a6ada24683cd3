"""All stories; the docstring of each is the head of its transcript."""

from __future__ import annotations

from collections.abc import Callable

from tests.transcripts.of_changes import STORIES_OF_CHANGES
from tests.transcripts.of_receivers import STORIES_OF_RECEIVERS
from tests.transcripts.of_sources import STORIES_OF_SOURCES
from tests.transcripts.of_stores import STORIES_OF_STORES
from tests.transcripts.of_subscribers import STORIES_OF_SUBSCRIBERS
from tests.transcripts.stage import Stage

CHAPTERS: dict[str, tuple[Callable[[Stage], None], ...]] = {
    "Sources": STORIES_OF_SOURCES,
    "Stores": STORIES_OF_STORES,
    "Receivers": STORIES_OF_RECEIVERS,
    "Subscribers": STORIES_OF_SUBSCRIBERS,
    "Changes of the stores": STORIES_OF_CHANGES,
}
"""In the order in which they are read."""

SCENARIOS: dict[str, Callable[[Stage], None]] = {
    story.__name__: story for stories in CHAPTERS.values() for story in stories
}
