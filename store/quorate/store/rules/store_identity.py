"""The identity of a store, its knowledge of its peers, and whether it vouches for what it lacks.

A store that was wiped, put back from a copy or restarted without its last writes is in limbo. A
message that it has counts; a message that it lacks counts as unknown. The rules for that are here
and nowhere else. Pure: answers of peers go in, decisions and the rows for them come out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from quorate.protocol.errors import NotFounded, NotRegistered
from quorate.protocol.identity import SourceName
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
)
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import (
    STORE_KEY,
    StoreRecord,
    pack_greeting,
    pack_store,
    peer_key,
)
from quorate.v1.store_pb2 import (
    Greeting,
    StoreReplaced,
)

UNCHECKED_REASON = "it was just started, and asks its peers whether its directory was put back"
NEW_REASON = "its data directory is new, and it has not heard enough of its peers"

_FORMER_MAX = 256


@dataclass(frozen=True, slots=True)
class Met:
    """The outcome of a peer's greeting."""

    remembered: Greeting | None
    """The greeting that was known of it before."""
    is_news: bool
    """This incarnation was not known: what one before it had acknowledged may be gone."""
    writes: tuple[Write, ...]
    is_present: bool = True
    """As far as is known nobody has replaced it, and its directory was not put back."""


class Standing:
    """This store's identity, whether it vouches as a whole, and the peers that it has met."""

    def __init__(
        self, store: str, record: StoreRecord, peers: dict[str, Greeting], commits: int = 0
    ) -> None:
        """Begin a run of the store.

        - peers: the last greeting of each, by the store's name.
        - commits: the number of the last commit that the directory had when this run began.
        """
        self.store = store
        self.record = record
        self.peers = peers
        self._found = record.incarnation
        """The incarnation of the directory as it was found."""
        self._commits = commits
        """The last commit of which a greeting has told, or that was found."""
        self.unchecked = ""
        """Why it is not known yet whether this directory was put back; empty: it is known."""
        self.moment = 0
        """Grows with all that is learned of peers; says what was known when a question was sent."""
        self._noted: dict[str, int] = {}
        """The moment in which the incarnation was noted that each peer has; 0: before this run."""

    @property
    def limbo(self) -> str:
        """Why the store as a whole cannot vouch for what it lacks; empty: it can."""
        return self.record.limbo or self.unchecked

    @property
    def _starts(self) -> int:
        """The starts that count. The present one does so once the peers were asked.

        So a peer that remembers it already has met another run than this one.
        """
        return self.record.starts - bool(self.unchecked)

    def greeting(self, address: str, commits: int) -> Greeting:
        """Return how this store presents itself.

        commits: the number of the last one that was synced. Until the peers were asked, the
        greeting tells of the directory as it was found.
        """
        if not self.unchecked:
            # After a power failure that number may be older than what was recovered.
            self._commits = max(self._commits, commits)
        return Greeting(
            store_name=self.store,
            address=address,
            incarnation=self.record.incarnation,
            starts=self._starts,
            commits=self._commits,
            former=self.record.former,
        )

    def check_named(self, source: SourceName, incarnation: bytes) -> None:
        """Raise NotRegistered unless this is the incarnation that a source has dealt with.

        A directory and a copy of it may both run, and calls reach now the one, now the other. A
        promise of the one binds only that one.
        """
        if incarnation != self.record.incarnation:
            raise NotRegistered(
                str(source), f"store {self.store} is another incarnation than the one that promised"
            )

    def row(self) -> Write:
        return Write(Table.META, STORE_KEY, pack_store(self.record))

    def met(self, greeting: Greeting, since: int | None = None) -> Met:
        """Take note of who greets; remembered for good once the writes are durable.

        since: the moment of the question that this answers; None: the peer greets by itself, and
        the greeting may be old.

        An incarnation replaces the known one if it names that as a former one. It also does so if
        it answers a question from after that one was known. Any other greeting may be from an
        incarnation that was wiped since. Its store is told what is known, and has to name it.
        """
        known = self.peers.get(greeting.store_name)
        if known is None:
            return self._remember(_with_former(greeting, None), None)
        if greeting.incarnation in known.former:
            return _not_present(known)  # what it once was, or what that said
        if known.incarnation == greeting.incarnation:
            if _was_put_back(greeting, known):
                # The greeting store has to take note first. The answer that tells it may be lost.
                return _not_present(known)
            is_older = known.starts == greeting.starts and known.commits >= greeting.commits
            if is_older and {*greeting.former} <= {*known.former}:
                return Met(known, False, ())
        elif known.incarnation not in greeting.former and (
            since is None or since < self._noted.get(greeting.store_name, 0)
        ):
            return _not_present(known)
        return self._remember(_with_former(greeting, known), known)

    def heard_of(self, greeting: Greeting) -> Met:
        """Take note of what a peer knows of a third store."""
        known = self.peers.get(greeting.store_name)
        if greeting.store_name == self.store:
            return Met(None, False, ())
        if known is None:
            return self._remember(_with_former(greeting, known), known)
        if known.incarnation in greeting.former:
            return self._remember(_with_former(greeting, known), known)
        is_former = greeting.incarnation in known.former
        more = {*greeting.former} - {known.incarnation, *known.former}
        if more and (is_former or greeting.incarnation == known.incarnation):
            present = Greeting()
            present.CopyFrom(known)
            former = (each for each in greeting.former if each != known.incarnation)
            present.former[:] = _merged(former, known.former)
            return self._remember(present, known)
        return Met(known, False, ())

    def _remember(self, present: Greeting, known: Greeting | None) -> Met:
        self.peers[present.store_name] = present
        row = Write(Table.META, peer_key(present.store_name), pack_greeting(present))
        is_news = known is None or known.incarnation != present.incarnation
        if is_news:
            self.moment += 1
            self._noted[present.store_name] = self.moment
        return Met(known, is_news, (row,))

    def known(self) -> list[StoreReplaced]:
        """Return the incarnations of all known peers, and the former ones of this store.

        Every answer that a source decides from carries it. The source may still count an answer of
        a store that was wiped since, and that left limbo with what this store knew then.
        """
        mine = StoreReplaced(store_name=self.store, former=self.record.former)
        return [mine, *map(replacement, self.peers.values())]

    def learn_former(self, remembered: Greeting) -> None:
        """Take over which incarnations this store had before, as a peer knows it.

        A store that was wiped hears that from its peers, and may go down before it has noted it.
        A peer that remembers only one of those would otherwise take the store for a copy.
        """
        record = self.record
        if remembered.incarnation != record.incarnation:
            return
        if not {*remembered.former} <= {*record.former}:
            former = _merged(remembered.former, record.former)
            self.record = replace(record, former=former)

    def comes_after(self, remembered: Greeting) -> tuple[Write, ...]:
        """Note, in limbo, which incarnation this store replaces; return what to write.

        remembered: what a peer knows of the store. A store in limbo replaces what its peers knew,
        unless it was replaced itself.
        """
        record, incarnation = self.record, remembered.incarnation
        if (
            not record.limbo
            or incarnation in (record.incarnation, *record.former)
            or record.incarnation in remembered.former
        ):
            return ()
        former = _merged(record.former, remembered.former, (incarnation,))
        self.record = replace(record, former=former)
        return (self.row(),)

    def check_remembered(self, remembered: Greeting) -> str:
        """Return why this directory must have been put back; empty: it need not have been.

        remembered: what a peer knew of this store before it was asked.
        """
        record = self.record
        if remembered.incarnation in (record.incarnation, self._found):
            return self._less_than(remembered)
        if remembered.incarnation in record.former or self.comes_after(remembered):
            return ""
        return (
            "a peer knows another incarnation of it that it has not heard of: it was put back, or "
            "another store runs under its name"
        )

    def _less_than(self, remembered: Greeting) -> str:
        starts, commits = self._starts, self._commits
        if starts >= remembered.starts and commits >= remembered.commits:
            return ""
        return (
            f"its directory ends with start {starts} and commit {commits}, and a peer remembers "
            f"start {remembered.starts} and commit {remembered.commits}: it was put back from a "
            "copy"
        )

    def enter_limbo(self, reason: str, incarnation: bytes) -> tuple[Write, ...]:
        """Vouch no more, under a new incarnation, for what is lacking of any source."""
        former = _merged(self.record.former, (self.record.incarnation,))
        self.record = replace(
            self.record,
            incarnation=incarnation,
            limbo=reason,
            former=former,
            blank=False,
        )
        self._found = incarnation
        return (self.row(),)

    def renew(self, incarnation: bytes) -> tuple[Write, ...]:
        """Take a new incarnation, because something that the former one acknowledged is gone."""
        former = _merged(self.record.former, (self.record.incarnation,))
        self.record = replace(self.record, incarnation=incarnation, former=former)
        return (self.row(),)

    def begin_check(self, peers: Collection[str]) -> None:
        """Vouch for nothing before the peers were heard, or could not be: `unchecked` says so.

        A store that is alone, or blank, has nothing to wait for. A store that is in limbo as a
        whole may vouch for sources that it knows.
        """
        if peers and not self.record.blank:
            self.unchecked = UNCHECKED_REASON

    def fill(self) -> tuple[Write, ...]:
        """Note that the store is no longer blank: it takes over a part of what a group has.

        If such a store then finds all its peers blank, they must not found a group together.
        The messages that it lacks may have been stable.
        """
        if not self.record.blank:
            return ()
        self.record = replace(self.record, blank=False)
        return (self.row(),)

    def may_leave(self, configured: Collection[str], answers: Collection[PeerAnswer]) -> bool:
        """Whether every peer has answered from outside limbo: then nothing is unknown but the
        sources that they know."""
        sure = {answer.address for answer in answers if not answer.limbo}
        return bool(self.record.limbo) and sure == set(configured)

    def leave_limbo(self, *, by_hand: bool = False) -> tuple[Write, ...]:
        """Vouch again for what is lacking; by_hand: an operator says so, and no peer."""
        self.record = replace(self.record, limbo="", blank=False, by_hand=by_hand)
        return (self.row(),)

    def founders(
        self, configured: Collection[str], heard: Mapping[str, Heard]
    ) -> tuple[Greeting, ...]:
        """Return the stores that found a new group, this one among them; empty: none do.

        configured: the addresses of all peers; heard: the latest answers, by address.
        """
        if not self.record.blank:
            return ()
        for item in heard.values():
            if any(one.incarnation == self.record.incarnation for one in item.answer.founders):
                return item.answer.founders
        if set(heard) != set(configured) or not all(item.answer.blank for item in heard.values()):
            return ()
        # Blank at different times would not do: each might have been filled from the others in
        # between. A store becomes blank only with a new incarnation. So if each has said it again
        # after the last of them was first heard, all were blank at that time.
        if heard and max(item.first for item in heard.values()) > min(
            item.asked for item in heard.values()
        ):
            return ()
        mine = Greeting(store_name=self.store, incarnation=self.record.incarnation)
        theirs = [
            Greeting(store_name=item.answer.store, incarnation=item.answer.incarnation)
            for item in heard.values()
        ]
        return (mine, *theirs)

    def found(self, founders: tuple[Greeting, ...]) -> tuple[Write, ...]:
        """Leave limbo as one of the founders."""
        self.record = replace(self.record, limbo="", blank=False, founders=founders)
        return (self.row(),)


