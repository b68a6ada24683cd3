"""The plan of fetching: what to ask of which peer, and the proof that no peer has a message.

No I/O, no clock: times are passed in. Lookups are three-valued: a store has a message, says that it
does not, or cannot say. Only "it does not" is a "no". Being unable to say, silence, a refusal, a
timeout and "not yet" are none. A loss that an operator accepted needs no other proof.

A message that one store released others may keep longer. But a peer that cannot be asked is not
waited for without end.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from quorate.protocol.delays import RECONNECT, Delays, delay_after
from quorate.protocol.fragments import Batch
from quorate.protocol.framing import BatchHeader
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range, RangeSet
from quorate.receiver.protocol.stream import (
    BatchOutcome,
    Stream,
)

SOURCE = "the source"
"""The name of the source as a peer. It is asked last, for what it retains. No store has this
name."""

CHUNK_BYTES = 4 * 1024 * 1024
"""The bytes that one request asks for, about: enough for the round trip not to matter."""
CHUNK_MESSAGES_MAX = 1 << 18

NOT_YET_SECONDS = 0.05
"""The time, in seconds, for which a store that does not reach so far yet is not asked again."""
PROBE_SECONDS = 0.1
"""The interval, in seconds, at which each peer is asked while a newer lineage is sought."""
POLL_SECONDS = 0.5
"""The interval, in seconds, at which each store is asked for more while no live stream comes in."""
POLL_SECONDS_QUIET = 10.0
"""The interval, in seconds, of such requests while no store says that the source streams to it."""
NO_SECONDS = 2.0
"""The time, in seconds, after which a "no" without effect is asked again: repair may have changed
it."""
RELEASED_SECONDS = 5.0
"""The longest wait, in seconds, for other stores when one has released a message."""


class Answer(enum.Enum):
    """The answers of a peer that does not give a message."""

    ABSENT = "absent"
    """The peer knows that it does not have the messages."""
    UNKNOWN = "unknown"
    """The peer cannot say: data is corrupt or unreadable, or it is in limbo. This proves
    nothing."""
    LOST = "lost"
    """An operator has accepted that the messages are lost."""
    POISONED = "poisoned"
    """An operator has marked the messages as poison: they must not be delivered."""
    RELEASED = "released"
    """The messages were stable, and retention released them on purpose."""
    AWAY = "away"
    """The source itself is gone, and with it what it retained."""


@dataclass(slots=True)
class Request:
    """A fetch under way. [next, last] is still to come."""

    peer: str
    first: int
    last: int
    next: int
    move: int = 0
    """The number of times that stores had left the stream when this was asked."""


@dataclass(frozen=True, slots=True)
class ProvenGap:
    """The proof that no peer has [first, last]."""

    first: int
    last: int
    evidence: tuple[tuple[str, Answer, str], ...]
    """Each peer with its answer and, for people, a detail."""

    @property
    def cause(self) -> Answer:
        """The reason: POISONED, LOST, RELEASED or ABSENT."""
        answers = {answer for _, answer, _ in self.evidence}
        causes = (Answer.POISONED, Answer.LOST, Answer.RELEASED)
        return next((cause for cause in causes if cause in answers), Answer.ABSENT)


@dataclass(slots=True)
class _Peer:
    absent: RangeSet = field(default_factory=RangeSet)
    unknown: RangeSet = field(default_factory=RangeSet)
    released: RangeSet = field(default_factory=RangeSet)
    """The ranges that the peer released. They are not asked for again: no store takes that back."""
    detail: str = ""
    no_until: float = 0.0
    reaches: int = SEQUENCE_MAX
    """The number above which the peer is asked for nothing until reaches_until."""
    reaches_until: float = 0.0
    failures: int = 0
    resume_at: float = 0.0
    probe_at: float = 0.0
    poll_at: float = 0.0
    was_asked: bool = False
    """Whether the peer has answered, or failed to, since it is known whether the source lives."""

    def poll_now(self) -> None:
        self.poll_at, self.was_asked = 0.0, False

    def forget_noes(self) -> None:
        """Forget what the peer did not have or could not say: it may have changed."""
        self.absent, self.unknown, self.no_until = RangeSet(), RangeSet(), 0.0

    def forget_old_answers(self, now: float) -> None:
        if self.no_until and now >= self.no_until:
            self.forget_noes()
        if now >= self.reaches_until:
            self.reaches = SEQUENCE_MAX

    def forget_answers(self) -> None:
        """Forget all answers, which are of another stream."""
        self.forget_noes()
        self.released, self.reaches = RangeSet(), SEQUENCE_MAX

    def said_no(self) -> RangeSet:
        return self.absent.union(self.unknown).union(self.released)

    def refuses_upto(self, first: int) -> int:
        """Return the last number from first on that the peer does not give; first - 1: it may give
        it."""
        return self.said_no().contiguous_upto(first)

    def answer_at(self, sequence: int) -> Answer | None:
        """Return the peer's answer about this number; None: it has not said anything."""
        if sequence in self.released:
            return Answer.RELEASED
        if sequence in self.absent:
            return Answer.ABSENT
        return Answer.UNKNOWN if sequence in self.unknown else None

    def useless_upto(self, first: int, now: float) -> int:
        """Return the last number from first on for which it is no use to ask the peer now."""
        if now < self.resume_at or first > self.reaches:
            return SEQUENCE_MAX
        upto = self.refuses_upto(first)
        return SEQUENCE_MAX if upto >= self.reaches else upto


