"""The source's messages, prepared once in a file of the run.

Parsing a year of flights takes seconds. A source that is started again reads this file instead, and
goes on at once. The verifier never reads it: its expectation comes from the input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from quorate.console.demo.flights import messages
from quorate.disk.files import replace_file

_MESSAGES = "messages"
_TOTALS = "totals.json"


class Prepared:
    """Every message that the source is to publish, in order."""

    def __init__(self, directory: Path) -> None:
        """directory: where `prepare` has written the messages."""
        self._path = directory / _MESSAGES
        self.totals: dict[str, int] = json.loads((directory / _TOTALS).read_text())
        """The number of messages of each topic."""

    def remaining(self, next_sequence: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield (topic, payload) of each message without a sequence number yet, in order.

        A message's place in its topic is its sequence number.
        """
        names = {topic.encode(): topic for topic in self.totals}
        seen = dict.fromkeys(names, 0)
        first = {name: next_sequence[topic] for name, topic in names.items()}
        with self._path.open("rb") as file:
            for line in file:
                name, _, payload = line.partition(b"\t")
                if seen[name] >= first[name]:
                    yield names[name], payload[:-1]
                seen[name] += 1


def is_prepared(directory: Path) -> bool:
    """Return whether the messages of this run are in the directory, as a whole."""
    return (directory / _TOTALS).exists()


def prepare(directory: Path, path: Path | None) -> None:
    """Write the messages of the input into the directory; `path` as in `flights.messages`."""
    directory.mkdir(exist_ok=True)
    totals: Counter[str] = Counter()
    with (directory / _MESSAGES).open("wb") as file:
        for topic, payload in messages(path):
            file.write(b"%s\t%s\n" % (topic.encode(), payload))
            totals[topic] += 1
    # The totals appear last, and at once: a source that was killed here prepares anew.
    replace_file(directory / _TOTALS, json.dumps(totals).encode())
