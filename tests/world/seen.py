"""Everything that the applications of a world saw, and nothing that is judged of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from quorate.client.receiver_events import Withdrawn
from quorate.client.replay import Bookmark, Position
from quorate.source.receipts import Receipt

KEYS = 5
"""The keys of a topic."""
DELETION = b"gone "
"""The beginning of the payload of a message that deletes the row of its key."""
BRIEF = b"brief "
"""The beginning of the payload of a message that expires soon."""
BRIEF_SECONDS = 2.0
"""The longest time in seconds until such a message expires."""


@dataclass(frozen=True)
class Circumstances:
    """The facts that are drawn for a world and do not change in it."""

    lifetime: float = 3600.0
    """Seconds of silence after which stores may end a source."""
    kept_messages: int = 0
    """The messages of each source that retention keeps; 0: all."""
    state_only: str = ""
    """The store that keeps no messages; empty: all keep them."""
    is_cached: bool = False
    """Whether stores acknowledge messages that are only in the page cache."""
    loses: bool = False
    """Whether all copies of a message may be lost, and an operator accepts that."""
    has_live_receivers: bool = False
    """Whether each topic has a receiver that is handed messages before they are stable, too."""
    layout: str = "majority"
    """The policy, by its name in `group`."""
    changes_stores: bool = False
    """Whether operators change the stores. Then no source ends."""
    consensus: str = "highest"
    """How much a new registration keeps of the messages that may not have been stable."""
    has_rows: bool = False
    """Whether topics have keys, and stores rows of the state of the world."""

    def settings_of(self, store: str) -> dict[str, Any]:
        """Return the settings of a store that are not as usual."""
        settings: dict[str, Any] = {"retention_messages": self.kept_messages}
        if self.has_rows:
            settings["topic"] = ({"pattern": ".*", "keys": "$key"},)
        if self.is_cached:
            settings["durability"] = "os"
        if store == self.state_only:
            settings["durability"] = "state-only"
        return settings


class Handed(NamedTuple):
    """A message that an application was handed."""

    number: int
    payload: bytes
    epoch: int = 1
    time_ns: int = 0
    """The time at which it was sent, as far as it was looked at."""


class Row(NamedTuple):
    """A row of the state of the world."""

    session_id: int
    number: int
    payload: bytes


@dataclass
class Rows:
    """The rows of one topic, as one store told them once all was calm."""

    digest: bytes
    by_key: dict[bytes, Row]


Messages = list[Handed]
"""The messages of one source, in the order in which an application got them."""


class LetGo(NamedTuple):
    """A range that an application was told is no longer there, because retention let it go."""

    first: int
    last: int
    high: int
    """The highest number that any source of the stream may have sent until then."""


@dataclass
class Taken:
    """The messages of one source that one instance of a receiver was handed."""

    before: dict[int, int]
    """By the epoch in which a life began: the highest number of it that any instance was handed
    before the first message of this one."""
    messages: Messages
    gaps: list[LetGo] = field(default_factory=list)


@dataclass
class Live:
    """The messages of one source that one instance of a live receiver was handed."""

    before: dict[int, int]
    """As of those that take what is stable."""
    items: list[Handed | Withdrawn] = field(default_factory=list)
    """Messages, and what was taken back, in the order in which it was told."""
    gaps: list[LetGo] = field(default_factory=list)


@dataclass
class Life:
    """A stream of a source, from number 0 to its end."""

    epoch: int
    """The epoch in which it began, as its source was told."""
    told_at: float = 0.0
    """The time of the world at which its source was told so."""
    stable: dict[int, bytes] = field(default_factory=dict)
    """The payloads that `publish` reported as stable, by sequence number."""
    last: int = -1
    """The highest number that `publish` reported as stable."""
    last_published: float = -inf
    """The latest time at which a message was published that became stable."""
    taken_upto: int = -1
    """The highest number that any instance of the receiver was handed since it ended last."""
    receiver_may_be_new: bool = False
    """Whether somebody tried to end the receiver since, and nobody knows whether that is done."""
    live_upto: int = -1
    """The highest number that any instance of the live receiver was handed."""
    replayed_upto: int = -1
    """The last number that the subscriber was handed."""
    high: int = -1
    """The highest number that any application was told of."""
    bookmark: Bookmark | None = None
    """The bookmark of the last message that `publish` reported as stable."""


@dataclass
class End:
    """An attempt to end a source."""

    by: str
    asked_at: float
    life: int
    """The epoch of the newest life at that time."""
    over_at: float = inf
    """The time after which the attempt has no effect any more; infinite: nobody knows."""
    has_failed: bool = False
    is_done: bool = False


@dataclass
class Opened:
    """A source that an application opened."""

    epochs: list[int] = field(default_factory=list)
    """The epochs under which it was told that it is registered."""


class ToldOfEnd(NamedTuple):
    """A source heard that its stream has ended."""

    at: float
    epoch: int
    """Its epoch; that of the newest life if it had none."""


@dataclass
class Stream:
    """Everything that applications saw of one source."""

    topic: str = "orders"
    session_id: int = 1
    instances: int = 0
    """The instances of the source that were started."""
    sent: dict[bytes, Opened] = field(default_factory=dict)
    """The payloads that were published, with the source that published each."""
    receipts: int = 0
    """The messages that `publish` reported as stable."""
    lives: list[Life] = field(default_factory=lambda: [Life(0)])
    """By epoch, ascending. The first one is there before the source is told of any."""
    is_publishing: bool = False
    """Whether its application waits for receipts."""
    is_to_end: bool = False
    """Whether the source's application is to deregister it."""
    ends: list[End] = field(default_factory=list)
    told_of_ends: list[ToldOfEnd] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """The numbers of which every copy was lost."""
    conflicts: list[str] = field(default_factory=list)
    """Stable numbers that were given to two messages."""
    taken: list[Taken] = field(default_factory=list)
    """The messages of each instance of the receiver, in the order of their first messages."""
    live: list[Live] = field(default_factory=list)
    """The messages of each instance of the live receiver, as it was handed them."""
    replayed: Messages = field(default_factory=list)
    """The messages that the subscriber was handed, at whatever store."""
    skipped: list[LetGo] = field(default_factory=list)
    """The ranges that the subscriber was told are gone."""
    read: Messages = field(default_factory=list)
    """The messages that a new receiver was handed once all was calm."""
    read_gaps: list[LetGo] = field(default_factory=list)
    """The ranges that this receiver was told are gone."""

    @property
    def life(self) -> Life:
        """The newest life."""
        return self.lives[-1]

    def life_at(self, epoch: int) -> Life:
        """Return the life to which an epoch belongs."""
        return next(life for life in reversed(self.lives) if life.epoch <= epoch)

    def payload(self, source: Opened, beginning: bytes = b"") -> bytes:
        """Return the payload of another message."""
        who = beginning + self.topic.encode()
        made = b"%s %d %d" % (who, self.session_id, len(self.sent) + 1)
        self.sent[made] = source
        return made

    def registered(self, source: Opened, first: int, epoch: int, now: float) -> None:
        """Keep that a source was told that it is registered, from this number on."""
        source.epochs.append(epoch)
        if first == 0 and all(life.epoch != epoch for life in self.lives):
            self.lives.append(Life(epoch, now))
            self.lives.sort(key=lambda life: life.epoch)
        for end in self.ends:
            if end.has_failed and end.over_at == inf:
                end.over_at = now  # What is left of it is below this epoch.

    def note_stable(self, receipt: Receipt, payload: bytes, published: float) -> None:
        """Keep that `publish` reported this message as stable."""
        self.receipts += 1
        life, number = self.life_at(receipt.epoch), receipt.sequence
        if number > life.last:
            life.bookmark = receipt.bookmark
        life.high = max(life.high, number)
        before = life.stable.setdefault(number, payload)
        life.last = max(life.last, number)
        life.last_published = max(life.last_published, published)
        if before != payload:
            self.conflicts.append(f"{number}: {before!r}, then {payload!r}")

    def ask_to_end(self, by: str, now: float) -> End:
        """Keep that somebody begins to end the source."""
        end = End(by, now, self.life.epoch)
        self.ends.append(end)
        return end

    def note_told_of_end(self, source: Opened, now: float) -> None:
        """Keep that a source was told that its stream has ended."""
        epoch = source.epochs[-1] if source.epochs else self.life.epoch
        self.told_of_ends.append(ToldOfEnd(now, epoch))

    def begin_to_take(self) -> Taken:
        """Return the place for the messages of another instance of the receiver."""
        self.taken.append(Taken({life.epoch: life.taken_upto for life in self.lives}, []))
        return self.taken[-1]

    def note_taken(self, taken: Taken, message: Handed) -> None:
        """Keep that an instance of the receiver was handed a message.

        A new one begins with the first message that is still there, without being told so.
        """
        life = self.life_at(message.epoch)
        is_first = not taken.messages or self.life_at(taken.messages[-1].epoch) is not life
        upto = life.taken_upto
        if is_first and upto + 1 < message.number and (upto < 0 or life.receiver_may_be_new):
            taken.gaps.append(self.let_go(upto + 1, message.number - 1))
        taken.messages.append(message)
        life.taken_upto = max(life.taken_upto, message.number)
        life.high = max(life.high, message.number)

    def ask_receiver_to_end(self) -> None:
        """Keep that the receiver may have ended from now on."""
        for life in self.lives:
            life.receiver_may_be_new = True

    def end_receiver(self) -> None:
        """Keep that the receiver has ended: the next instance of it begins anew."""
        for life in self.lives:
            life.taken_upto = -1
            life.receiver_may_be_new = False

    def begin_live(self) -> Live:
        """Return the place for the messages of another instance of the live receiver."""
        self.live.append(Live({life.epoch: life.live_upto for life in self.lives}))
        return self.live[-1]

    def note_live(self, live: Live, message: Handed) -> None:
        """Keep that an instance of the live receiver was handed a message."""
        live.items.append(message)
        life = self.life_at(message.epoch)
        if life.live_upto < 0 < message.number:
            live.gaps.append(self.let_go(0, message.number - 1))
        life.live_upto = max(life.live_upto, message.number)
        life.high = max(life.high, message.number)

    def let_go(self, first: int, last: int) -> LetGo:
        """Return a range that an application is told is no longer there."""
        return LetGo(first, last, max(life.high for life in self.lives))

    def note_replayed(self, message: Handed) -> None:
        """Keep that the subscriber was handed a message.

        It begins with the first message that is still there, without being told so.
        """
        if not self.replayed and message.number:
            self.skipped.append(self.let_go(0, message.number - 1))
        self.replayed.append(message)
        life = self.life_at(message.epoch)
        life.replayed_upto = message.number
        life.high = max(life.high, message.number)

    def note_read(self, message: Handed) -> None:
        """Keep that the new receiver was handed a message."""
        if not self.read and message.number:
            self.read_gaps.append(self.let_go(0, message.number - 1))
        self.read.append(message)

    def all_handed(self) -> Iterator[tuple[str, Handed]]:
        """Yield all messages that anybody was handed, with who was."""
        for taken in self.taken:
            yield from (("a receiver", message) for message in taken.messages)
        yield from (("the subscriber", message) for message in self.replayed)
        yield from (("the reader", message) for message in self.read)


