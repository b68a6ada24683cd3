"""How long identities live at a store: the rules, over plain times (protocol.md 14).

No clock and no I/O. Two kinds of time come in. *Observed* time passes only while the store runs
and looks around. The wall clock alone knows how long the store was down.

The wall clock never decides alone. An identity that it calls overdue is so only after the store has
been up for a while without hearing of it. Times never decide whether a message is safe: epochs do.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from quorate.protocol.errors import STREAM_IS_OPEN, InvalidArgument
from quorate.protocol.identity import SourceName

CONFIRM_SECONDS = 60.0
"""The time up, in seconds, after which an identity may be overdue by the wall clock alone."""
STAMP_SECONDS = 60.0
"""A sign of life is on the disk this long after it came, at the latest."""
GLANCE_SECONDS_MAX = 5.0
"""More than this between two looks was not observed: the process was paused, or the host slept."""


_NAMED_SECONDS_MAX = 1e12
"""The longest time in seconds that an error names. Clients may ask for longer ones."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long an identity is protected and kept, in seconds after its last sign of life."""

    activity_timeout: float = 0.0
    """Another instance is refused for so long; 0: only while it streams."""
    state_lifetime: float = 0.0
    """A source may end after so long, and a receiver is forgotten; 0: never."""

    def merged(self, asked: Lifetimes) -> Lifetimes:
        """Return the lifetimes in force if these are configured and the client asks for those."""
        if asked == _AS_CONFIGURED:
            return self
        lifetimes = [item for item in (self.state_lifetime, asked.state_lifetime) if item > 0]
        return Lifetimes(
            asked.activity_timeout or self.activity_timeout, min(lifetimes, default=0.0)
        )

    @property
    def kept_for(self) -> float:
        """Seconds after which it is overdue; 0: never. Never before the protection ends."""
        if not self.state_lifetime:
            return 0.0
        return max(self.state_lifetime, self.activity_timeout)

    @property
    def stamped_every(self) -> float:
        """How far the sign of life on the disk may be behind."""
        return min(STAMP_SECONDS, self.state_lifetime / 4)


_AS_CONFIGURED = Lifetimes()
"""The request of a client that leaves its lifetimes to the configuration."""


def asked_lifetimes(activity_timeout: float, state_lifetime: float) -> Lifetimes:
    """Return the lifetimes that a client asks for. Raises InvalidArgument for impossible ones."""
    asked = Lifetimes(activity_timeout, state_lifetime)
    if not (0 <= asked.activity_timeout < inf and 0 <= asked.state_lifetime < inf):
        raise InvalidArgument("lifetimes", f"{asked} are no times")
    return asked


def milliseconds(seconds: float) -> int:
    """Return the time for which an identity is protected, as errors name it."""
    return STREAM_IS_OPEN if seconds == inf else ceil(min(seconds, _NAMED_SECONDS_MAX) * 1000)


class Owner(enum.IntEnum):
    """The signs of life of a source's owner within the state lifetime, numbered as on the wire."""

    UNKNOWN = 0
    """The store cannot tell. It was not up for so long, or no state lifetime is set there."""
    HEARD = 1
    SILENT = 2
    """The source may expire as far as this store can tell."""

    @classmethod
    def _missing_(cls, _: object) -> Owner:
        return cls.UNKNOWN


class Who(NamedTuple):
    """An identity at a store: a source, or one of its receivers."""

    source: SourceName
    receiver: int = 0
    """The receiver's session ID; 0: the source itself."""


@dataclass(slots=True)
class Life:
    """The signs of life of one identity."""

    asked: Lifetimes = Lifetimes()
    seen: float = 0.0
    """Wall time of a sign of life, as it is on the disk; 0: none is."""
    heard: float | None = None
    """When the last sign of life came in this run, in observed seconds; None: none did."""
    since: float = 0.0
    """When this store came to know of it, in observed seconds; 0: before it started."""
    present: bool = False
    """Its stream is open: it lives."""
    released: bool = False
    """It left of its own will: nobody is kept out any more."""
    stamped: float = 0.0
    """The sign of life that is on the disk, in observed seconds."""


class Observed:
    """Time as the store saw it pass. A pause of the process does not count."""

    def __init__(self, steady: float, wall: float) -> None:
        """steady: a clock that only goes forwards; wall: the time of day; both in seconds."""
        self.started_wall = wall
        self.now = 0.0
        """Seconds that the store has been up and looking."""
        self._last = steady

    def look(self, steady: float) -> None:
        """The store looks around."""
        self.now += min(max(0.0, steady - self._last), GLANCE_SECONDS_MAX)
        self._last = steady

    def age(self, wall: float, at: float | None) -> float:
        """Seconds since something that happened then: observed, or by the wall before the start.

        wall: when it happened, 0 if it is not known; at: the same in observed seconds, if it was
        in this run. A wall clock that was put back makes nothing older.
        """
        if at is not None:
            return self.now - at
        return self.now + (max(0.0, self.started_wall - wall) if wall else 0.0)

    @property
    def wall(self) -> float:
        """The time of day, as far as it can be told without looking at that clock again: it may
        jump while the store runs."""
        return self.started_wall + self.now


