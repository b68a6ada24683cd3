"""The checks of what applications saw: DESIGN's I1 to I3 and I7, by what users are promised.

A source that ended and began anew has several lives. What was stable in one is void in the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

from tests.world.seen import (
    BRIEF,
    DELETION,
    Handed,
    LetGo,
    Life,
    Messages,
    Row,
    Rows,
    Seen,
    Stream,
    key_of,
)

from quorate.client.receiver_events import Withdrawn

LOOK_SECONDS = 1.0
"""Stores look at identities so often, and so they may take a silence to be this much longer."""

UNDER_WAY_MAX = 10
"""A source has at most so many messages under way of which nobody was told yet."""


class Violated(AssertionError):
    """An application saw what must not be."""


def check(seen: Seen, seed: int) -> None:
    """Raise Violated if an application saw what must not be."""
    _hold(not seen.failures, f"seed {seed}: {seen.failures[:3]}")
    for stream in seen.streams:
        where = f"seed {seed}, {stream.topic} of {stream.session_id}"
        _hold(not stream.conflicts, f"{where}: numbers were stable twice: {stream.conflicts[:3]}")
        kept = seen.circumstances.kept_messages
        _check_ends(stream, seen.circumstances.lifetime, where)
        _check_sources(stream, where)
        _check_read(stream, kept, where)
        _check_taken(stream, kept, where)
        _check_live(stream, kept, where)
        _check_replayed(stream, kept, where)
        _check_contents(stream, where)
    for topic, rows in seen.rows.items():
        streams = [each for each in seen.streams if each.topic == topic]
        check_rows(streams, rows, f"seed {seed}, rows of {topic}")


def _check_ends(stream: Stream, lifetime: float, where: str) -> None:
    """A stream ends if somebody ends it, or its source is silent for long; then it is over."""
    for former, later in pairwise(stream.lives):
        if former.stable:
            _hold(
                _may_have_ended(stream, former, later.told_at, lifetime),
                f"{where}: epoch {later.epoch} began anew, and nobody had ended the stream",
            )
    for told in stream.told_of_ends:
        _hold(
            _may_have_ended(stream, stream.life_at(told.epoch), told.at, lifetime),
            f"{where}: its source was told of an end, and nobody had ended the stream",
        )
    for end in stream.ends:
        life = stream.life_at(end.life)
        if end.is_done and life.stable:
            _hold(life is not stream.life, f"{where}: {end.by} ended it, and it went on")
            _hold(
                life.last_published <= end.over_at,
                f"{where}: messages were stable in a stream that {end.by} had ended before",
            )


def _may_have_ended(stream: Stream, life: Life, at: float, lifetime: float) -> bool:
    if at - life.last_published >= lifetime - LOOK_SECONDS:
        return True
    return any(end.asked_at <= at and end.over_at >= life.told_at for end in stream.ends)


def _check_sources(stream: Stream, where: str) -> None:
    """A source goes on in no other life once messages of its own are stable."""
    sources = {id(source): source for source in stream.sent.values()}
    for source in sources.values():
        lives = [stream.life_at(epoch) for epoch in source.epochs]
        for life, later in pairwise(lives):
            _hold(
                life is later or not life.stable,
                f"{where}: a source of epoch {life.epoch} went on in the stream that began in "
                f"epoch {later.epoch}",
            )


def _check_read(stream: Stream, kept: int, where: str) -> None:
    """All that was stable in the newest life is read back, each number once, in order.

    Retention may have let the oldest messages go. kept: it keeps so many; 0: all.
    """
    life, gone = stream.life, stream.read_gaps
    _check_let_go(stream, gone, kept, f"{where}: the reader")
    numbers = [message.number for message in stream.read]
    _check_in_order(-1, numbers, [*gone, *_lost(stream)], f"{where}: the reader")
    content = {message.number: message.payload for message in stream.read}
    for number, payload in life.stable.items():
        found = content.get(number)
        _hold(
            found == payload or (found is None and (_is_in(gone, number) or number in stream.lost)),
            f"{where}: {number} was stable as {payload!r}, now {found!r}",
        )
    for message in stream.read:
        _hold(
            stream.life_at(message.epoch) is life,
            f"{where}: {message.number} of the ended epoch {message.epoch} was read back",
        )


def _check_taken(stream: Stream, kept: int, where: str) -> None:
    """Each receiver gets the stream in order, without a gap, and goes on where one was."""
    for taken in stream.taken:
        _check_let_go(stream, taken.gaps, kept, f"{where}: a receiver")
        for life, numbers in _by_life(stream, taken.messages, f"{where}: a receiver"):
            before = min(taken.before.get(life.epoch, -1), numbers[0] - 1)
            gone = [*taken.gaps, *_lost(stream)]
            _check_in_order(before, numbers, gone, f"{where}: a receiver")


def _check_live(stream: Stream, kept: int, where: str) -> None:
    """A live receiver is handed the stream in order, and told of what is taken back.

    An epoch has one message of a number. What is not taken back is what is read back.
    """
    contents: dict[tuple[int, int], bytes] = {}
    read = {message.number: message.payload for message in stream.read}
    for live in stream.live:
        who = f"{where}: a live receiver"
        _check_let_go(stream, live.gaps, kept, who)
        messages = _kept(live.items, who)
        for message in messages:
            known = contents.setdefault((message.epoch, message.number), message.payload)
            _hold(known == message.payload, f"{who}: {message.number} has two contents")
        for life, numbers in _by_life(stream, messages, who):
            before = min(live.before.get(life.epoch, -1), numbers[0] - 1)
            _check_in_order(before, numbers, [*live.gaps, *_lost(stream)], who)
    for message in messages if stream.live else ():
        # The last instance heard of everything that was taken back.
        if stream.life_at(message.epoch) is stream.life and message.number in read:
            known = read[message.number]
            _hold(known == message.payload, f"{who} has {message.number} as {message.payload!r}")


def _kept(items: Sequence[Handed | Withdrawn], who: str) -> Messages:
    """Return the messages that were not taken back."""
    kept: Messages = []
    epoch, first = 0, 0
    for item in items:
        if isinstance(item, Withdrawn):
            epoch, first = max(epoch, item.epoch), item.first
            kept = [m for m in kept if m.epoch >= item.epoch or m.number < item.first]
        else:
            _hold(
                item.epoch >= epoch or item.number < first,
                f"{who} was handed {item.number} of epoch {item.epoch} after it was taken back",
            )
            kept.append(item)
    return kept


def _check_replayed(stream: Stream, kept: int, where: str) -> None:
    """The subscriber is handed each stable message once, in order."""
    who = f"{where}: the subscriber"
    _check_let_go(stream, stream.skipped, kept, who)
    for _, numbers in _by_life(stream, stream.replayed, who):
        _check_in_order(-1, numbers, [*stream.skipped, *_lost(stream)], who)


def _check_in_order(before: int, numbers: list[int], gone: Sequence[LetGo], who: str) -> None:
    """Each number follows on the one before, but for ranges of which somebody was told."""
    for earlier, number in pairwise([before, *numbers]):
        _hold(
            number > earlier and all(_is_in(gone, each) for each in range(earlier + 1, number)),
            f"{who} was handed {number} after {earlier}",
        )


def _lost(stream: Stream) -> list[LetGo]:
    """Return the numbers of which every copy was lost, as ranges."""
    return [LetGo(number, number, number) for number in sorted(stream.lost)]


def _is_in(gone: Sequence[LetGo], number: int) -> bool:
    return any(each.first <= number <= each.last for each in gone)


def _check_let_go(stream: Stream, gone: Sequence[LetGo], kept: int, who: str) -> None:
    for each in gone:
        if stream.lost.issuperset(range(each.first, each.last + 1)):
            continue  # Nobody is told of what was lost before the first message.
        _hold(
            kept > 0 and each.last + kept <= each.high + UNDER_WAY_MAX,
            f"{who} was told that [{each.first}, {each.last}] of {each.high} were let go, "
            f"and {kept} are kept",
        )


def check_rows(streams: Sequence[Stream], rows: Mapping[str, Rows], where: str) -> None:
    """Raise Violated unless each store has the last stable message of each key.

    Of messages that were let go nobody knows what they were. They may be newer than what was read
    of another source.
    """
    digests = {store: told.digest.hex() for store, told in rows.items()}
    _hold(len(set(digests.values())) == 1, f"{where}: stores have other digests: {digests}")
    last: dict[bytes, tuple[int, int, int, bytes]] = {}
    known_since = 0.0
    for stream in streams:
        let_go = max((each.last for each in stream.read_gaps), default=-1)
        kept = [each for each in stream.read if each.number > let_go]
        if stream.read_gaps:
            known_since = max(known_since, kept[0].time_ns if kept else inf)
        for each in kept:
            key = key_of(each.payload)
            this = (each.time_ns, stream.session_id, each.number, each.payload)
            last[key] = max(last.get(key, this), this)
    expected = {
        key: Row(*row[1:]) for key, row in last.items() if not row[3].startswith((DELETION, BRIEF))
    }
    for store, told in rows.items():
        for key in sorted(expected.keys() | told.by_key.keys()):
            found = told.by_key.get(key)
            is_known = known_since <= (last[key][0] if key in last else 0)
            _hold(
                not is_known or found == expected.get(key),
                f"{where}: key {key!r} at {store} is {found}, not {expected.get(key)}",
            )


def _by_life(stream: Stream, messages: Messages, who: str) -> list[tuple[Life, list[int]]]:
    """Return the numbers of each life. No message of a life comes after one of the next."""
    lives: list[tuple[Life, list[int]]] = []
    for message in messages:
        life = stream.life_at(message.epoch)
        if not lives or lives[-1][0] is not life:
            _hold(
                not lives or lives[-1][0].epoch < life.epoch,
                f"{who} was handed {message.number} of an epoch that had ended",
            )
            lives.append((life, []))
        lives[-1][1].append(message.number)
    return lives


def _check_contents(stream: Stream, where: str) -> None:
    """In one life a number has one content, and it was sent by a source of that life."""
    contents = {
        (life.epoch, n): payload for life in stream.lives for n, payload in life.stable.items()
    }
    for who, message in stream.all_handed():
        life = stream.life_at(message.epoch)
        known = contents.setdefault((life.epoch, message.number), message.payload)
        _hold(
            known == message.payload,
            f"{where}: {who}: {message.number} has two contents: {known!r}, {message.payload!r}",
        )
        _hold(
            _was_sent_in(stream, life, message),
            f"{where}: {who}: {message.number} of epoch {message.epoch} was sent in another life",
        )


def _was_sent_in(stream: Stream, life: Life, message: Handed) -> bool:
    source = stream.sent.get(message.payload)
    return source is not None and any(stream.life_at(each) is life for each in source.epochs)


def _hold(holds: bool, rule: str) -> None:
    if not holds:
        raise Violated(rule)