def key_of(payload: bytes) -> bytes:
    """Return the key of the message with this payload."""
    return b"%d" % (int(payload.rpartition(b" ")[2]) % KEYS)


@dataclass
class Seen:
    """Everything that applications saw of all sources."""

    streams: list[Stream]
    circumstances: Circumstances = Circumstances()
    rows: dict[str, dict[str, Rows]] = field(default_factory=dict)
    """The rows that each store told, by topic and by store."""
    receivers: Counter[str] = field(default_factory=Counter)
    """The instances of receivers that were started, by topic."""
    receivers_to_end: set[str] = field(default_factory=set)
    """The topics whose receiver is to end."""
    ended_receivers: set[str] = field(default_factory=set)
    """The topics whose receiver was to end at some time."""
    contested: set[str] = field(default_factory=set)
    """The topics of which an application was replaced that may wake and take over again."""
    position: Position | None = None
    """The position of the subscriber; None: it got nothing yet."""
    failures: list[str] = field(default_factory=list)
    """Errors that no application should get."""
    reached: Counter[str] = field(default_factory=Counter)
    """How often each kind of event was told to an application."""

    def stream(self, topic: str, session_id: int) -> Stream:
        """Return what was seen of this source."""
        return next(
            each for each in self.streams if (each.topic, each.session_id) == (topic, session_id)
        )

    def note_lost(self, stream: Stream, first: int, last: int) -> None:
        """Keep that an application was told that these messages are lost."""
        self.reached["ranges that applications were told are lost"] += 1
        if not stream.lost.issuperset(range(first, last + 1)):
            self.failures.append(f"[{first}, {last}] of {stream.topic} was told to be lost")

    def note(self, event: object) -> None:
        """Count an event."""
        self.reached[type(event).__name__] += 1
