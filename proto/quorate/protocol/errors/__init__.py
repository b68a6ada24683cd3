"""Every error that Quorate raises on purpose, by family.

    QuorateError
    ├── peers          Unreachable, StoreStopping, TakenForHung, NotAStore, VersionMismatch,
    │                  BrokenAnswer, LiveStreamOver
    ├── registration   NotRegistered, NoQuorum, InLimbo, SourceActive, ReceiverActive,
    │                  RegIdInUse, Fenced, TakenOver, EpochTooFar, Deregistered,
    │                  SourceDeleted, PolicyNotInForce, NeverStable, UnknownTopic, TopicRefused,
    │                  TooManyRegistrations, StoreFull
    ├── sending        NotYetStable, NotYetOnDisk, SendTimedOut, NotKept,
    │                  PublishStoreInUse, PublishStoreDamaged
    ├── stream         ContentConflict, BatchRefused, OutOfOrder, MissingMessages,
    │                  CorruptBatch, OtherLineage, NotLost
    ├── replay         UnknownBookmark, BookmarkStoreFailed, BookmarksTakenOver,
    │                  TooManySubscriptions, StoreLags, PositionNotReached
    ├── state          TopicHasNoKeys, PastUnavailable, StateUnavailable
    ├── queues         UnknownQueue, QueueElsewhere, NotYetSettled
    ├── storage        StorageFailed, StorageUnreadable, DataDirectoryInUse,
    │                  DataDirectoryOfAnother, DataDirectoryUsed, DataDirectoryNewer,
    │                  DataDirectoryOlder, DataDirectoryCorrupt
    ├── configuration  ConfigurationInvalid, NotFounded, StoreNotReady
    ├── calls          InvalidArgument, InvalidFilter, MessageTooLarge, Closed,
    │                  UsedBeforeFork, WaitsForItself
    ├── security       TlsFailed, AccessDenied, LimitReached
    ├── restore        OtherHistory, BeingDeleted, RestoreRefused
    └── archive        ArchiveUnusable, ArchiveInvalid, ArchiveNewer, ArchiveChanged,
                       ArchiveDiffers

The errors of Spark and of the pipeline's jobs are in quorate.pipeline.errors.
An error carries its facts as fields. Its text says what happened, why, and what to do next.
Errors cross the wire by class name and fields (see quorate.transport.failures), so a field is a
`str` or an `int`. `retryable`, `outcome` and `exit_code` belong to the class.

Only the import of each name is here: everybody imports the errors from this package.
"""

from __future__ import annotations

