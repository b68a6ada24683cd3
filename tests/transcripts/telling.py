"""The text of a story: who says what to whom, what is on disk where, what applications are told.

What happens at one moment at several places is one line, and the order of such lines does not
depend on the order in which the world came to them. Nothing here knows what the words mean.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

WIDTH = 100
MOMENT_SECONDS = 0.0001
"""The longest time, in seconds, that counts as one moment. Nothing is heard sooner."""
WAIT_SECONDS = 0.5
"""A silence of so many seconds, or more, is told."""

TO = "{who} -> {whom}"
ON_DISK = "on disk at {who}"
PUBLISHES = "application of {who} publishes"
GETS = "application of {who} gets"
HEARS = "application of {who} hears"
JOINED = (ON_DISK, PUBLISHES, GETS)
"""Lines that have all that one does at a moment."""
VERBS = (PUBLISHES, TO, ON_DISK, GETS, HEARS)
"""The beginnings of lines up to the colon. Lines of one moment come in this order."""


@dataclass
class Line:
    """A line of a story."""

    at: float
    who: list[str]
    verb: str
    whom: list[str]
    says: list[str]
    order: int = 0
    """The place among the lines of one moment, as far as it matters."""

    def place(self) -> tuple[int, list[str], str, list[str], list[str]]:
        """Return what decides where the line is among those of its moment."""
        return self.order, self.who, self.verb, self.whom, self.says

    def joined_by(self, other: Line) -> bool:
        """Tell what the other line tells, too, and return True, if one line can."""
        if self.verb != other.verb:
            return False
        if self.who == other.who and self.says == other.says and self.whom and other.whom:
            self.whom = sorted({*self.whom, *other.whom})
        elif self.whom == other.whom and self.says == other.says:
            self.who = sorted({*self.who, *other.who})
        elif self.who == other.who and self.verb in JOINED:
            self.says += other.says
        else:
            return False
        return True

    def __str__(self) -> str:
        who, whom = ", ".join(self.who), ", ".join(self.whom)
        return f"{self.verb.format(who=who, whom=whom)}: {'; '.join(self.says)}"


@dataclass
class Scene:
    """The words of the narrator, and what happens then."""

    words: str
    lines: list[Line] = field(default_factory=list)

    def has_told(self, line: Line) -> bool:
        """Return whether the line repeats another one of the scene, word for word."""
        said = line.who, line.verb, line.whom, line.says
        return any(said == (each.who, each.verb, each.whom, each.says) for each in self.lines)


class Story:
    """The scenes that were told so far."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin. now: the time of the world, in seconds."""
        self._now = now
        self._scenes = [Scene("")]
        self._is_silent = False

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Tell nothing for a block: the story is not about it."""
        self._is_silent = True
        yield
        self._is_silent = False

    def say(self, words: str) -> None:
        """Let the narrator begin a scene."""
        self._scenes.append(Scene(words))

    def tell(self, who: str, verb: str, whom: str, says: str) -> None:
        """Tell what happens now, unless it was told in this scene before.

        verb: one of VERBS.
        """
        line = Line(self._now(), [who], verb, [whom] if whom else [], [says])
        scene = self._scenes[-1]
        if not self._is_silent and not scene.has_told(line):
            scene.lines.append(line)

    def __str__(self) -> str:
        last = next(line.at for scene in self._scenes for line in scene.lines)
        texts = []
        for scene in self._scenes:
            text = [textwrap.fill(scene.words, WIDTH)] if scene.words else []
            for moment in _moments(scene.lines):
                if (silence := moment[0].at - last) >= WAIT_SECONDS:
                    text.append(f"  ({silence:.1f} s later)")
                last = moment[-1].at
                text += [_filled(str(line)) for line in _joined(moment)]
            if text:
                texts.append("\n".join(text))
        return "\n\n".join(texts) + "\n"


def _filled(line: str) -> str:
    filled = textwrap.fill(
        line, WIDTH, initial_indent="  ", subsequent_indent=" " * 6, break_on_hyphens=False
    )
    return filled.replace("\N{NO-BREAK SPACE}", " ")


def _moments(lines: list[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each moment."""
    moment: list[Line] = []
    for line in lines:
        if moment and line.at - moment[0].at > MOMENT_SECONDS:
            yield moment
            moment = []
        moment.append(line)
    if moment:
        yield moment


def _joined(moment: list[Line]) -> list[Line]:
    """Return the lines of a moment in order, joined where they say the same.

    What one says to another, or tells, keeps its order.
    """
    earlier: Counter[tuple[str, ...]] = Counter()
    for line in moment:
        between = (*line.who, line.verb, *line.whom)
        line.order = earlier[between]
        earlier[between] += 1
    joined: list[Line] = []
    for line in sorted(moment, key=Line.place):
        if not any(each.joined_by(line) for each in joined):
            joined.append(line)
    return sorted(joined, key=lambda line: VERBS.index(line.verb))
