"""The progress of the rows of all topics with keys, in memory: by topic, and by source.

What is durable of it is in quorate.store.storage.state_records. No rows are read or made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Keying
from quorate.protocol.lineage import Lineage
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.state_rows import generation_of
from quorate.store.storage.state_records import Progress


def is_in(place: Place, lineage: Lineage) -> bool:
    """Return whether a place is in the generation of this lineage."""
    return place == NO_PLACE or lineage.reaches_back_to(place.epoch)


@dataclass(frozen=True, slots=True)
class Keyed:
    """A topic with keys."""

    keying: Keying
    prefix: bytes
    """The beginning of the keys of its rows."""


class RowsProgress:
    """How far rows have come in each source. A source that is not here has no rows."""

    def __init__(self, sources: Mapping[SourceName, SourceState]) -> None:
        """sources: all that the store knows, also without rows."""
        self._sources = sources
        self._of_topics: dict[str, dict[SourceName, Progress]] = {}

    def of(self, source: SourceName) -> Progress | None:
        """Return how far rows have come in a source; None: there are none."""
        return self._of_topics.get(source.topic, {}).get(source)

    def note(self, progress: Progress) -> None:
        """Note that rows have come so far."""
        self._of_topics.setdefault(progress.source.topic, {})[progress.source] = progress

    def forget(self, source: SourceName) -> None:
        """Forget a source, whose rows are gone."""
        of_topic = self._of_topics.get(source.topic, {})
        of_topic.pop(source, None)
        if not of_topic:
            self._of_topics.pop(source.topic, None)

    def topics(self) -> list[str]:
        """Return the topics that have rows."""
        return list(self._of_topics)

    def __iter__(self) -> Iterator[Progress]:
        for of_topic in list(self._of_topics.values()):
            yield from list(of_topic.values())

    def generations(self, topic: str) -> dict[int, int]:
        """Return the generation of each source of a topic that has rows, by session ID."""
        return {
            state.name.session_id: generation_of(state.lineage) for state in self._states(topic)
        }

    def retained_from(self, topic: str) -> dict[int, int]:
        """Return the first number kept of each source of a topic that has rows, by session ID."""
        return {state.name.session_id: state.held.retained_from for state in self._states(topic)}

    def position(self, topic: str) -> Position:
        """Return the position that the rows of a topic have come to."""
        of_topic = self._of_topics.get(topic, {})
        states = {state.name: state for state in self._states(topic)}
        return Position(
            {
                source: of_topic[source].place
                for source, state in states.items()
                if generation_of(state.lineage) <= of_topic[source].place.epoch
            }
        )

    def are_kept_behind(self, topic: str, position: Position) -> bool:
        """Return whether retention has let nothing of a topic go that is behind a position."""
        return all(
            state.held.retained_from <= position.get(state.name, NO_PLACE).sequence + 1
            for state in self._states(topic)
        )

    def _states(self, topic: str) -> list[SourceState]:
        found = (self._sources.get(source) for source in self._of_topics.get(topic, ()))
        return [state for state in found if state is not None]