def replacement(greeting: Greeting) -> StoreReplaced:
    """Return the message that tells a source of a store that greeted."""
    return StoreReplaced(
        store_name=greeting.store_name,
        incarnation=greeting.incarnation,
        former=greeting.former,
    )


def knows(greeting: Greeting, remembered: Greeting | None) -> bool:
    """Whether the peer that this greeting was sent to has taken note of it; as `Standing.met` says.

    remembered: what it says that it knew of this store before.
    """
    if remembered is None or remembered.incarnation == greeting.incarnation:
        return True
    is_former = greeting.incarnation in remembered.former
    is_named = remembered.incarnation in greeting.former
    return is_named and not is_former


def is_one_run(one: Greeting, other: Greeting) -> bool:
    """Return whether two greetings come from one run of a store."""
    return (one.incarnation, one.starts) == (other.incarnation, other.starts)


def _was_put_back(greeting: Greeting, known: Greeting) -> bool:
    """Return whether a directory comes with less than is known of this incarnation.

    A greeting of the run that is known may merely be late.
    """
    is_later = greeting.starts > known.starts
    return greeting.starts < known.starts or (is_later and greeting.commits < known.commits)


def _not_present(known: Greeting) -> Met:
    return Met(known, False, (), is_present=False)


def _with_former(greeting: Greeting, known: Greeting | None) -> Greeting:
    """The greeting with all that the store was before, as far as either says."""
    present = Greeting()
    present.CopyFrom(greeting)
    del present.former[:]
    if known is None:
        present.former.extend(_merged(greeting.former))
        return present
    before = () if known.incarnation == greeting.incarnation else (known.incarnation,)
    present.former.extend(_merged(greeting.former, known.former, before))
    if is_one_run(known, greeting):
        present.commits = max(known.commits, greeting.commits)
    return present


def _merged(*former: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return each incarnation once, the oldest first; of very many only the newest."""
    return tuple(dict.fromkeys(each for some in former for each in some))[-_FORMER_MAX:]


def started(
    store: str,
    record: StoreRecord | None,
    peers: Collection[str] | None,
    draw: Callable[[], bytes],
) -> StoreRecord:
    """Return the record that must be durable before a store serves. Raises NotFounded.

    record: the record on the disk, None in a blank directory.

    peers: the configured peers, None if none are configured.

    draw: makes a new incarnation.
    """
    if record is None:
        record = StoreRecord(draw(), limbo=NEW_REASON, blank=True)
    if record.blank and peers is None:
        raise NotFounded(store)
    if record.blank and not peers:
        record = replace(record, limbo="", blank=False)
    return replace(record, starts=record.starts + 1)