from quorate.protocol.errors.archive import ArchiveChanged as ArchiveChanged
from quorate.protocol.errors.archive import ArchiveDiffers as ArchiveDiffers
from quorate.protocol.errors.archive import ArchiveInvalid as ArchiveInvalid
from quorate.protocol.errors.archive import ArchiveNewer as ArchiveNewer
from quorate.protocol.errors.archive import ArchiveUnusable as ArchiveUnusable
from quorate.protocol.errors.base import Outcome as Outcome
from quorate.protocol.errors.base import QuorateError as QuorateError
from quorate.protocol.errors.base import joined as joined
from quorate.protocol.errors.calls import UNKNOWN_SIZE as UNKNOWN_SIZE
from quorate.protocol.errors.calls import Closed as Closed
from quorate.protocol.errors.calls import InvalidArgument as InvalidArgument
from quorate.protocol.errors.calls import InvalidFilter as InvalidFilter
from quorate.protocol.errors.calls import MessageTooLarge as MessageTooLarge
from quorate.protocol.errors.calls import UsedBeforeFork as UsedBeforeFork
from quorate.protocol.errors.calls import WaitsForItself as WaitsForItself
from quorate.protocol.errors.configuration import ConfigurationInvalid as ConfigurationInvalid
from quorate.protocol.errors.configuration import NotFounded as NotFounded
from quorate.protocol.errors.configuration import StoreNotReady as StoreNotReady
from quorate.protocol.errors.peers import BrokenAnswer as BrokenAnswer
from quorate.protocol.errors.peers import LiveStreamOver as LiveStreamOver
from quorate.protocol.errors.peers import NotAStore as NotAStore
from quorate.protocol.errors.peers import StoreStopping as StoreStopping
from quorate.protocol.errors.peers import TakenForHung as TakenForHung
from quorate.protocol.errors.peers import Unreachable as Unreachable
from quorate.protocol.errors.peers import VersionMismatch as VersionMismatch
from quorate.protocol.errors.queues import NotYetSettled as NotYetSettled
from quorate.protocol.errors.queues import QueueElsewhere as QueueElsewhere
from quorate.protocol.errors.queues import UnknownQueue as UnknownQueue
from quorate.protocol.errors.registration import FORMER_DIRECTORY as FORMER_DIRECTORY
from quorate.protocol.errors.registration import STREAM_IS_OPEN as STREAM_IS_OPEN
from quorate.protocol.errors.registration import Deregistered as Deregistered
from quorate.protocol.errors.registration import EpochTooFar as EpochTooFar
from quorate.protocol.errors.registration import Fenced as Fenced
from quorate.protocol.errors.registration import InLimbo as InLimbo
from quorate.protocol.errors.registration import NeverStable as NeverStable
from quorate.protocol.errors.registration import NoQuorum as NoQuorum
from quorate.protocol.errors.registration import NotRegistered as NotRegistered
from quorate.protocol.errors.registration import PolicyNotInForce as PolicyNotInForce
from quorate.protocol.errors.registration import ReceiverActive as ReceiverActive
from quorate.protocol.errors.registration import RegIdInUse as RegIdInUse
from quorate.protocol.errors.registration import SourceActive as SourceActive
from quorate.protocol.errors.registration import SourceDeleted as SourceDeleted
from quorate.protocol.errors.registration import StoreFull as StoreFull
from quorate.protocol.errors.registration import TakenOver as TakenOver
from quorate.protocol.errors.registration import TooManyRegistrations as TooManyRegistrations
from quorate.protocol.errors.registration import TopicRefused as TopicRefused
from quorate.protocol.errors.registration import UnknownTopic as UnknownTopic
from quorate.protocol.errors.registration import no_turn as no_turn
from quorate.protocol.errors.replay import BookmarksTakenOver as BookmarksTakenOver
from quorate.protocol.errors.replay import BookmarkStoreFailed as BookmarkStoreFailed
from quorate.protocol.errors.replay import PositionNotReached as PositionNotReached
from quorate.protocol.errors.replay import StoreLags as StoreLags
from quorate.protocol.errors.replay import TooManySubscriptions as TooManySubscriptions
from quorate.protocol.errors.replay import UnknownBookmark as UnknownBookmark
from quorate.protocol.errors.restore import BeingDeleted as BeingDeleted
from quorate.protocol.errors.restore import OtherHistory as OtherHistory
from quorate.protocol.errors.restore import RestoreRefused as RestoreRefused
from quorate.protocol.errors.security import AccessDenied as AccessDenied
from quorate.protocol.errors.security import LimitReached as LimitReached
from quorate.protocol.errors.security import TlsFailed as TlsFailed
from quorate.protocol.errors.sending import NotKept as NotKept
from quorate.protocol.errors.sending import NotYetOnDisk as NotYetOnDisk
from quorate.protocol.errors.sending import NotYetStable as NotYetStable
from quorate.protocol.errors.sending import PublishStoreDamaged as PublishStoreDamaged
from quorate.protocol.errors.sending import PublishStoreInUse as PublishStoreInUse
from quorate.protocol.errors.sending import SendTimedOut as SendTimedOut
from quorate.protocol.errors.state import PastUnavailable as PastUnavailable
from quorate.protocol.errors.state import StateUnavailable as StateUnavailable
from quorate.protocol.errors.state import TopicHasNoKeys as TopicHasNoKeys
from quorate.protocol.errors.storage import DataDirectoryCorrupt as DataDirectoryCorrupt
from quorate.protocol.errors.storage import DataDirectoryInUse as DataDirectoryInUse
from quorate.protocol.errors.storage import DataDirectoryNewer as DataDirectoryNewer
from quorate.protocol.errors.storage import DataDirectoryOfAnother as DataDirectoryOfAnother
from quorate.protocol.errors.storage import DataDirectoryOlder as DataDirectoryOlder
from quorate.protocol.errors.storage import DataDirectoryUsed as DataDirectoryUsed
from quorate.protocol.errors.storage import StorageFailed as StorageFailed
from quorate.protocol.errors.storage import StorageUnreadable as StorageUnreadable
from quorate.protocol.errors.stream import BatchRefused as BatchRefused
from quorate.protocol.errors.stream import ContentConflict as ContentConflict
from quorate.protocol.errors.stream import CorruptBatch as CorruptBatch
from quorate.protocol.errors.stream import MissingMessages as MissingMessages
from quorate.protocol.errors.stream import NotLost as NotLost
from quorate.protocol.errors.stream import OtherLineage as OtherLineage
from quorate.protocol.errors.stream import OutOfOrder as OutOfOrder