def _begins_in(lineage: Lineage) -> int:
    """Return the first epoch of a stream; 0: there is none yet."""
    return lineage.terms[0].epoch if lineage.terms else 0


class FetchPlan:
    """The plan that spreads what a stream lacks over the stores; the source comes last."""

    def __init__(self, stream: Stream, stores: Iterable[str], delays: Delays = RECONNECT) -> None:
        """Begin without requests. delays: before a peer is asked again that failed."""
        self._stream = stream
        self._delays = delays
        self._begins_in = _begins_in(stream.lineage)
        self._stores: dict[str, _Peer] = {store: _Peer() for store in stores}
        self._source = _Peer()
        self._under_way: dict[str, Request] = {}
        self._lost: list[tuple[Range, str, Answer, str]] = []
        """The words of operators: each range with the peer that reported it, LOST or POISONED, and
        its detail."""
        self._moves = 0
        """The number of times that stores have left the stream."""
        self._released_front = (-1, 0.0)
        """The first missing number that a store released, and the time since which that is
        known."""
        self.attached = False
        """Whether a live stream comes in, so that polling for new messages is not needed."""
        self._source_live = False
        self._proxy = ""

    @property
    def stores(self) -> tuple[str, ...]:
        return tuple(self._stores)

    @property
    def source_live(self) -> bool:
        """Whether some store says that the source streams to it."""
        return self._source_live

    @source_live.setter
    def source_live(self, live: bool) -> None:
        if live != self._source_live:
            self._source_live = live
            self.ask_again()

    @property
    def proxy(self) -> str:
        """The store that answers for the source while it is away. It knows best what is stable."""
        return self._proxy

    @proxy.setter
    def proxy(self, store: str) -> None:
        if store != self._proxy:
            self._proxy = store
            if (peer := self._stores.get(store)) is not None:
                peer.poll_now()

    @property
    def were_all_asked(self) -> bool:
        """Whether every store has been asked what there is, since `ask_again`."""
        return not self._under_way and all(peer.was_asked for peer in self._stores.values())

    def were_asked(self, stores: Iterable[str], now: float) -> None:
        """Note that these stores have just said what there is."""
        for store in stores:
            if (peer := self._stores.get(store)) is not None:
                peer.was_asked, peer.poll_at = True, now + self._poll_seconds(store)

    def ask_again(self) -> None:
        """Ask every store at once what there is, unless a live stream comes in."""
        for peer in self._stores.values():
            peer.poll_now()

    def set_stores(self, stores: Iterable[str]) -> None:
        """Set the stores of the source. Answers of stores that stay are kept.

        If stores left, every "no" is forgotten. The stores that stay are given all that the others
        had (protocol.md 6).
        """
        before = self._stores
        self._stores = {store: before.get(store) or _Peer() for store in stores}
        if before.keys() - self._stores.keys():
            self._moves += 1
            for peer in self._stores.values():
                peer.forget_noes()
        # The answer of a store that left is no longer awaited; others have to be asked.
        self._under_way = {
            name: request
            for name, request in self._under_way.items()
            if name == SOURCE or name in self._stores
        }

    def source_changed(self) -> None:
        """Forget the source's answers: it is another instance, or at another address."""
        self._source = _Peer()

    # Asking.

    def request(self, name: str, now: float) -> Request | None:
        """Return what to ask this peer for now; None: nothing. It counts as under way from here
        on."""
        self._follow()
        peer = self._peer(name)
        if peer is None or now < peer.resume_at or (name == SOURCE and not self._source_there()):
            return None
        peer.forget_old_answers(now)
        wanted = self._probe(peer, now) or self._lacking(name, peer, now)
        if wanted is None and name != SOURCE:
            wanted = self._poll(peer, now)
        if wanted is None:
            return None
        request = Request(name, wanted.first, wanted.last, wanted.first, self._moves)
        self._under_way[name] = request
        return request

    @property
    def rests(self) -> bool:
        """Whether no peer is to be asked for anything until something happens."""
        return self.attached and not self._stream.behind and not self._stream.outdated

    def may_ask(self, name: str, now: float) -> bool:
        """Return whether `request` may have something for this peer now."""
        peer = self._peer(name)
        if peer is None or now < peer.resume_at:
            return False
        if self._stream.behind or (self._stream.outdated and now >= peer.probe_at):
            return name != SOURCE or self._source_there()
        return name != SOURCE and not self.attached and now >= peer.poll_at

    def wake_at(self, name: str, now: float) -> float | None:
        """Return when to call `request` again although nothing has happened; None: only after an
        event."""
        peer = self._peer(name)
        if peer is None:
            return None
        stream = self._stream
        times = []
        if stream.outdated:
            times.append(peer.probe_at)
        if stream.behind:
            times += [peer.reaches_until, peer.no_until]
            if name == SOURCE:
                times += [
                    time
                    for store in self._stores.values()
                    for time in (store.resume_at, store.reaches_until, store.no_until)
                ]
        if name != SOURCE and not self.attached:
            times.append(peer.poll_at)
        later = [max(time, peer.resume_at) for time in times if time > 0]
        if stream.behind and peer.resume_at > now:
            later.append(peer.resume_at)
        return min((time for time in later if time > now), default=None)

    def is_front(self, request: Request) -> bool:
        """Return whether this request is still to bring the very next message."""
        return request.next <= self._stream.next <= request.last

    def needs_room(self, request: Request) -> bool:
        """Return whether the rest of this request has to wait for room.

        It does not if it brings the very next message, or only the peer's view of the stream.
        """
        return request.next <= request.last and not self.is_front(request)

    def front_under_way(self) -> bool:
        """Return whether some peer was asked for the very next message."""
        return any(self.is_front(request) for request in self._under_way.values())

    # Answers.

    def fetched(self, request: Request, header: BatchHeader, frame: Batch, first: int, last: int,
                now: float) -> BatchOutcome:  # fmt: skip
        """Take a checked batch."""
        verdict = self._stream.fetched(header, frame, first, last)
        if verdict in (BatchOutcome.VOID, BatchOutcome.NEWER_EPOCH):
            # One of the two has an outdated lineage. That is not a "no", but asking for more is no
            # use now.
            self._does_not_reach(request.peer, first - 1, now + PROBE_SECONDS)
        else:
            request.next = max(request.next, last + 1)
        return verdict

    def missing(
        self, request: Request, first: int, last: int, answer: Answer, detail: str, now: float
    ) -> None:
        """Note that the peer does not give [first, last]."""
        self._follow()
        peer = self._peer(request.peer)
        if peer is None or first > last:
            return
        if answer in (Answer.LOST, Answer.POISONED):
            self._lost.append((Range(first, last), request.peer, answer, detail))
        if detail:
            peer.detail = detail
        if answer is Answer.RELEASED:
            peer.released.add(first, last)
        elif request.move == self._moves:
            (peer.unknown if answer is Answer.UNKNOWN else peer.absent).add(first, last)
            peer.no_until = peer.no_until or now + NO_SECONDS
        if first <= request.next:
            request.next = max(request.next, last + 1)

    def ended(
        self, request: Request, high: int, stable_upto: int, lineage: Lineage, now: float
    ) -> Range | None:
        """Take the end of an answer. Return what the peer's lineage withdraws; None: nothing."""
        if lineage.epoch > self._stream.lineage.epoch:
            self._lost.clear()
        withdrawn = self._stream.adopt(lineage)
        self._stream.exists(high, lineage.epoch)
        self._stream.stable(stable_upto, lineage.epoch)
        self._finish(request)
        peer = self._peer(request.peer)
        if peer is not None:
            peer.failures, peer.was_asked = 0, True
            if 0 < _begins_in(lineage) < _begins_in(self._stream.lineage):
                peer.forget_answers()  # it does not know yet that this stream was ended
            peer.poll_at = now + self._poll_seconds(request.peer)
            if request.next <= request.last:
                self._does_not_reach(request.peer, request.next - 1, now + NOT_YET_SECONDS)
        return withdrawn

    def failed(self, request: Request, now: float) -> None:
        """Note that a request failed: no answer, a refusal or rubbish. Another peer gets the
        rest."""
        self._finish(request)
        peer = self._peer(request.peer)
        if peer is not None:
            peer.failures += 1
            peer.was_asked = True
            peer.resume_at = now + delay_after(self._delays, peer.failures)
            peer.poll_at = peer.resume_at

    def given_back(self, request: Request) -> None:
        """Take back a request that was abandoned through no fault of the peer."""
        self._finish(request)

    def is_failing(self, name: str) -> bool:
        """Return whether the last request to this peer failed."""
        peer = self._peer(name)
        return peer is None or peer.failures > 0

    def gap(self, now: float) -> ProvenGap | None:
        """Return the front of what is missing, if it is proven lost; None: it is not.

        There are three proofs. Every store, and the source, said no to it. An operator accepted its
        loss, or marked it as poison. A store released it, and no other can be asked.
        """
        self._follow()
        stream = self._stream
        if not stream.behind or stream.outdated or not self._stores:
            return None
        first, upto = stream.next, stream.missing()[0].last
        if upto < first:
            return None
        for lost, peer, answer, detail in self._lost:
            if lost.first <= first <= lost.last:
                evidence = ((peer, answer, detail),)
                return ProvenGap(first, min(upto, lost.last), evidence)
        return self._denied_by_all(first, upto) or self._released(first, upto, now)

    def _denied_by_all(self, first: int, upto: int) -> ProvenGap | None:
        asked = self._askable()
        for peer in asked.values():
            upto = min(upto, peer.absent.union(peer.released).contiguous_upto(first))
        upto = self._of_one_cause(first, upto)
        if upto < first:
            return None
        denied = tuple(
            (name, peer.answer_at(first) or Answer.ABSENT, peer.detail)
            for name, peer in asked.items()
        )
        if SOURCE not in asked:
            denied += ((SOURCE, Answer.AWAY, "no store has a live stream of it"),)
        return ProvenGap(first, upto, denied)

    def _released(self, first: int, upto: int, now: float) -> ProvenGap | None:
        """Return what a store released, if none of the others gives it, can be asked, or can
        say."""
        asked = self._askable()
        if not any(first in peer.released for peer in asked.values()):
            return None
        if self._released_front[0] != first:
            self._released_front = (first, now)
        if now < self._released_front[1] + RELEASED_SECONDS:
            return None
        evidence = []
        for name, peer in asked.items():
            said = peer.refuses_upto(first)
            if said >= first:
                upto = min(upto, said)
                evidence.append((name, peer.answer_at(first) or Answer.UNKNOWN, peer.detail))
            elif peer.failures:
                evidence.append((name, Answer.UNKNOWN, "it does not answer"))
            else:
                return None
        return ProvenGap(first, self._of_one_cause(first, upto), tuple(evidence))

    def _of_one_cause(self, first: int, upto: int) -> int:
        """Return the end of the part that was all released, or of which nothing was."""
        released = RangeSet()
        for peer in self._askable().values():
            released = released.union(peer.released)
        end = released.contiguous_upto(first)
        if end < first:
            end = next((item.first - 1 for item in released if item.first > first), upto)
        return min(upto, end)

    def waiting_for(self) -> tuple[tuple[str, Answer | None, str], ...]:
        """Return the peers that may yet have the first missing message, with what each said.

        These have neither brought it nor said no.
        """
        first = self._stream.next
        return tuple(
            (name, answer, peer.detail if answer else "")
            for name, peer in self._askable().items()
            if (answer := peer.answer_at(first)) not in (Answer.ABSENT, Answer.RELEASED)
        )

    # Inside.

    def _follow(self) -> None:
        """Forget all answers once another stream has begun: a peer may have its numbers."""
        begins_in = _begins_in(self._stream.lineage)
        if begins_in == self._begins_in:
            return
        self._begins_in = begins_in
        for peer in (*self._stores.values(), self._source):
            peer.forget_answers()
        self._lost.clear()
        self._released_front = (-1, 0.0)

    def _peer(self, name: str) -> _Peer | None:
        return self._source if name == SOURCE else self._stores.get(name)

    def _source_there(self) -> bool:
        return self.source_live or self.attached

    def _askable(self) -> dict[str, _Peer]:
        return {**self._stores, SOURCE: self._source} if self._source_there() else self._stores

    def _finish(self, request: Request) -> None:
        if self._under_way.get(request.peer) is request:
            del self._under_way[request.peer]

    def _does_not_reach(self, name: str, upto: int, until: float) -> None:
        peer = self._peer(name)
        if peer is not None:
            peer.reaches, peer.reaches_until = upto, until

    def _chunk(self, first: int, last: int) -> Range:
        messages = max(1, min(int(CHUNK_BYTES / self._stream.message_bytes), CHUNK_MESSAGES_MAX))
        return Range(first, min(last, first + messages - 1))

    def _probe(self, peer: _Peer, now: float) -> Range | None:
        if not self._stream.outdated or now < peer.probe_at:
            return None
        peer.probe_at = now + PROBE_SECONDS
        return Range(self._stream.next, self._stream.next)

    def _lacking(self, name: str, peer: _Peer, now: float) -> Range | None:
        if not self._stream.behind:
            return None
        for hole in self._stream.missing():
            for part in self._not_under_way(hole):
                first, last = part.first, part.last
                if name == SOURCE:
                    # Only for messages for which no store is of use now.
                    useless = (store.useless_upto(first, now) for store in self._stores.values())
                    last = min(last, min(useless, default=last))
                settled = peer.said_no().union(self._poisoned())
                for rest in settled.holes(first, min(last, peer.reaches)):
                    return self._chunk(rest.first, rest.last)
        return None

    def _poisoned(self) -> RangeSet:
        """Return what nobody is asked for: the source itself does not know that it is poison."""
        return RangeSet(part for part, _, answer, _ in self._lost if answer is Answer.POISONED)

    def _poll(self, peer: _Peer, now: float) -> Range | None:
        if self.attached or now < peer.poll_at:
            return None
        first = max(self._stream.known_upto + 1, self._stream.next)
        if self._stream.holds_back:
            # Only to learn what is stable by now.
            return Range(first, first)
        for rest in self._not_under_way(Range(first, SEQUENCE_MAX)):
            return self._chunk(rest.first, rest.last) if rest.first == first else None
        return None

    def _poll_seconds(self, name: str) -> float:
        """Return the seconds until this peer, which has just said what there is, is asked again."""
        often = self.source_live or name == self._proxy
        return POLL_SECONDS if often else POLL_SECONDS_QUIET

    def _not_under_way(self, hole: Range) -> list[Range]:
        # A request to a peer that failed lately stays open to the others. A peer that hangs must
        # not hold up the front each time it is tried again.
        taken = RangeSet(
            Range(request.next, request.last)
            for name, request in self._under_way.items()
            if request.next <= request.last and not self.is_failing(name)
        )
        return taken.holes(hole.first, hole.last)
