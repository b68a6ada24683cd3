"""Every error that Quorate raises on purpose, in one tree.

    QuorateError
    ├── Unreachable, StoreStopping, NotRegistered, NoQuorum, SourceActive,
    │   ReceiverActive, InLimbo                                              try again
    ├── Fenced, ContentConflict, OutOfOrder, MissingMessages, NotYetStable,
    │   Deregistered, PolicyNotInForce, NeverStable, NotLost, OtherHistory,
    │   OtherLineage, BeingDeleted, RestoreRefused, SourceDeleted            the protocol says no
    ├── RowsDiffer, RowsUnaccounted, WriteNotOurs, AttemptSuperseded         Spark writes otherwise
    ├── CorruptBatch, BrokenAnswer, StorageFailed, StorageUnreadable         bytes or disks are bad
    ├── NotAStore, VersionMismatch, RegIdInUse, UnknownTopic, TopicRefused   the wrong peer or name
    ├── MessageTooLarge, InvalidArgument, Closed                             the call is wrong
    ├── ConfigurationInvalid, DataDirectoryInUse, DataDirectoryOfAnother,
    │   DataDirectoryUsed, DataDirectoryNewer, DataDirectoryOlder,
    │   DataDirectoryCorrupt, NotFounded, StoreNotReady                      a store can not start
    ├── JavaNotFound, MessagesGone, OffsetsBehind                            no reading with Spark
    └── ArchiveUnusable, NotArchived, ArchiveInvalid, ArchiveNewer,
        ArchiveChanged, ArchiveDiffers, TaskFailed, FunctionFailed,
        Interrupted                                                            jobs of the pipeline

An error carries its facts as fields; its text says what happened, why, and what to do next.
Errors cross the wire by class name and fields (see quorate.transport.failures), so a field is a
`str` or an `int`.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.error_base import Outcome as Outcome
from quorate.protocol.error_base import QuorateError as QuorateError
from quorate.protocol.job_errors import ArchiveChanged as ArchiveChanged
from quorate.protocol.job_errors import ArchiveDiffers as ArchiveDiffers
from quorate.protocol.job_errors import ArchiveInvalid as ArchiveInvalid
from quorate.protocol.job_errors import ArchiveNewer as ArchiveNewer
from quorate.protocol.job_errors import ArchiveUnusable as ArchiveUnusable
from quorate.protocol.job_errors import FunctionFailed as FunctionFailed
from quorate.protocol.job_errors import Interrupted as Interrupted
from quorate.protocol.job_errors import JavaNotFound as JavaNotFound
from quorate.protocol.job_errors import MessagesGone as MessagesGone
from quorate.protocol.job_errors import NotArchived as NotArchived
from quorate.protocol.job_errors import OffsetsBehind as OffsetsBehind
from quorate.protocol.job_errors import TaskFailed as TaskFailed

DELETED_HERE = "it was deleted here, and other stores may still have it"
"""The reason of a store that deleted a source, and can not vouch yet that nothing is left of it."""
FORMER_DIRECTORY = (
    "it answers from a data directory that other stores know as a former one of it; if a copy of "
    "it runs beside it, see that one runs alone"
)
"""Why what a store answered does not count; it may not know so itself."""


@dataclass(eq=False)
class Unreachable(QuorateError):
    address: str
    detail: str
    retryable = True
    outcome = Outcome.UNKNOWN

    def describe(self) -> str:
        return (
            f"{self.address} can not be reached ({self.detail}). "
            "Is it running, and is the address right?"
        )


@dataclass(eq=False)
class StoreStopping(QuorateError):
    store: str
    retryable = True

    def describe(self) -> str:
        return f"Store {self.store} is stopping. Try another store, or this one again shortly."


@dataclass(eq=False)
class NotRegistered(QuorateError):
    source: str
    detail: str
    retryable = True

    def describe(self) -> str:
        return (
            f"Source {self.source} is not registered with enough stores ({self.detail}), so the "
            "message was not accepted. Try again: it registers by itself once the stores are back."
        )


@dataclass(eq=False)
class NoQuorum(QuorateError):
    what: str
    answered: str
    silent: str
    detail: str
    limbo: str = ""
    """Of those that answered: who can not vouch for what it lacks, and so does not count."""
    deleted: str = ""
    """Of those in limbo: who deleted the source, and waits for others that may still have it."""
    retryable = True

    def describe(self) -> str:
        return f"{self.what} needs more stores than {self._heard()} ({self.detail}). {self._step()}"

    def _heard(self) -> str:
        if not self.answered and not self.silent:
            return "took part"
        if not self.answered:
            return f"answered. None did: {self.silent}"
        heard = f"answered{' outside limbo' if self.limbo else ''}. Answered: "
        heard += self.answered
        heard += f"; of these in limbo: {self.limbo}" if self.limbo else ""
        return heard + (f"; not: {self.silent}" if self.silent else "")

    def _step(self) -> str:
        steps = []
        if self.silent:
            steps.append("Start those that are down, or correct their addresses.")
        if self.deleted:
            steps.append(
                f"Who deleted the source ({self.deleted}) vouches again once the others have said "
                "that they deleted it, too, or go on with it: have all of them run, with an empty "
                "one in place of one that is gone for good. `quorate repair --source "
                "TOPIC/SESSION` says for whom it waits."
            )
        if self.limbo != self.deleted:
            steps.append(
                "One in limbo can not vouch for what it lacks: `quorate status` says why, and for "
                "whom it waits; it is filled once these are there. If nobody has it any more: "
                "`quorate repair --accept-loss`, or `--leave-limbo` for a store that waits for one "
                "that is gone, or can not be spared."
            )
        return " ".join(steps) or "`quorate status` says how they are."


@dataclass(eq=False)
class SourceActive(QuorateError):
    source: str
    store: str
    retryable = True

    def describe(self) -> str:
        return (
            f"Store {self.store} has a living source {self.source}: another process uses this "
            "topic and session ID, or did less than its activity timeout ago. Stop it, choose "
            "another session ID, or fence it: open with take_over=True, or "
            "`quorate send --take-over`."
        )


@dataclass(eq=False)
class ReceiverActive(QuorateError):
    receiver: str
    store: str
    retryable = True

    def describe(self) -> str:
        return (
            f"Store {self.store} has a living {self.receiver}: another process uses this session "
            "ID, or did less than its activity timeout ago. Stop it, choose another session ID, "
            "or fence it: open with take_over=True."
        )


@dataclass(eq=False)
class InLimbo(QuorateError):
    source: str
    store: str
    reason: str
    retryable = True

    def describe(self) -> str:
        return (
            f"Store {self.store} can not vouch for what it lacks of {self.source} ({self.reason}), "
            f"so it takes nothing yet. It will by itself, once it has heard {self._step()}"
        )

    def _step(self) -> str:
        if self.reason == DELETED_HERE:
            return (
                "that they deleted it, too, or go on with it: `quorate repair --source "
                f"{self.source}` says for whom it waits. Have all of them run, with an empty one "
                "in place of one that is gone for good."
            )
        return (
            "enough of its peers: `quorate status` says for whom it waits, and what to do if they "
            "can not help it."
        )


@dataclass(eq=False)
class Fenced(QuorateError):
    who: str
    epoch: int
    promised: int
    outcome = Outcome.UNKNOWN

    def describe(self) -> str:
        return (
            f"{self.who} of epoch {self.epoch} is fenced: another instance registered the same "
            f"identity with epoch {self.promised}. Only the newer one can go on: close this one. "
            "What it published that is not yet stable, or acknowledged last, may or may not count."
        )


@dataclass(eq=False)
class Deregistered(QuorateError):
    who: str

    def describe(self) -> str:
        return (
            f"{self.who} is deregistered: the stores were told to forget it. It can not be used "
            "again; open a new one, which starts from the beginning."
        )


@dataclass(eq=False)
class SourceDeleted(QuorateError):
    source: str
    upto: int

    def describe(self) -> str:
        return (
            f"The stores have deleted {self.source}: its state lifetime was over, or it was "
            f"deregistered, while this instance, which knows of messages up to {self.upto}, was "
            "away. It can not go on. Open it anew, which starts from the beginning; if it has a "
            "publish store on disk, with an empty one: what that has is of the deleted stream."
        )


@dataclass(eq=False)
class PolicyNotInForce(QuorateError):
    source: str
    in_force: str
    configured: str

    def describe(self) -> str:
        return (
            f"Source {self.source} is kept by {self.in_force}. This configuration names "
            f"{self.configured}, and does not say that it follows on that: nothing was changed. If "
            "it is an old configuration, use the one in force. If the stream is to move, name "
            "what is in force in previous_policies (in a file: [[previous]])."
        )


@dataclass(eq=False)
class NeverStable(QuorateError):
    source: str
    policy: str
    state_only: str

    def describe(self) -> str:
        return (
            f"No message of source {self.source} can become stable under {self.policy}: "
            f"no messages of this topic are kept by {self.state_only} (durability = state-only). "
            "Name enough stores in the policy that keep them, or configure these stores to do so."
        )


@dataclass(eq=False)
class ContentConflict(QuorateError):
    source: str
    first: int
    last: int
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} holds other content for {self.source} "
            f"[{self.first}, {self.last}]. Nothing was overwritten. "
            "Two sources may have used one identity, or a publish store was restored "
            "from a copy: compare the stores before going on."
        )


@dataclass(eq=False)
class NotLost(QuorateError):
    source: str
    first: int
    last: int
    store: str
    detail: str

    def describe(self) -> str:
        return (
            f"Store {self.store} does not record [{self.first}, {self.last}] of {self.source} as "
            f"lost: {self.detail}. Nothing was recorded there. Look at `quorate status`, and name "
            "only what no store has."
        )


@dataclass(eq=False)
class OtherHistory(QuorateError):
    source: str
    first: int
    epoch: int
    archived_epoch: int
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} follows another history of {self.source} than the archive: for "
            f"{self.first} it names epoch {self.epoch}, the archive {self.archived_epoch}. Nothing "
            "was written. The source went on without what is archived: restore into other stores, "
            "or, if what came since may go, `quorate deregister` it first."
        )


@dataclass(eq=False)
class OtherLineage(QuorateError):
    address: str
    source: str
    first: int
    last: int
    epoch: int
    retryable = True

    def describe(self) -> str:
        return (
            f"What {self.address} gives of {self.source} for [{self.first}, {self.last}] is of "
            f"epoch {self.epoch}, which does not belong to the stream there. Nothing of it was "
            "used; it is asked again later. If it happens again: look whether two stores run under "
            "that store's name."
        )


@dataclass(eq=False)
class BeingDeleted(QuorateError):
    source: str
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} is deleting what it had of {self.source}, and others may still "
            "have a part. Nothing was written. Try again when every store that had it has deleted "
            "it, or restore into other stores."
        )


@dataclass(eq=False)
class RestoreRefused(QuorateError):
    source: str
    store: str
    reason: str
    retryable = True

    def describe(self) -> str:
        return (
            f"Store {self.store} can not vouch for what it lacks of {self.source} ({self.reason}), "
            "so it does not know which history is in force, and takes none from an archive. While "
            "others of its group have the stream it is filled from them by itself: `quorate "
            "status` says for whom it waits. If all of them lost it: found the group anew "
            "(`quorate store init --new`), or `quorate repair --leave-limbo`, then restore."
        )


@dataclass(eq=False)
class OutOfOrder(QuorateError):
    source: str
    expected: int
    first: int
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} expected {self.source} to go on at {self.expected} but got "
            f"{self.first}. The batch was not taken; the stream must be opened anew."
        )


@dataclass(eq=False)
class MissingMessages(QuorateError):
    source: str
    first: int
    last: int
    might_have: str
    retryable = True

    def describe(self) -> str:
        return (
            f"{self.source} can not go on: [{self.first}, {self.last}] may have been stable and "
            f"no store that answered has it. It might be on: {self.might_have or 'no known store'}"
            ". Bring one of them back, or, if it is gone for good: `quorate repair --accept-loss`."
        )


@dataclass(eq=False)
class NotYetStable(QuorateError):
    source: str
    first: int
    last: int
    detail: str
    outcome = Outcome.UNKNOWN

    def describe(self) -> str:
        return (
            f"[{self.first}, {self.last}] of {self.source} were sent but are not known to be "
            f"stable ({self.detail}). They may or may not survive: look at the stores, or open "
            "the source again with the same publish store, which sends them again."
        )


@dataclass(eq=False)
class RowsDiffer(QuorateError):
    source: str
    write: str
    batch: int
    partition: int
    rows: int
    detail: str

    def describe(self) -> str:
        return (
            f"Partition {self.partition} of batch {self.batch} of write {self.write} was begun "
            f"before: {self.rows:,} of its rows are in {self.source}, and the rows did not come "
            f"back the same ({self.detail}). This task wrote nothing more. Whatever computes the "
            "rows must give each partition the same rows in the same order when Spark repeats it: "
            "keep the number of partitions (repartition(n)), sort after a shuffle "
            "(sortWithinPartitions), and take out what is random or depends on the time. What is "
            "written stays; to write other rows after all, start another write: another writeId, "
            "or for a stream another checkpoint."
        )


@dataclass(eq=False)
class RowsUnaccounted(QuorateError):
    write: str
    batch: int
    rows: int
    sources: str

    def describe(self) -> str:
        return (
            f"Batch {self.batch} of write {self.write} is not committed: {self.rows:,} rows of it, "
            f"written when it was tried before, belong to no task of this attempt: {self.sources}. "
            "The number of partitions was another, or the rows were, so some of them are in the "
            "topic twice. Keep the number of partitions over restarts (repartition(n)). This "
            "batch can not be made good: start another write (another writeId, or for a stream "
            "another checkpoint) behind it, and remove the duplicates where they are read."
        )


@dataclass(eq=False)
class WriteNotOurs(QuorateError):
    source: str
    found: str

    def describe(self) -> str:
        return (
            f"Source {self.source} belongs to something else ({self.found}), so this write can "
            "not tell what of it is there. Nothing was written. Choose another writeId, or for a "
            "stream another checkpoint."
        )


@dataclass(eq=False)
class AttemptSuperseded(QuorateError):
    source: str
    partition: int
    attempt: int
    outcome = Outcome.UNKNOWN

    def describe(self) -> str:
        return (
            f"Attempt {self.attempt} of partition {self.partition} stops: another attempt of it "
            f"has taken over {self.source}. Nothing is lost or written twice: that one goes on "
            "where this one was. If both failed, look at the error of the other one first."
        )


@dataclass(eq=False)
class CorruptBatch(QuorateError):
    where: str
    detail: str

    def describe(self) -> str:
        return (
            f"A batch {self.where} is corrupt ({self.detail}). It was not used. "
            "Another copy serves if there is one; check this machine's memory, disk and network."
        )


@dataclass(eq=False)
class BrokenAnswer(QuorateError):
    address: str
    detail: str
    retryable = True

    def describe(self) -> str:
        return (
            f"What {self.address} answers to a fetch ends before it is whole ({self.detail}). What "
            "came until then counts; others are asked for the rest. If it happens again: look at "
            "its log and version, and at whatever there is on the way to it."
        )


@dataclass(eq=False)
class StorageFailed(QuorateError):
    path: str
    detail: str
    outcome = Outcome.UNKNOWN

    def describe(self) -> str:
        return (
            f"Writing to {self.path} failed ({self.detail}). After a failed write or sync nothing "
            "that follows could be trusted, so it stops here. Check the path, make room or replace "
            "the disk, then start again; what was acknowledged before is on the disk."
        )


@dataclass(eq=False)
class StorageUnreadable(StorageFailed):
    """Whoever asked does not know what is there: it counts as unknown, never as absent."""

    outcome = Outcome.KNOWN

    def describe(self) -> str:
        return (
            f"Reading from {self.path} failed ({self.detail}). What is there counts as unknown, "
            "not as absent, and nothing was changed. If it goes on, check the disk, and replace "
            "the store: stop it, move its data directory away and start it; its peers give it "
            "what they have."
        )


@dataclass(eq=False)
class NotAStore(QuorateError):
    address: str
    detail: str

    def describe(self) -> str:
        return (
            f"{self.address} answers, but not as a Quorate store ({self.detail}). "
            "Check the host and the port."
        )


@dataclass(eq=False)
class VersionMismatch(QuorateError):
    address: str
    theirs: int
    ours: int

    def describe(self) -> str:
        return (
            f"{self.address} speaks protocol version {self.theirs}, this side {self.ours}. "
            "Upgrade the older of the two."
        )


@dataclass(eq=False)
class RegIdInUse(QuorateError):
    reg_id: int
    store: str
    holder: str

    def describe(self) -> str:
        return (
            f"RegID {self.reg_id} belongs to {self.holder} on store {self.store}. "
            "Choose another RegID, or leave it to the store."
        )


@dataclass(eq=False)
class UnknownTopic(QuorateError):
    topic: str
    known: str
    retryable = True

    def describe(self) -> str:
        return (
            f"No store has a source for topic {self.topic!r}. Known topics: "
            f"{self.known or 'none'}. Check the spelling, or start the source first."
        )


@dataclass(eq=False)
class TopicRefused(QuorateError):
    topic: str
    store: str
    admitted: str

    def describe(self) -> str:
        return (
            f"Store {self.store} does not take topic {self.topic!r}; its configuration admits: "
            f"{self.admitted}. Use such a topic, or add this one to the store's topics."
        )


UNKNOWN_SIZE = 0
"""Of a message that was given up before its end was seen."""


@dataclass(eq=False)
class MessageTooLarge(QuorateError):
    size: int
    limit: int

    def describe(self) -> str:
        is_too_large = (
            f"has {self.size:,} bytes, its key and properties counted; the limit is {self.limit:,}"
            if self.size != UNKNOWN_SIZE
            else f"has more than {self.limit:,} bytes, which is the limit"
        )
        return (
            f"The message {is_too_large}. It was not accepted. Split it, or send a reference to "
            "where the data is."
        )


@dataclass(eq=False)
class InvalidArgument(QuorateError):
    argument: str
    detail: str

    def describe(self) -> str:
        return f"{self.argument}: {self.detail}."


@dataclass(eq=False)
class Closed(QuorateError):
    what: str

    def describe(self) -> str:
        return f"{self.what} is closed. Open a new one."


@dataclass(eq=False)
class ConfigurationInvalid(QuorateError):
    path: str
    problems: str
    """One problem a line, each with the path of its key."""

    def describe(self) -> str:
        return f"The configuration {self.path} is not valid:\n{self.problems}"


@dataclass(eq=False)
class DataDirectoryInUse(QuorateError):
    path: str
    holder: str

    def describe(self) -> str:
        return (
            f"Data directory {self.path} is in use by {self.holder}. "
            "Stop that one first; a second store needs a directory of its own."
        )


@dataclass(eq=False)
class DataDirectoryOfAnother(QuorateError):
    path: str
    owner: str
    store: str

    def describe(self) -> str:
        return (
            f"Data directory {self.path} is that of store {self.owner!r}, not {self.store!r}. "
            "Nothing was changed. Give this store a directory of its own, or remove this one, if "
            "what it holds is on other stores, too."
        )


@dataclass(eq=False)
class DataDirectoryUsed(QuorateError):
    path: str
    store: str

    def describe(self) -> str:
        return (
            f"Data directory {self.path} has been used by store {self.store!r} already. Nothing "
            "was changed. The store can be started with it as it is; to begin anew, remove it "
            "first, if what it holds is on other stores, too."
        )


@dataclass(eq=False)
class DataDirectoryNewer(QuorateError):
    path: str
    theirs: int
    ours: int

    def describe(self) -> str:
        return (
            f"Data directory {self.path} has format {self.theirs}, written by a newer version; "
            f"this one reads up to {self.ours}. Nothing was changed. "
            "Start it with the newer version."
        )


@dataclass(eq=False)
class DataDirectoryOlder(QuorateError):
    path: str
    theirs: int
    ours: int

    def describe(self) -> str:
        return (
            f"Data directory {self.path} has format {self.theirs}, of a version before the first "
            f"release; this one reads format {self.ours} only. Nothing was changed. Move it away, "
            "one store after the other: each is refilled from its peers."
        )


@dataclass(eq=False)
class DataDirectoryCorrupt(QuorateError):
    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"Data directory {self.path} is damaged: {self.detail}. Nothing was changed. Keep a "
            "copy for inspection, then start the store on an empty directory: it is filled from "
            "its peers."
        )


@dataclass(eq=False)
class NotFounded(QuorateError):
    store: str

    def describe(self) -> str:
        return (
            f"The data directory of store {self.store} is blank, and nothing says whether the "
            "store founds a new group or returns to one that has its messages. Name the other "
            "stores as its peers (`peers` in the configuration, or --peer), or, only for a group "
            "that never had any data, run `quorate store init --new` first."
        )


@dataclass(eq=False)
class StoreNotReady(QuorateError):
    """Of a store that this program runs itself."""

    store: str
    detail: str
    log: str

    def describe(self) -> str:
        return (
            f"Store {self.store}, which was started here, is not ready: {self.detail}. Look at its "
            f"log ({self.log}), and start it again."
        )
