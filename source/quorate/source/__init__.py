"""The source SDK: send messages to live receivers and, at the same time, to a quorum of stores.

    async with await Source.open("orders", stores="a=host:7301,b=…") as source:
        await source.send(b"…")              # accepted
        receipt = await source.publish(b"…")  # stable, on a quorum's disks

`quorate.source.blocking.Source` has the same methods for code without asyncio. This module only
exports names; nothing is defined here.
"""

from quorate.protocol.consensus import Behaviour
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.pacing import ReceiverPacing
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy
from quorate.source.events import (
    BackupSteppedBack,
    BackupSteppedIn,
    DeliveryConfirmed,
    DeregistrationComplete,
    DeregistrationSucceeded,
    Event,
    EventsLost,
    FlightExceeded,
    FlightRelieved,
    LaggingReceiver,
    MembershipChanged,
    MessageStable,
    NotStable,
    NotStableCause,
    QuorumLost,
    ReceiverAttached,
    ReceiverDetached,
    ReceiverOverrun,
    ReceiversCaughtUp,
    ReceiversLag,
    Reclaimed,
    RegistrationComplete,
    RegistrationRefused,
    RegistrationSucceeded,
    SourceClosed,
    SourceFailed,
    StoreCaughtUp,
    StoreInLimbo,
    StoreKeepsState,
    StoreReplaced,
    StoreReturned,
    StoreStable,
    StoreUnresponsive,
    WaitingForIdentity,
    WaitingForStores,
)
from quorate.source.options import FlightBehaviour, SourceOptions, StabilityEvents, WithoutQuorum
from quorate.source.protocol.outgoing import Outgoing
from quorate.source.protocol.unstable import UnstableMessage
from quorate.source.publish_store import FilePublishStore, MemoryPublishStore, PublishStore
from quorate.source.receipts import Durability, Receipt
from quorate.source.source import Source

__all__ = [
    "BackupSteppedBack",
    "BackupSteppedIn",
    "Behaviour",
    "DeliveryConfirmed",
    "DeregistrationComplete",
    "DeregistrationSucceeded",
    "Durability",
    "Event",
    "EventsLost",
    "FilePublishStore",
    "FlightBehaviour",
    "FlightExceeded",
    "FlightRelieved",
    "Group",
    "IntergroupRule",
    "IntragroupRule",
    "LaggingReceiver",
    "Layout",
    "MembershipChanged",
    "MemoryPublishStore",
    "MessageStable",
    "NotStable",
    "NotStableCause",
    "Outgoing",
    "Policy",
    "PublishStore",
    "QuorumLost",
    "Receipt",
    "ReceiverAttached",
    "ReceiverDetached",
    "ReceiverOverrun",
    "ReceiverPacing",
    "ReceiversCaughtUp",
    "ReceiversLag",
    "Reclaimed",
    "RegistrationComplete",
    "RegistrationRefused",
    "RegistrationSucceeded",
    "Source",
    "SourceClosed",
    "SourceFailed",
    "SourceOptions",
    "StabilityEvents",
    "StoreCaughtUp",
    "StoreGroup",
    "StoreInLimbo",
    "StoreKeepsState",
    "StoreReplaced",
    "StoreReturned",
    "StoreStable",
    "StoreUnresponsive",
    "UnstableMessage",
    "WaitingForIdentity",
    "WaitingForStores",
    "WithoutQuorum",
]
