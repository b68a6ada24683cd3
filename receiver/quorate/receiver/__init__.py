"""The receiver SDK: open a `Receiver` and iterate over it.

Start with `receiver` (what applications use) and `session` (one source as it is followed). What
decides safety has no I/O: `core` (the merge, in order), `plan` (what to fetch, what is proven lost)
and `acknowledgements` (what may be acknowledged). For code without asyncio see `blocking`.
"""

from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.receiver.events import (
    DeregistrationComplete,
    DeregistrationSucceeded,
    Event,
    Gap,
    ProxyGone,
    ProxyServes,
    RegistrationChanged,
    RegistrationComplete,
    RegistrationWaiting,
    SourceAttached,
    SourceChanged,
    SourceDetached,
    SourceGone,
    Stalled,
    StoreRefused,
    StoreRegistered,
    StoreUnresponsive,
    Withdrawn,
)
from quorate.receiver.message import Acknowledgement, DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode, Delivery, ReceiverOptions
from quorate.receiver.protocol.fetch_plan import Answer
from quorate.receiver.receiver import Receiver

__all__ = [
    "AcknowledgeMode",
    "Acknowledgement",
    "Answer",
    "Behaviour",
    "DeliveredBatch",
    "Delivery",
    "DeregistrationComplete",
    "DeregistrationSucceeded",
    "Event",
    "Gap",
    "Message",
    "ProxyGone",
    "ProxyServes",
    "Receiver",
    "ReceiverOptions",
    "RegistrationChanged",
    "RegistrationComplete",
    "RegistrationWaiting",
    "SourceAttached",
    "SourceChanged",
    "SourceDetached",
    "SourceGone",
    "Stalled",
    "StartingPoint",
    "StoreRefused",
    "StoreRegistered",
    "StoreUnresponsive",
    "Withdrawn",
]
