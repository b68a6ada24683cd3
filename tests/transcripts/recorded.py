"""The transcripts as files, beside this module: one for each story, and an index of them."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.transcripts.scenarios import CHAPTERS, SCENARIOS
from tests.transcripts.stage import Stage

STORIES = Path(__file__).parent / "stories"
INDEX = STORIES / "README.md"
_MEMORY = Path("/dev/shm")
_HOW_TO_READ = """\
# The protocol in stories

Each story was recorded from the code that ships, in a simulated world where everything takes the
same time. `make transcripts` records them anew. The rules that they show are in
[protocol.md](../../../docs/protocol.md). Read the chapters in their order.

| line | meaning |
|---|---|
| `x -> a, b: promise me epoch 2` | a and b get a message of x, both at one moment |
| `on disk at a, b: promise of epoch 2 to x` | a and b have synced that |
| `application of x publishes: 'one'` | the application of the source x gives it a message |
| `application of r gets: 1 'one'` | the application of the receiver r is handed message 1 |
| `application of x hears: 1 stable` | the source x tells its application something |
| `(3.0 s later)` | nothing worth telling happened for so long |

The stores are a, b, c and so on. x, y and z are instances of one source: they have the same topic
and session ID. So are r and s of one receiver. u is a subscriber. A message is stable once a
majority of the stores has it on disk, unless the story says otherwise.

A line tells that something has arrived. So what is lost on its way is left out. Heartbeats are left
out, too, and whatever is said again in a scene, word for word.

Some things recur:

* A source that starts asks for epoch 1. A store that has promised it to another instance names the
  newest epoch (`Fenced, epoch 1 is promised`). The source asks for the next one.
* A source waits three seconds, the registration interval, for stores that are silent. Then it
  decides without them, if enough have answered.
* `told stable up to 0`: the store has heard so from the source. More may be stable by now: a source
  says so with its next batch, or within a second.
"""


def path_of(scenario: str) -> Path:
    """Return the file of a story."""
    return STORIES / f"{scenario}.txt"


def played(scenario: str) -> str:
    """Play a story, and return its transcript."""
    play = SCENARIOS[scenario]
    title = _title(scenario)
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        stage = Stage(Path(directory))
        with stage.world:
            play(stage)
            story = str(stage.story)
    return f"{title}\n{'=' * len(title)}\n\n{_head(play)}\n\n{story}"


def index() -> str:
    """Return how the stories are read, and what each is about."""
    return "\n".join([_HOW_TO_READ, *_chapters()])


def _chapters() -> Iterator[str]:
    for chapter, stories in CHAPTERS.items():
        yield f"## {chapter}\n"
        for story in stories:
            about = _head(story).splitlines()[0]
            yield f"* [{_title(story.__name__)}]({path_of(story.__name__).name}): {about}"
        yield ""


def _title(scenario: str) -> str:
    return scenario.replace("_", " ").capitalize()


def _head(play: Callable[[Stage], None]) -> str:
    return inspect.cleandoc(play.__doc__ or "")