class Lives:
    """Every identity of one store, and which of them are over."""

    def __init__(self, observed: Observed, configured: Callable[[Who], Lifetimes]) -> None:
        """configured: what the store's configuration says for such an identity."""
        self.observed = observed
        self._configured = configured
        self._lives: dict[Who, Life] = {}
        self._mortal: dict[SourceName, None] = {}

    @property
    def mortal(self) -> Collection[SourceName]:
        """The sources with a state lifetime, of their own or of a receiver."""
        return self._mortal.keys()

    def of(self, who: Who) -> Life:
        """The life of an identity; it begins now if nothing is known."""
        life = self._lives.get(who)
        if life is None:
            life = self._lives[who] = Life()
            self._note_mortal(who)
        return life

    def restore(self, who: Who, life: Life) -> None:
        """Set the life that the disk remembers."""
        self._lives[who] = life
        self._note_mortal(who)

    def forget(self, who: Who) -> None:
        self._lives.pop(who, None)
        if not who.receiver:
            self._mortal.pop(who.source, None)

    def _note_mortal(self, who: Who) -> None:
        if self.lifetimes(who).state_lifetime:
            self._mortal[who.source] = None

    def lifetimes(self, who: Who) -> Lifetimes:
        """Return the lifetimes in force for an identity."""
        return self._configured(who).merged(self.of(who).asked)

    # Signs of life.

    def heard(self, who: Who) -> None:
        """Note that an identity gave a sign of life."""
        life = self.of(who)
        life.heard = self.observed.now
        life.released = False

    def begins(self, who: Who) -> None:
        """Note that this store knows an identity from now on, perhaps because a peer said so.

        That is no sign of life. For how long there was none before is not known here.
        """
        self.of(who).since = self.observed.now

    def heard_elsewhere(self, who: Who) -> None:
        """Note that a peer has the stream of a source. That may be old: it revokes no goodbye."""
        self.of(who).heard = self.observed.now

    def came(self, who: Who, asked: Lifetimes) -> None:
        """Note that a source opened its stream, or that a receiver registered.

        asked: the lifetimes that count from now on.
        """
        self.heard(who)
        self.of(who).asked = asked
        self._note_mortal(who)

    def stays(self, who: Who) -> None:
        """Note that an identity has a stream open from now on."""
        self.of(who).present = True

    def left(self, who: Who, *, willingly: bool) -> None:
        """Note that the stream of an identity is over."""
        self.heard(who)
        life = self.of(who)
        life.present = False
        life.released = willingly

    # The rules.

    def silent(self, who: Who) -> float:
        """Observed seconds without a sign of life; a start of the store counts as one."""
        life = self.of(who)
        return 0.0 if life.present else self.observed.now - (life.heard or 0.0)

    def protected_for(self, who: Who) -> float:
        """Return the seconds for which another instance is refused, if this one stays silent.

        inf: its stream is open. 0: another instance is admitted now.
        """
        life = self.of(who)
        if life.present:
            return inf
        if life.released:
            return 0.0
        return max(0.0, self.lifetimes(who).activity_timeout - self.silent(who))

    def overdue(self, who: Who) -> bool:
        """Whether its state lifetime is over.

        By the wall clock alone, an identity is at first only marked. It is overdue once the store
        has been up for the activity timeout, and CONFIRM_SECONDS at least, and heard nothing.
        """
        lifetimes = self.lifetimes(who)
        kept_for = lifetimes.kept_for
        if not kept_for or self.of(who).present:
            return False
        if min(self.silent(who), self.observed.now - self.of(who).since) >= kept_for:
            return True
        confirmed_at = max(CONFIRM_SECONDS, lifetimes.activity_timeout)
        return self.observed.now >= confirmed_at and self.marked(who)

    def owner(self, who: Who) -> Owner:
        """Return what this store has heard of a source's owner within its state lifetime.

        A start of the store protects the source, but it is no evidence that the owner lives.
        """
        if self.overdue(who):
            return Owner.SILENT
        life = self.of(who)
        is_recent = life.heard is not None and self.silent(who) < self.lifetimes(who).kept_for
        return Owner.HEARD if life.present or is_recent else Owner.UNKNOWN

    def marked(self, who: Who) -> bool:
        """Whether it is overdue as far as the wall clock can tell."""
        life, lifetimes = self.of(who), self.lifetimes(who)
        if not lifetimes.kept_for or life.present:
            return False
        # The stamp may be behind by its interval.
        known_at = life.heard if life.heard is not None else life.since or None
        age = self.observed.age(life.seen, known_at)
        slack = 0.0 if life.heard is not None else lifetimes.stamped_every
        return age - slack >= lifetimes.kept_for

    def stamps(self, known: Iterable[Who], *, all_of_them: bool = False) -> Iterator[Who]:
        """Return the identities whose sign of life must be written now, for a restart to know."""
        now = self.observed.now
        for who in known:
            lifetimes = self.lifetimes(who)
            life = self.of(who)
            heard = now if life.present else life.heard
            if (
                not lifetimes.state_lifetime
                or heard is None
                or (life.seen and heard <= life.stamped)
            ):
                continue
            if all_of_them or not life.seen or now - life.stamped >= lifetimes.stamped_every:
                life.stamped = heard
                life.seen = self.observed.started_wall + heard
                yield who
